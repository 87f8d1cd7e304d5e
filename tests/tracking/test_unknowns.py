""" "I don't know": what unknown_score says of known rows, of unknown ones, and where little is known."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from votestream.tracking.unit_moments import WIDEST, UnitMoments, unit_rows


def around(directions, n, seed, noise=0.3):
    """n rows of each class, in random order, lengths free."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(directions)), n))
    return (directions[y] + noise * rng.normal(size=(len(y), directions.shape[1]))) * rng.uniform(
        0.5, 2, (len(y), 1)
    ), y


@pytest.fixture(scope="module")
def directions():
    return np.random.default_rng(7).normal(size=(12, 20))


@pytest.fixture(scope="module")
def model(directions):
    return vs.GaussianVoting(track=True, device="cpu").partial_fit(*around(directions[:8], 100, 0))


def test_about_a_share_p_of_known_samples_scores_above_1_less_p(model, directions):
    scores = model.unknown_score(around(directions[:8], 250, 1)[0])
    for p in (0.05, 0.2, 0.5):
        assert (scores > 1 - p).mean() == pytest.approx(p, abs=0.25 * p + 0.02)


def test_classes_never_met_score_high(model, directions):
    assert (model.unknown_score(around(directions[8:], 50, 2)[0]) > 0.95).mean() > 0.9


def test_the_record_says_how_many_new_samples_were_called_unknown(directions):
    model = vs.NearestClassMean(track=True).partial_fit(*around(directions[:8], 100, 0))
    before = model.track_record()
    after = model.partial_fit(*around(directions[8:9], 10, 3)).track_record()
    labelled = model.partial_fit(around(directions[9:10], 10, 3)[0], ["new"] * 10).track_record()
    assert after.unknown.met == before.unknown.met  # label 0, which is known
    assert labelled.unknown.met - after.unknown.met == 10
    assert labelled.unknown.above - after.unknown.above >= 9
    assert before.known.above / before.known.met < 0.08


@pytest.mark.parametrize("name", ["gaussian_voting", "knn", "candidates_voting"])
def test_a_model_of_one_class_knows_strangers(name, directions):
    model = vs.create(name, track=True, device="cpu").partial_fit(*around(directions[:1], 100, 0))
    assert (model.unknown_score(around(directions[:1], 100, 1)[0]) > 0.95).mean() < 0.15
    assert (model.unknown_score(around(directions[1:2], 100, 1)[0]) > 0.95).mean() > 0.9


def test_a_class_of_one_or_two_samples_is_not_unknown_by_itself(model, directions):
    fresh = vs.GaussianVoting(track=True, device="cpu").partial_fit(*around(directions[:8], 40, 0))
    X, _ = around(directions[9:10], 100, 4)
    strange = (fresh.unknown_score(X) > 0.95).mean()
    fresh.partial_fit(X[:2], ["rare"] * 2)
    assert strange > 0.9
    assert (fresh.unknown_score(X[2:]) > 0.95).mean() < 0.5


def test_one_sample_tells_nothing_of_unknowns_and_a_few_tell_far_ones():
    model = vs.GaussianVoting(track=True, device="cpu").partial_fit([[1.0, 0.0]], ["a"])
    assert model.unknown_score([[1.0, 0.0], [-5.0, 3.0]]).tolist() == [0.0, 0.0]
    model.partial_fit([[1.0, 0.1]], ["a"]).partial_fit([[0.0, 1.0]], ["b"])
    near, far = model.unknown_score([[1.0, 0.0], [-5.0, 3.0]])
    assert near < 0.5
    assert far > 0.95


def test_rows_of_zeros_and_constant_features_have_scores(directions):
    X, y = around(directions[:3], 20, 0)
    X[:, 5] = 0
    X[::9] = 0
    model = vs.NearestClassMean(track=True).partial_fit(X, y)
    assert np.isfinite(model.unknown_score(X)).all()
    assert np.isfinite(
        vs.NearestClassMean(track=True).partial_fit(np.ones((30, 4)), y[:30]).unknown_score(X[:5, :4])
    ).all()


def test_wide_rows_are_projected_and_still_told_apart():
    wide = np.random.default_rng(3).normal(size=(6, 2 * WIDEST))
    model = vs.NearestClassMean(track=True).partial_fit(*around(wide[:4], 40, 0, noise=1.0))
    assert model.state_.tracker._moments.width == WIDEST
    known, unknown = (model.unknown_score(around(part, 50, 1, noise=1.0)[0]) for part in (wide[:4], wide[4:]))
    assert (known > 0.95).mean() < 0.15
    assert (unknown > 0.95).mean() > 0.9


def test_the_scores_do_not_depend_on_the_scale_of_features(model, directions):
    X, y = around(directions[:8], 30, 0)
    small = vs.NearestClassMean(track=True).partial_fit(1e-20 * X, y)
    same = vs.NearestClassMean(track=True).partial_fit(X, y)
    assert np.allclose(small.unknown_score(1e-20 * X), same.unknown_score(X), atol=0.02)


def test_moments_row_by_row_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    X, y = unit_rows(rng.normal(size=(200, 5)).astype(np.float32)), rng.integers(0, 3, 200)
    moments = UnitMoments(5)
    for i in range(0, 200, 7):
        moments.add(X[i : i + 7], y[i : i + 7])
    means = np.stack([X[y == c].mean(0) for c in range(3)])
    assert np.allclose(moments.means, means, atol=1e-6)
    apart = (X - means[y]).astype(np.float64)
    assert np.allclose(moments.scatter.matrix(), apart.T @ apart, atol=1e-3)
