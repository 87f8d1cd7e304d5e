"""The package and the plain reading of the paper agree: same exemplars, same votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain_reading as plain
import votestream as vs


def as_set(features):
    return sorted(map(bytes, np.asarray(features, np.float32)))


def random_stream(rng, n, n_classes, width, offset=0.0):
    """Classes that arrive one after another and come back, in numbers of first appearance."""
    reach = np.minimum(np.arange(n) * (n_classes + 2) // n + 1, n_classes)
    labels = (rng.random(n) * reach).astype(int)
    order = {c: i for i, c in enumerate(dict.fromkeys(labels.tolist()))}
    labels = np.array([order[c] for c in labels.tolist()])
    centres = rng.normal(size=(n_classes, width))
    return (offset + centres[labels] + rng.normal(size=(n, width))).astype(np.float32), labels


def assert_same_exemplars(model, sampler, n_classes):
    kept = model.exemplars_
    for c in range(n_classes):
        assert as_set(kept.features[kept.labels == c]) == as_set(sampler.E[c]), f"class {c} differs"


# Two samples are equally far from their mean: if a quota falls to one, rounding decides. So examples are fixed.
@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    budget=st.integers(1, 60),
    n_classes=st.integers(1, 8),
    width=st.integers(1, 6),
    batch=st.integers(1, 50),
    offset=st.sampled_from([0.0, 3.0, 1000.0]),
)
@pytest.mark.filterwarnings("ignore:there are more classes than the budget", "ignore:features vary by")
def test_the_online_sampler_keeps_what_algorithm_1_keeps(seed, budget, n_classes, width, batch, offset):
    rng = np.random.default_rng(seed)
    X, y = random_stream(rng, 200, n_classes, width, offset)
    model = vs.CandidatesVoting(budget=budget, device="cpu")
    sampler = plain.OnlineSampler(budget)
    for v, c in zip(X, y.tolist(), strict=True):
        sampler.see(v, c)
    for i in range(0, len(X), batch):
        model.partial_fit(X[i : i + batch], y[i : i + batch])
    assert_same_exemplars(model, sampler, y.max() + 1)
    assert np.allclose(model.class_means_, [sampler.mean[c] for c in range(y.max() + 1)])


def test_the_online_sampler_keeps_what_algorithm_1_keeps_on_a_long_stream():
    X, y = random_stream(np.random.default_rng(5), 6000, 30, 32)
    model = vs.CandidatesVoting(budget=300, device="cpu").partial_fit(X, y)
    sampler = plain.OnlineSampler(300)
    for v, c in zip(X, y.tolist(), strict=True):
        sampler.see(v, c)
    assert_same_exemplars(model, sampler, 30)


def test_identical_samples_and_exact_ties_keep_the_quota():
    X = np.tile(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], np.float32), (20, 1))
    model = vs.CandidatesVoting(budget=4, device="cpu").partial_fit(X, [0] * 60)
    assert len(model.exemplars_.features) == 4
    assert np.allclose(model.exemplars_.features, 0)  # the mean itself came often enough to fill the quota


@pytest.mark.parametrize("batch", [1, 3, 10, 64, 500])
def test_what_is_kept_does_not_depend_on_the_batch_size(batch):
    X, y = random_stream(np.random.default_rng(1), 500, 9, 7)
    one_by_one, batched = (
        vs.CandidatesVoting(budget=40, device="cpu"),
        vs.CandidatesVoting(budget=40, device="cpu"),
    )
    for i in range(len(X)):
        one_by_one.partial_fit(X[i : i + 1], y[i : i + 1])
    for i in range(0, len(X), batch):
        batched.partial_fit(X[i : i + batch], y[i : i + batch])
    for mine, theirs in zip(one_by_one.exemplars_, batched.exemplars_, strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(one_by_one.class_means_, batched.class_means_)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_tasks=st.integers(1, 5),
    width=st.integers(1, 20),
    budget=st.integers(5, 80),
    beta=st.sampled_from([0.05, 0.5, "pilot"]),
    bias=st.booleans(),
    offset=st.sampled_from([0.0, 50.0]),
)
@pytest.mark.filterwarnings("ignore:there are more classes than the budget", "ignore:features vary by")
def test_the_vote_is_that_of_equations_3_to_5(seed, n_tasks, width, budget, beta, bias, offset):
    rng = np.random.default_rng(seed)
    model = vs.CandidatesVoting(budget=budget, beta=beta, bias=bias, scale=None, seed=seed, device="cpu")
    for task in range(n_tasks):
        classes = range(3 * task, 3 * task + rng.integers(1, 4))
        y = rng.choice(classes, 30)
        model.partial_fit(offset + y[:, None] % 3 + rng.normal(size=(30, width)), y, task=task)
    queries = (offset + rng.normal(size=(20, width))).astype(np.float32)
    queries[:3] = model.exemplars_.features[rng.integers(len(model.exemplars_.features), size=3)]
    seen = model.vote(queries)
    task_of_seen = model.task_of_class_[np.searchsorted(model.classes_, model.classes_seen_)]
    rows, exemplars, tasks = model.memory_.head.frozen().rows.astype(np.float64), *model.exemplars_[::2]
    for i, f in enumerate(queries.astype(np.float64)):
        o = rows[:, :width] @ f + (rows[:, width] if bias else 0)
        y, s = plain.candidates(o, task_of_seen)
        s_hat = plain.normalised(s, np.linalg.norm(rows[y, :width], axis=1))
        w = plain.pnn_prior(f, exemplars.astype(np.float64), tasks, n_tasks)
        assert list(seen.candidates[i]) == list(model.classes_seen_[y])
        assert np.allclose(seen.s_hat[i], s_hat, rtol=1e-3, atol=1e-4)
        assert np.allclose(seen.prior[i], w, rtol=1e-3, atol=1e-4)
        exact = seen.s_hat[i].astype(np.float64), seen.prior[i].astype(np.float64)
        gamma, score, winner = plain.vote(*exact, model.beta_ if n_tasks > 1 else 1)
        assert np.isclose(seen.gamma[i], gamma, rtol=1e-4, atol=1e-6)
        assert np.allclose(seen.score[i], score, rtol=1e-4)
        assert seen.winner_task[i] == winner
        assert seen.winner[i] == model.classes_seen_[y[winner]] == model.predict(queries)[i]


def test_the_pilot_beta_is_the_mean_confidence_over_augmented_exemplars():
    rng = np.random.default_rng(0)
    model = vs.CandidatesVoting(budget=200, device="cpu")
    spread, sizes = [], []
    for task in range(3):
        X, y = rng.normal(size=(300, 6)) + 2 * task, rng.integers(2 * task, 2 * task + 2, 300)
        model.partial_fit(X, y, task=task)
        for c in (2 * task, 2 * task + 1):
            spread.append(X[y == c].std(0))
            sizes.append((model.exemplars_.labels == c).sum())
    features, labels, tasks = model.exemplars_
    estimates = []
    for _ in range(20):
        pilot = features + rng.normal(size=features.shape) * np.array(spread)[labels]
        w = [plain.pnn_prior(f, features, tasks, 3) for f in pilot]
        estimates.append(np.mean([one.max() - one.min() for one in w]))
    assert abs(model.beta_ - np.mean(estimates)) < 4 * np.std(estimates) + 1e-3


def test_the_plain_learner_and_ours_learn_equally_well():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 24)).astype(np.float32)
    ours, theirs = vs.CandidatesVoting(budget=200, preset="paper", device="cpu"), plain.PlainLearner(Q=200)
    for task in range(5):
        y = rng.permutation(np.repeat(np.arange(4), 60)) + 4 * task
        first = dict.fromkeys(y.tolist())
        y = np.array([4 * task + list(first).index(c) for c in y.tolist()])  # numbered by appearance
        X = (centres[y] + 1.2 * rng.normal(size=(len(y), 24))).astype(np.float32)
        theirs.new_task()
        for i in range(0, len(X), 10):
            theirs.learn(X[i : i + 10], y[i : i + 10])
            ours.partial_fit(X[i : i + 10], y[i : i + 10], task=task)
    y = rng.integers(0, 20, 1000)
    X = (centres[y] + 1.2 * rng.normal(size=(1000, 24))).astype(np.float32)
    accuracy = (ours.predict(X) == y).mean(), (theirs.predict(X) == y).mean()
    assert abs(accuracy[0] - accuracy[1]) < 0.06
    norms = np.linalg.norm(ours.weights_, axis=1), np.linalg.norm(theirs.W, axis=1)
    assert abs(norms[0].mean() / norms[1].mean() - 1) < 0.05
