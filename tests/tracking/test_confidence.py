"""Confidence: how likely a prediction is right, from the first samples on, with unknown classes counted in."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from conftest import one_thread
from votestream.testing.samples import Samples

CLASSES = np.array([0, 2, 3, 5, 8, 9])  # of CIFAR-10; the others are unknown
SEEDS = range(6)


@pytest.fixture(scope="module")
def parts():
    """Features and labels of the sample images: to learn, and to ask about."""
    with one_thread():
        extract = vs.create_backbone("reduced_resnet18", stages="quick", device="cpu")
        made = []
        for part in ("train", "test"):
            images, labels = vs.sample_images(part)
            made.append((extract(images), np.unique(labels, return_inverse=True)[1]))
        return made


def after(parts, n, seed, track=True):
    """A model of so many photos of each class, and what it says of known and of unknown ones."""
    (X, y), (Xt, yt) = parts
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n] for c in CLASSES]))
    model = vs.GaussianVoting(device="cpu", track=track)
    for start in range(0, len(rows), 10):
        model.partial_fit(X[rows[start : start + 10]], y[rows[start : start + 10]])
    known = np.isin(yt, CLASSES)
    return model, Xt[known], yt[known], Xt[~known]


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("n", [5, 10, 40])
def test_from_five_photos_a_class_on_a_model_is_as_sure_as_it_is_right(parts, n, track):
    apart = []
    for seed in SEEDS:
        model, X, y, _ = after(parts, n, seed, track)
        apart.append(model.predict_proba(X).max(1).mean() - model.score(X, y))
    assert abs(np.mean(apart)) < 0.07  # 0.25 and 0.19 with five and ten in version 0.2


@pytest.mark.parametrize("n", [5, 20, 80])
def test_of_predictions_at_90_percent_nine_in_ten_are_right_where_one_row_in_ten_is_unknown(parts, n):
    answered = right = passed = 0.0
    for seed in SEEDS:
        model, X, y, unknown = after(parts, n, seed)
        sure, sure_of_unknown = model.confidence(X) >= 0.9, model.confidence(unknown) >= 0.9
        right += 0.9 * (sure & (model.predict(X) == y)).mean()
        answered += 0.9 * sure.mean() + 0.1 * sure_of_unknown.mean()
        passed += sure_of_unknown.mean() / len(SEEDS)
    assert right > 0.9 * answered > 0
    assert passed < 0.15


@pytest.mark.parametrize("n", [5, 20, 80])
def test_unknown_scores_put_most_unknown_rows_behind_the_known_ones(parts, n):
    behind = []
    for seed in SEEDS:
        model, X, _, unknown = after(parts, n, seed)
        scores = model.unknown_score(unknown)
        behind.append((scores > np.median(model.unknown_score(X))).mean())
    assert np.mean(behind) > 0.7


def test_a_model_that_cannot_know_yet_says_so():
    model = vs.GaussianVoting(track=True, device="cpu").partial_fit([[1.0, 0.0], [1.0, 0.1]], ["a", "a"])
    assert np.isnan(model.confidence([[1.0, 0.0]])).all()  # one class
    model = vs.GaussianVoting(track=True, device="cpu").partial_fit(np.eye(3), ["a", "b", "c"])
    assert np.isnan(model.confidence(np.eye(3))).all()  # one sample of each
    assert np.isfinite(model.partial_fit([[1.0, 0.1, 0.0]], ["a"]).confidence(np.eye(3))).all()


def test_confidence_needs_a_track_record_and_a_share_between_0_and_1():
    model = vs.GaussianVoting(device="cpu").partial_fit(np.eye(3), ["a", "b", "c"])
    with pytest.raises(ValueError, match="confidence needs a track record"):
        model.confidence(np.eye(3))
    model = vs.GaussianVoting(track=True, device="cpu").partial_fit(np.eye(3), ["a", "b", "c"])
    for share in (0, 1, -1, float("nan")):
        with pytest.raises(ValueError, match="unknown_share must be between 0 and 1"):
            model.confidence(np.eye(3), unknown_share=share)


def test_models_that_learned_parts_tell_unknowns_when_merged():
    samples = Samples(n_tasks=2, per_task=3, n=80)
    known = samples.y < 5
    X, y, unknown = samples.X[known], samples.y[known], samples.X[~known]
    halves = [vs.GaussianVoting(track=True, device="cpu").partial_fit(X[i::2], y[i::2]) for i in (0, 1)]
    model = vs.merge(halves)
    assert np.median(model.confidence(unknown)) < 0.5 < np.median(model.confidence(X))


def test_a_forgotten_class_is_an_unknown_one():
    samples = Samples(n_tasks=2, per_task=3, n=80)
    model = vs.GaussianVoting(track=True, device="cpu").partial_fit(samples.X, samples.y)
    own = samples.X[samples.y == 4]
    before = np.median(model.confidence(own))
    assert np.median(model.forget(4).confidence(own)) < 0.8 * before
