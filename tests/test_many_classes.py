"""GaussianVoting among many classes: the shortlist against the densities of all."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import votestream as vs
from votestream.learners.ours import gaussian_predictor, gaussian_shortlist
from votestream.learners.ours.gaussian_predictor import Densities
from votestream.learners.ours.gaussian_shortlist import Shortlist


def overlapping(n_classes=400, n=10, width=20, apart=1.5, seed=0):
    """Rows of classes in mixed order, each class with a mean, and a direction of wide spread, of its own."""
    rng = np.random.default_rng(seed)
    centres = apart * np.random.default_rng(9).normal(size=(n_classes, width))
    wide = np.random.default_rng(8).normal(size=(n_classes, width))
    y = rng.permutation(np.arange(n_classes).repeat(n))
    X = centres[y] + rng.normal(size=(len(y), width)) + rng.normal(size=(len(y), 1)) * wide[y]
    return X.astype(np.float32), y


def learned(X, y, **params):
    return vs.GaussianVoting(device="cpu", power=1, **params).partial_fit(X, y)


@pytest.fixture
def many(monkeypatch):
    """Few classes are many."""
    monkeypatch.setattr(gaussian_predictor, "MANY", 64)
    monkeypatch.setattr(gaussian_shortlist, "LISTED", 16)
    monkeypatch.setattr(gaussian_shortlist, "LONGEST", 64)
    monkeypatch.setattr(gaussian_shortlist, "TOGETHER", 16)


def both(X, y, **params):
    """The same model twice: one predicts by a shortlist, one by all densities."""
    model, full = learned(X, y, **params), learned(X, y, **params)
    assert isinstance(model.prepared().predictor, Shortlist)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian_predictor, "MANY", 10**6)
        assert isinstance(full.prepared().predictor, Densities)
    return model, full


@pytest.mark.parametrize("rows", [3, 4000])
def test_shortlisted_predictions_are_those_of_all_densities(monkeypatch, rows):
    monkeypatch.setattr(gaussian_predictor, "MANY", 390)
    model, full = both(*overlapping())
    queries = overlapping(seed=1)[0][:rows]
    assert (model.predict(queries) == full.predict(queries)).mean() >= 0.999


def test_the_shortlist_is_needed_for_what_directions_decide(many):
    """The class in front by its mean alone is often another one: the promise above is not won by ranking."""
    model, full = both(*overlapping())
    queries = overlapping(seed=1)[0]
    predictor = full.prepared().predictor
    by_mean = model.prepared().predictor._mean_parts(*predictor._whitened(queries)).argmax(1)
    assert (model.state_.naming.seen[by_mean] == full.predict(queries)).mean() < 0.98


def test_probabilities_among_many_classes_are_those_of_all_densities(many):
    model, full = both(*overlapping())
    queries = overlapping(seed=1)[0][:300]
    assert np.allclose(model.predict_proba(queries), full.predict_proba(queries), atol=5e-3)
    assert np.array_equal(model.classes_[model.predict_proba(queries).argmax(1)], model.predict(queries))
    mine, theirs = model.vote(queries), full.vote(queries)
    assert np.array_equal(mine.winner, model.predict(queries))
    assert np.allclose(mine.prior, theirs.prior, atol=5e-3)


def test_predict_names_the_most_probable_class_where_the_list_misses_it(many, monkeypatch):
    monkeypatch.setattr(gaussian_shortlist, "LISTED", 1)
    monkeypatch.setattr(gaussian_shortlist, "NEAR", np.float32(0))
    model, full = both(*overlapping())
    queries = overlapping(seed=1)[0][:300]
    assert not np.array_equal(model.predict(queries), full.predict(queries))
    assert np.array_equal(model.classes_[model.predict_proba(queries).argmax(1)], model.predict(queries))


def test_a_prediction_among_many_classes_does_not_depend_on_the_other_rows(many):
    model = learned(*overlapping())
    queries = overlapping(seed=1)[0][:200]
    alone = np.concatenate([model.predict(row[None]) for row in queries])
    assert np.array_equal(model.predict(queries), alone)
    assert np.array_equal(model.predict(queries[::-1]), alone[::-1])
    mixed = np.concatenate((1000 * queries[:50], queries, np.zeros_like(queries[:50])))
    assert np.array_equal(model.predict(mixed)[50:250], alone)


def test_many_classes_with_one_mean_are_told_apart_by_their_spread(many):
    X, y = overlapping(n_classes=200, n=40)
    X -= np.stack([X[y == c].mean(0) for c in range(200)])[y]
    model, full = both(X, y)
    assert (model.predict(X[:500]) == full.predict(X[:500])).mean() > 0.99  # float16 decides the rest


@pytest.mark.parametrize("n_equal", [30, 80])  # so many that they fit on a list, and too many
def test_of_many_equal_classes_the_first_is_named(many, n_equal):
    X, y = overlapping(n_classes=60)
    same = np.full((n_equal, 20), 8, np.float32)
    model = learned(np.concatenate((X, same)), np.concatenate((y, 60 + np.arange(n_equal))))
    assert model.predict(np.concatenate((X[:30], same[:1])))[-1] == 60
    assert model.predict(same[:1]).tolist() == [60]


def test_many_classes_without_directions_predict_by_their_means(many):
    X, y = overlapping(n_classes=80)
    model, full = both(X, y, budget_bytes=10_800)
    assert model.ranks_.max() == 0
    assert np.array_equal(model.predict(X), full.predict(X))


def test_learning_in_turns_into_many_classes_equals_loading_and_never_asking(many, tmp_path):
    X, y = overlapping(n_classes=80, n=3, width=10)
    order = np.argsort(y // 60, kind="stable")  # the first 60 classes, then those by which they become many
    X, y = X[order], y[order]
    asked, silent = learned(X[:180], y[:180]), learned(X[:180], y[:180])
    for i in range(180, 240):
        for model in (asked, silent):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        asked.predict(X[:2])
        if i in (181, 201, 236):
            assert isinstance(asked.prepared().predictor, Densities if i == 181 else Shortlist)
            asked.save(tmp_path / "m.safetensors")
            loaded = vs.load(tmp_path / "m.safetensors")
            expected = asked.predict_proba(X[::7])
            assert np.array_equal(expected, silent.predict_proba(X[::7]))
            assert np.array_equal(expected, loaded.predict_proba(X[::7]))
            silent = loaded


def test_preparing_many_classes_takes_less_than_twice_the_models_bytes(many):
    model = learned(*overlapping(n_classes=600, n=18, width=48))
    tracemalloc.start()
    try:
        model.predict(np.zeros((1, 48), np.float32))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * model.memory_bytes()
