"""A GPU learns and answers as the CPU does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import votestream as vs
from conftest import ON_FEATURES, Stream, make_on_features, same_model
from votestream.compute.place import Place


@pytest.fixture(params=["torch on the CPU", "a GPU"])
def device(request, monkeypatch):
    """Where torch computes. The lines that a GPU runs are run on the CPU as well, to be tested everywhere."""
    if request.param == "a GPU":
        if not torch.cuda.is_available():
            pytest.skip("no GPU here")
        return "cuda"
    plain = Place.__init__

    def elsewhere(self, device):
        plain(self, "cpu")
        self._here = device == "cpu"

    monkeypatch.setattr(Place, "__init__", elsewhere)
    monkeypatch.setattr("votestream.core.learner.as_device", lambda device: torch.device("cpu"))
    return "cuda"


def learned(device, **params):
    stream = Stream(n_tasks=4, width=24)
    model = vs.CandidatesVoting(budget=80, device=device, **params)
    for X, y in stream.batches():
        model.partial_fit(X, y)
    return model, stream


@pytest.mark.parametrize("params", [{}, {"bias": True, "preset": "paper"}, {"decide": "nearest"}, {"decide": "argmax"}])
def test_another_device_gives_the_same_exemplars_and_the_same_answers(device, params):
    here, stream = learned("cpu", **params)
    there, _ = learned(device, **params)
    assert np.array_equal(here.exemplars_.features, there.exemplars_.features)
    assert np.allclose(here.weights_, there.weights_, atol=1e-4)
    assert np.isclose(here.beta_, there.beta_, rtol=1e-4)
    assert (here.predict(stream.X) == there.predict(stream.X)).mean() > 0.99
    assert np.allclose(here.predict_proba(stream.X), there.predict_proba(stream.X), atol=1e-2)
    one, other = here.vote(stream.X), there.vote(stream.X)
    assert np.allclose(one.prior, other.prior, atol=1e-3)
    assert np.allclose(one.score, other.score, atol=1e-2)


def test_resuming_on_one_device_is_exact(device, tmp_path):
    steady, stream = learned(device)
    model = vs.CandidatesVoting(budget=80, device=device)
    for i, (X, y) in enumerate(stream.batches()):
        model.partial_fit(X, y)
        if i == 10:
            model.save(tmp_path / "m.safetensors")
            model = vs.load(tmp_path / "m.safetensors")
    assert same_model(steady, model)
    assert np.array_equal(steady.predict_proba(stream.X), model.predict_proba(stream.X))


def test_a_model_moves_between_devices(device, tmp_path):
    there, stream = learned(device)
    there.save(tmp_path / "m.safetensors")
    here = vs.load(tmp_path / "m.safetensors", device="cpu")
    assert (here.predict(stream.X) == there.predict(stream.X)).mean() > 0.99


@pytest.mark.parametrize("name", ON_FEATURES)
def test_every_learner_answers_alike_on_another_device(device, name):
    stream = Stream(n_tasks=4, n=300, width=24)
    here, there = make_on_features(name)(), make_on_features(name)(device=device)
    for X, y in stream.batches():
        here.partial_fit(X, y)
        there.partial_fit(X, y)
    assert (here.predict(stream.X) == there.predict(stream.X)).mean() > 0.99
    assert np.allclose(here.predict_proba(stream.X), there.predict_proba(stream.X), atol=1e-2)
