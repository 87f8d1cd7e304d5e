"""Learning and predicting in turns: answers depend on what was learned, not on when they were asked for."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from conftest import ON_FEATURES, Stream, make_on_features, same_model
from votestream.memory.refresh import POINTS, last_refresh

SOLVING = ("ranpac", "foal", "klda", "randumb", "joint")  # for everything, each time
LIVE = [name for name in ON_FEATURES if name not in SOLVING]


def mixed(n, n_classes=8, width=12, seed=0, spread=0.6):
    """Classes in mixed order, the later ones appearing later."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, np.minimum(n_classes, 2 + np.arange(n) * n_classes // n))
    centres = rng.normal(size=(n_classes, width))
    return (centres[y] + spread * rng.normal(size=(n, width))).astype(np.float32), y


def calls(n, seed):
    """Random cuts, one row a call among them."""
    rng = np.random.default_rng(seed)
    cuts = np.cumsum(rng.choice([1, 1, 2, 7, 40], n))
    ends = [*cuts[cuts < n].tolist(), n]
    return list(zip([0, *ends], ends, strict=False))


@pytest.mark.parametrize("name", LIVE)
def test_asking_at_any_time_changes_no_later_answer_not_even_in_the_last_bit(name):
    X, y = mixed(1300)
    queries = X[::50]
    asked, silent = make_on_features(name)(), make_on_features(name)()
    rng = np.random.default_rng(1)
    for i, (start, end) in enumerate(calls(len(X), 0)):
        asked.partial_fit(X[start:end], y[start:end])
        silent.partial_fit(X[start:end], y[start:end])
        if rng.random() < 0.6:
            asked.predict(queries[:3])
        if i % 37 == 0:
            assert np.array_equal(asked.predict_proba(queries), silent.predict_proba(queries))
    assert same_model(asked, silent)
    assert np.array_equal(asked.predict_proba(queries), silent.predict_proba(queries))


@pytest.mark.parametrize("name", LIVE)
def test_a_model_loaded_in_the_middle_answers_as_one_that_went_on(name, tmp_path):
    X, y = mixed(1300)
    queries = X[::50]
    steady = make_on_features(name)()
    for stop in (150, 555, 700, 1237):
        steady = make_on_features(name)()
        for i in range(stop):
            steady.partial_fit(X[i : i + 1], y[i : i + 1])
        steady.predict(queries)
        steady.save(tmp_path / "m.safetensors")
        loaded = vs.load(tmp_path / "m.safetensors")
        for i in range(stop, stop + 60):
            for model in (steady, loaded):
                model.partial_fit(X[i : i + 1], y[i : i + 1])
            if i % 7 == 0:
                assert np.array_equal(steady.predict_proba(queries), loaded.predict_proba(queries))
        assert np.array_equal(steady.predict_proba(queries), loaded.predict_proba(queries))


@pytest.mark.parametrize("name", LIVE)
def test_how_the_stream_is_cut_changes_no_answer(name):
    X, y = mixed(1100)
    answers = []
    for cuts in (calls(len(X), 3), calls(len(X), 4)):
        model = make_on_features(name)(**({"batch_size": 1} if name in ("candidates_voting", "er_features") else {}))
        for start, end in cuts:
            model.partial_fit(X[start:end], y[start:end])
        answers.append(model.predict_proba(X[::40]))
    assert np.array_equal(*answers)


@pytest.mark.parametrize("name", ["candidates_voting", "gaussian_voting", "ncm", "slda", "fecam", "knn"])
def test_a_new_class_is_known_from_its_first_sample_on(name):
    """Its mean, count and exemplars are never out of date, however long ago the shared covariance was refreshed."""
    X, y = mixed(1210)
    model = make_on_features(name)().partial_fit(X, y)
    model.predict(X[:1])
    new = np.full((1, 12), 9.0, np.float32)
    assert list(model.partial_fit(new, [99]).predict(new)) == [99]
    assert last_refresh(1211) < 1211


@pytest.mark.parametrize("name", ["slda", "rls", "gaussian_voting"])
def test_what_is_shared_lags_by_less_than_one_percent_and_changes_answers_little(name):
    stream = Stream(n_tasks=1, per_task=6, n=1250)
    model = make_on_features(name)()
    for i in range(0, len(stream.X), 3):
        model.partial_fit(stream.X[i : i + 3], stream.y[i : i + 3])
    n = last_refresh(len(stream.X))
    assert n < len(stream.X)
    exact = make_on_features(name)().partial_fit(stream.X[:n], stream.y[:n])  # all of it at the refresh
    assert np.abs(model.predict_proba(stream.X) - exact.predict_proba(stream.X)).max() < 0.05
    assert (model.predict(stream.X) == exact.predict(stream.X)).mean() > 0.99


def test_refreshes_are_at_most_one_percent_apart():
    points = np.array(POINTS[:3000], dtype=float)
    assert (np.diff(points) <= np.maximum(1, points[:-1] / 100)).all()
    assert all(last_refresh(n) == n for n in range(1, 200))
