"""A snapshot answers as the model did at one moment, whatever is learned later, in any thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import votestream as vs
from conftest import ON_FEATURES, Stream, make_on_features
from test_sklearn import frame


def test_later_learning_does_not_touch_a_snapshot(make, stream):
    model = make()
    for number, (X, y) in enumerate(stream.tasks[:2]):
        model.partial_fit(X, y, task=number)
    before = model.predict_proba(stream.X), model.predict(stream.X), model.classes_
    snapshot = model.snapshot()
    model.partial_fit(*stream.tasks[2], task=2)
    assert np.array_equal(snapshot.predict_proba(stream.X), before[0])
    assert np.array_equal(snapshot.predict(stream.X), before[1])
    assert np.array_equal(snapshot.classes_, before[2])
    assert list(snapshot.task_of_class_) == [0, 0, 1, 1]
    assert snapshot.score(*stream.tasks[0]) > 0.7
    assert not hasattr(snapshot, "partial_fit")


def test_a_snapshot_shows_the_vote():
    stream = Stream()
    for learner in (vs.CandidatesVoting(device="cpu"), vs.GaussianVoting(device="cpu")):
        model = learner.partial_fit(*stream.tasks[0], task=0).partial_fit(*stream.tasks[1], task=1)
        vote, snapshot = model.vote(stream.X), model.snapshot()
        model.partial_fit(*stream.tasks[2], task=2)
        assert np.array_equal(snapshot.vote(stream.X).winner, vote.winner)
    with pytest.raises(AttributeError, match="decides without a vote"):
        vs.NearestClassMean(device="cpu").partial_fit(stream.X, stream.y).snapshot().vote(stream.X)


@pytest.mark.parametrize("name", ON_FEATURES)
def test_a_snapshot_checks_its_rows_as_the_model_does(name):
    stream = Stream()
    snapshot = make_on_features(name)().partial_fit(frame(stream.X), stream.y).snapshot()
    with pytest.raises(ValueError, match="yet now missing"):
        snapshot.predict(frame(stream.X[:, :5]))
    with pytest.raises(ValueError, match="must be in the same order"):
        snapshot.predict(frame(stream.X)[[f"f{i}" for i in range(11, -1, -1)]])


@pytest.mark.parametrize("name", ["gaussian_voting", "slda", "candidates_voting"])
def test_a_snapshot_copies_no_large_array(name):
    stream = Stream(n=200)
    model = make_on_features(name)().partial_fit(stream.X, stream.y)
    model.predict(stream.X[:1])
    assert model.snapshot()._prepared is model.prepared()


def test_threads_share_a_snapshot_while_the_model_learns():
    stream = Stream(n=120)
    model = vs.GaussianVoting(device="cpu").partial_fit(*stream.tasks[0])
    snapshot = model.snapshot()
    expected, wrong, done = snapshot.predict_proba(stream.X), [], threading.Event()

    def ask():
        while not done.is_set():
            if not np.array_equal(snapshot.predict_proba(stream.X), expected):
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(120, len(stream.X), 4):
        model.partial_fit(stream.X[i : i + 4], stream.y[i : i + 4])
        model.predict(stream.X[:1])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
