"""A predictor as a torch module decides as the predictor does, in every case that has a rule of its own."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import votestream as vs
from conftest import ON_IMAGES, TRAINED, maker, one_thread
from votestream.learners.ours import gaussian_predictor
from votestream.testing.samples import ImageSamples, Samples

NAMES = np.array([f"class {letter}" for letter in "fbdace"])  # not in the order in which they come


def taught(model, stream):
    for X, y in stream.batches():
        model.partial_fit(X, NAMES[y])
    return model


class NoFloat64(TorchDispatchMode):
    """Refuses every operation that gives float64, which many runtimes do not have."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for found in tree_leaves(out):
            assert not isinstance(found, torch.Tensor) or found.dtype != torch.float64, func
        return out


def differs(model, X):
    """How far the module's probabilities are from the model's; it must decide the same, in float32 throughout."""
    module = model.snapshot().as_module()
    assert not [name for name, held in module.named_buffers() if held.dtype == torch.float64]
    with torch.no_grad(), NoFloat64():
        chosen, shares, *unknown = module(torch.tensor(X))
    assert model.classes_[chosen.numpy()].tolist() == model.predict(X).tolist()
    if unknown:
        np.testing.assert_allclose(unknown[0].numpy(), model.unknown_score(X), atol=1e-4)
        np.testing.assert_allclose(unknown[1].numpy(), model.confidence(X), atol=1e-4)
    return np.abs(shares.numpy() - model.predict_proba(X)).max()


@pytest.fixture
def rows(stream):
    """Rows that were learned, exemplars among them, and others."""
    return np.concatenate((stream.X[::7], stream.X[::9] * np.float32(1.1) + np.float32(0.1)))


def test_every_learner_on_features_can_be_exported(make_on_arrays, rows, stream):
    assert differs(taught(make_on_arrays(), stream), rows) < 1e-5


def test_calibrated_probabilities_and_unknown_scores_are_the_models(make_on_arrays, rows, stream):
    model = make_on_arrays()
    if "track" not in model.get_params():
        pytest.skip("it keeps no track record")
    assert differs(taught(model.set_params(track=True), stream), rows) < 1e-5


@pytest.mark.parametrize("name", ["bic", "er", "gdumb", "icarl"])
def test_a_trained_network_can_be_exported(name):
    assert name in TRAINED <= ON_IMAGES
    stream = ImageSamples()
    with one_thread():
        model = taught(maker(name)(), stream)
        X = stream.X[::9]
        assert differs(model, X) < 1e-5


@pytest.mark.parametrize("decide", ["argmax", "nearest"])
def test_candidates_voting_that_decides_otherwise(decide, rows, stream):
    assert differs(taught(vs.CandidatesVoting(decide=decide, device="cpu"), stream), rows) < 1e-5


@pytest.mark.parametrize("bias", [False, True])
def test_a_task_without_exemplars_is_no_prior(bias, rows, stream):
    with pytest.warns(UserWarning, match="later classes go without"):
        model = taught(vs.CandidatesVoting(budget=3, bias=bias, device="cpu"), stream)
    assert len(np.unique(model.exemplars_.tasks)) < len(model.tasks_)
    assert differs(model, rows) < 1e-5


def test_an_exemplar_of_two_tasks_is_a_tie_that_the_earlier_one_wins():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 9)).astype(np.float32)
    model = vs.CandidatesVoting(device="cpu").partial_fit(X, ["a", "b"] * 4, task=1)
    model.partial_fit(X, ["c", "d"] * 4, task=2)
    assert len(model.exemplars_.features) == 16
    assert differs(model, X) < 1e-5


def test_votes_that_count_alike(rows, stream):
    assert differs(taught(vs.NearestNeighbours(weights="majority", device="cpu"), stream), rows) < 1e-5


@pytest.mark.parametrize("block", [1, 50])
@pytest.mark.parametrize("power", [0.5, 0.7, 1])
def test_gaussians_of_any_power_with_rows_that_wait(block, power, rows, stream):
    assert differs(taught(vs.GaussianVoting(block=block, power=power, device="cpu"), stream), rows) < 1e-5


def test_gaussians_without_directions(rows, stream):
    model = taught(vs.GaussianVoting(budget_bytes=1_300, block=1, device="cpu"), stream)
    assert model.ranks_.max() <= 1
    assert differs(model, rows) < 1e-5


def test_thousands_of_classes_are_decided_by_all_densities(monkeypatch, rows, stream):
    model = taught(vs.GaussianVoting(device="cpu"), stream)
    monkeypatch.setattr(gaussian_predictor, "MANY", 3)
    many = taught(vs.GaussianVoting(device="cpu"), stream)
    X = torch.tensor(rows)
    with torch.no_grad():
        (chosen, shares), (few_chosen, few_shares) = many.snapshot().as_module()(X), model.snapshot().as_module()(X)
    assert many.snapshot().as_module().predictor.directions.dtype == torch.float16
    assert chosen.tolist() == few_chosen.tolist()
    assert (shares - few_shares).abs().max() < 2e-3  # directions are float16 there


def test_features_in_units_of_their_own(rows, stream):
    tiny = np.float32(1e-30)
    model = vs.StreamingLDA(device="cpu", track=True)
    for X, y in stream.batches():
        model.partial_fit(X * tiny, NAMES[y])
    assert differs(model, rows * tiny) < 1e-5


def test_one_class_and_nothing_tested_yet():
    model = vs.GaussianVoting(track=True, device="cpu").partial_fit(np.eye(3), ["a", "a", "a"])
    assert differs(model, np.eye(3, dtype=np.float32)) == 0


def test_wide_rows_are_projected_for_their_unknown_score():
    stream = Samples(width=400, n=20)
    assert differs(taught(vs.NearestClassMean(track=True, device="cpu"), stream), stream.X[::5]) < 1e-5


@pytest.mark.parametrize("name", ["gaussian_voting", "candidates_voting", "knn", "ranpac", "slda"])
def test_probabilities_that_float32_does_not_have_are_calibrated_as_the_models(name, stream):
    model = taught(maker(name)(track=True), stream)
    far = stream.X[::5] * np.float32(30)  # where one class has all but everything
    assert differs(model, far) < 1e-4


@pytest.mark.parametrize("offset", [100, 10_000])
def test_features_far_from_zero(make_on_arrays, offset, rows, stream):
    model, offset = make_on_arrays(), np.float32(offset)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "features vary by", UserWarning)
        for X, y in stream.batches():
            model.partial_fit(X + offset, NAMES[y])
    assert differs(model, rows + offset) < 1e-4


def test_a_vote_whose_confidence_float32_cannot_raise_e_to(rows, stream):
    assert differs(taught(vs.CandidatesVoting(beta=1e-3, device="cpu", track=True), stream), rows) < 1e-4


class Shares(torch.nn.Module):
    """Somebody's own: the probabilities of two classes."""

    def forward(self, X):
        shares = torch.cat((X, 1 - X), 1)
        return shares.argmax(1), shares


class Own(vs.NearestClassMean):
    def _updated(self, predictor, changed):
        return Own.Rule()

    def new_predictor(self):
        return Own.Rule()

    class Rule:
        def decide(self, X):
            return self.probabilities(X).argmax(1)

        def probabilities(self, X):
            return np.concatenate((X, 1 - X), 1).astype(np.float64)

        def as_module(self):
            return Shares()


def test_probabilities_of_a_module_of_ones_own_are_calibrated():
    X = np.random.default_rng(0).uniform(size=(60, 1)).astype(np.float32)
    model = Own(track=True).partial_fit([[1.0], [0.0]], ["a", "b"])
    for i in range(0, 60, 10):
        model.partial_fit(X[i : i + 10], np.where(X[i : i + 10, 0] > 0.4, "a", "b"))
    assert model.snapshot()._prepared.answers.calibration.trust > 0
    assert differs(model, np.concatenate((X, [[0.0], [1.0]])).astype(np.float32)) < 1e-5
