"""What every learner promises; each registered one is put through all of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import votestream as vs
from conftest import ON_FEATURES, make_on_features, maker, same_model
from votestream.testing import learner_checks
from votestream.testing.promise import learned

PROMISES = [
    pytest.param(name, check, id=f"{name}-{check.__name__}")
    for name in vs.list_learners()
    for check in learner_checks(maker(name))
]


@pytest.mark.parametrize(("make", "check"), PROMISES, indirect=["make"])
def test_every_learner_keeps_the_contract(make, check):
    check(make)


def test_a_call_interrupted_half_way_is_not_passed_off_as_learned(make_on_arrays, stream, monkeypatch, tmp_path):
    model = learned(make_on_arrays(), stream, 3)
    model.save(tmp_path / "m.safetensors")

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model, "learn", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(stream.X[:10], stream.y[:10])
    for ask in (
        model.predict,
        lambda X: model.partial_fit(X, stream.y),
        lambda X: model.save(tmp_path / "m.safetensors"),
    ):
        with pytest.raises(RuntimeError, match="go on from the last saved model"):
            ask(stream.X)
    assert len(vs.load(tmp_path / "m.safetensors").predict(stream.X)) == len(stream.X)


def test_a_device_that_is_not_there_is_refused(stream):
    for name in ON_FEATURES:
        with pytest.raises(ValueError, match="device"):
            make_on_features(name)(device="abacus").partial_fit(stream.X, stream.y)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_cutting_of_any_stream_can_be_learned_and_resumed(tmp_path_factory, data):
    """Random labels, random cuts, a save and load at a random place."""
    for name in ON_FEATURES:
        n = data.draw(st.integers(1, 60))
        labels = data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
        X = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
        cuts = sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=5))})
        stop = data.draw(st.integers(1, len(cuts) - 1))
        path = tmp_path_factory.mktemp("any") / "m.safetensors"
        steady, resumed = make_on_features(name)(), make_on_features(name)()
        for i, (a, b) in enumerate(pairwise(cuts), start=1):
            steady.partial_fit(X[a:b], labels[a:b])
            resumed.partial_fit(X[a:b], labels[a:b])
            if i == stop:
                resumed.save(path)
                resumed = vs.load(path)
        assert same_model(steady, resumed)
        assert set(steady.predict(X)) <= set(labels)
