"""GaussianVoting: its densities against the plain formula, its sketch against the true scatter, its budget."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import votestream as vs
from conftest import Stream, same_model
from votestream.memory import ClassGaussians
from votestream.memory.gaussians import strongest, strongest_of_each
from votestream.memory.refresh import last_refresh
from votestream.memory.scatter import SharedScatter


def make(**params):
    return vs.GaussianVoting(device="cpu", **params)


def correlated(n_classes=5, n=300, width=8, seed=0):
    """Classes with covariances of their own, in tasks of one class after the other."""
    rng = np.random.default_rng(seed)
    mixes, centres = rng.normal(size=(n_classes, width, width)), rng.normal(size=(n_classes, width))
    y = np.arange(n_classes).repeat(n)
    X = np.einsum("ni,nij->nj", rng.normal(size=(len(y), width)), mixes[y]) + centres[y]
    return X.astype(np.float32), y


def plain_log_densities(X, y, queries, strength, few):
    """The docstring's model, written out: W shared, and beyond it what each class's own covariance has more."""
    width, classes, n = X.shape[1], np.unique(y), np.bincount(y)
    within = np.concatenate([X[y == c] - X[y == c].mean(0) for c in classes]).astype(np.float64)
    freedom = len(X) - len(classes)
    W = within.T @ within / freedom
    shrink = 4 * width / (4 * width + freedom)
    W = (1 - shrink) * W + np.diag((shrink + 1e-4) * W.diagonal())
    root = np.linalg.cholesky(W)
    columns = []
    for c in classes:
        own = np.linalg.solve(root, np.linalg.solve(root, np.cov(X[y == c].T, bias=True)).T)
        s, directions = np.linalg.eigh(own)
        excess = strength * n[c] / (n[c] + few) * np.maximum(s - 1, 0)
        inner = (1 + 1 / n[c]) * np.eye(width) + directions * excess @ directions.T
        mean = X[y == c].mean(0, dtype=np.float64)
        columns.append(multivariate_normal(mean, root @ inner @ root.T).logpdf(queries))
    return np.stack(columns, 1)


def test_log_densities_are_those_of_the_model_written_out():
    X, y = (part[: last_refresh(1500)] for part in correlated())  # where the shared covariance is up to date
    model = make(rank=8, strength=0.7, few=40.0, power=1).partial_fit(X, y)
    mine = model.prepared().predictor.log_densities(X).astype(np.float64)
    assert list(model.classes_seen_) == list(model.classes_)
    plain = plain_log_densities(X, y, X, 0.7, 40.0)
    assert np.allclose(mine - mine[:, :1], plain - plain[:, :1], atol=5e-2, rtol=1e-3)
    assert (mine.argmax(1) == plain.argmax(1)).mean() > 0.995


def test_classes_with_one_mean_are_told_apart_by_their_spread():
    X, y = correlated(n_classes=4)
    X -= np.stack([X[y == c].mean(0) for c in range(4)])[y]
    assert make().partial_fit(X, y).score(X, y) > vs.create("slda").partial_fit(X, y).score(X, y) + 0.3


@pytest.mark.parametrize("rank", [2, 5, 20])
def test_the_sketch_differs_from_a_classs_scatter_by_no_more_than_it_says(rank):
    X, y = correlated(n_classes=3, n=400, width=20)
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order], y[order]
    gaussians = ClassGaussians(20)
    for i in range(0, len(X), 96):
        gaussians.add(X[i : i + 96], y[i : i + 96], rank)
    for c in range(3):
        centred = (X[y == c] - X[y == c].mean(0, dtype=np.float64)).astype(np.float64)
        scatter, F = centred.T @ centred, gaussians.factor(c).astype(np.float64)
        difference = np.linalg.eigvalsh(scatter - F.T @ F)
        rounding = 2e-3 * np.trace(scatter)  # directions are float16
        assert difference.min() > -rounding
        assert difference.sum() == pytest.approx(gaussians.dropped[c], abs=rounding)
        best = np.linalg.eigvalsh(scatter)[-rank:].sum()
        assert (F * F).sum() > 0.8 * best
        assert np.allclose(gaussians.means[c], X[y == c].mean(0), atol=1e-4)


def test_all_rows_of_a_class_that_fit_are_kept_exactly():
    X, y = correlated(n_classes=2, n=6, width=20)
    gaussians = ClassGaussians(20)
    gaussians.add(X, y, rank=16)
    for c in range(2):
        centred = X[y == c] - X[y == c].mean(0)
        F = gaussians.factor(c)
        assert np.allclose(F.T @ F, centred.T @ centred, atol=2e-3 * (centred**2).sum())
        assert gaussians.dropped[c] == pytest.approx(0, abs=1e-5 * float((centred**2).sum()))


def test_subspace_iteration_is_next_to_the_best_directions():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(200, 60)) * np.linspace(3, 0.5, 60)).astype(np.float32)
    lengths, directions, lost = strongest(rows, 8)
    values = np.linalg.eigvalsh(rows.T @ rows)
    assert (lengths**2).sum() > 0.9 * values[-8:].sum()
    assert (lengths**2).sum() + lost == pytest.approx(values.sum(), rel=1e-3)
    assert np.allclose(directions @ directions.T, np.eye(8), atol=1e-3)


@pytest.mark.parametrize("rows", [np.zeros((60, 30)), np.ones((60, 30)), np.eye(60, 30)[:1].repeat(60, 0)])
def test_rows_that_span_little_have_few_directions(rows):
    lengths, directions, lost = strongest(rows.astype(np.float32), 8)
    kept = (directions * lengths[:, None]).astype(np.float64)
    assert len(lengths) <= 1 or lengths[1] < 1e-2 * lengths[0]
    assert np.allclose(kept.T @ kept, rows.T @ rows, atol=1e-3 * (1 + (rows**2).sum()))
    assert lost == pytest.approx(0, abs=1e-3 * (1 + (rows**2).sum()))


def ragged(scale, width=20, seed=0):
    """Blocks of rows of 40 classes: some come often, some once; one is all zeros, one the same row again and again."""
    rng = np.random.default_rng(seed)
    centres, shares = rng.normal(size=(40, width)), rng.uniform(0.1, 3, size=40)
    for block in range(5):
        y = rng.permutation(
            np.concatenate((rng.choice(40, 120, p=shares / shares.sum()), np.full(9, 40), np.full(9, 41)))
        )
        X = np.concatenate((centres, np.zeros((1, width)), np.ones((1, width))))[y]
        X[y < 40] += rng.normal(size=(120, width))
        yield (X * scale).astype(np.float32), np.concatenate((y[:-1], [42 + block]))  # and classes of one row


@pytest.mark.parametrize("scale", [1e-20, 1e-8, 1.0, 1e8, np.logspace(-20, 8, 20), "by class"])
def test_classes_folded_together_are_those_folded_one_by_one(scale, monkeypatch):
    together, alone = ClassGaussians(20), ClassGaussians(20)
    for X, y in ragged(1.0 if isinstance(scale, str) else scale):
        rows = X * np.logspace(-20, 8, 50, dtype=np.float32)[y][:, None] if isinstance(scale, str) else X
        together.add(rows, y, rank=6)
        with monkeypatch.context() as patch:
            patch.setattr("votestream.memory.gaussians.TOGETHER", 0)
            alone.add(rows, y, rank=6)
    assert np.array_equal(together.counts, alone.counts)
    assert np.array_equal(together.means, alone.means)
    for c in range(len(alone.counts)):
        a, b = (g.factor(c).astype(np.float64) for g in (together, alone))
        energy = (b * b).sum()
        assert np.allclose(a.T @ a, b.T @ b, rtol=0, atol=5e-3 * energy), c
        assert (a * a).sum() == pytest.approx(energy, rel=2e-3)
        assert together.dropped[c] == pytest.approx(alone.dropped[c], rel=1e-2, abs=2e-3 * energy)
        assert (np.diff(together.lengths[c]) <= 0).all()
        assert together.lengths[c].base is None
        assert together.directions[c].base is None


def test_ellipsoids_decomposed_together_are_those_decomposed_alone():
    stack = np.random.default_rng(0).normal(size=(7, 9, 20)).astype(np.float32)
    stack[3:, 7:] = 0
    lengths, directions, lost = strongest_of_each(stack, 6)
    for rows, *found in zip(stack, lengths, directions, lost, strict=True):
        alone = strongest(rows, 6)
        assert np.allclose(found[0], alone[0], rtol=1e-5)
        assert np.allclose(abs((found[1] * alone[1]).sum(1)), 1, atol=1e-4)
        assert found[2] == pytest.approx(alone[2], rel=1e-3)


@pytest.mark.parametrize("scale", [2.0**-80, 2.0**-66, 2.0**27, 2.0**60])
@pytest.mark.parametrize("n", [9, 40])
def test_the_directions_do_not_depend_on_how_large_the_rows_are(scale, n):
    rows = np.random.default_rng(0).normal(size=(n, 20)).astype(np.float32)
    plain, scaled = strongest(rows, 6), strongest(rows * np.float32(scale), 6)
    assert np.allclose(scaled[0] / scale, plain[0], rtol=1e-5)
    assert np.allclose(abs((scaled[1] * plain[1]).sum(1)), 1, atol=1e-4)
    assert scaled[2] / scale**2 == pytest.approx(plain[2], rel=1e-4)
    assert scale == 2.0**27 or strongest_of_each(rows[None, :9] * np.float32(scale), 6) is None


def test_what_no_direction_keeps_is_counted_at_any_scale():
    rows = np.ones((3, 4), np.float32)
    assert strongest(rows * np.float32(2.0**70), 0)[2] == 12 * 2.0**140
    assert strongest(rows * np.float32(2.0**-80), 0)[2] == 12 * 2.0**-160


@pytest.mark.parametrize("scale", [1e-18, 1.0, 1e8])
def test_rows_that_come_one_at_a_time_add_up_to_the_scatter_of_all(scale):
    X, y = correlated(n_classes=3, n=60, width=20)
    X *= np.float32(scale)
    gaussians = ClassGaussians(20)
    for row, label in zip(X, y, strict=True):
        gaussians.add(row[None], np.array([label]), rank=20)
    within = np.zeros((20, 20))
    for c in range(3):
        centred = X[y == c].astype(np.float64) - X[y == c].mean(0, dtype=np.float64)
        scatter, F = centred.T @ centred, gaussians.factor(c).astype(np.float64)
        within += scatter
        assert np.allclose(F.T @ F, scatter, rtol=0, atol=3e-3 * np.trace(scatter))
        assert np.allclose(gaussians.means[c], X[y == c].mean(0), rtol=1e-4, atol=1e-5 * scale)
    assert np.allclose(gaussians.scatter.matrix(), within, rtol=0, atol=1e-5 * np.trace(within))


@pytest.mark.parametrize("width", [1, 3, 8, 21])
def test_the_shared_scatter_is_the_product_of_all_rows(width):
    rows = np.random.default_rng(0).normal(size=(50, width)).astype(np.float32)
    scatter = SharedScatter(width)
    scatter.add(rows[:20])
    scatter.add(rows[20:])
    assert np.allclose(scatter.matrix(), rows.T @ rows, atol=1e-3)
    assert sum(strip.nbytes for strip in scatter.strips) == SharedScatter.bytes_for(width)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_how_the_stream_is_cut_leaves_no_trace(size):
    stream = Stream(n_tasks=3, per_task=2, n=400)
    whole, cut = make(block=50).partial_fit(stream.X, stream.y), make(block=50)
    for i in range(0, len(stream.X), size):
        cut.partial_fit(stream.X[i : i + size], stream.y[i : i + size])
    assert np.array_equal(whole.predict_proba(stream.X), cut.predict_proba(stream.X))
    if size != 1:  # tasks found by themselves may differ in their first samples, classes do not
        assert same_model(whole, cut)


@pytest.mark.parametrize("budget", [6_000, 12_000, 40_000])
def test_the_budget_of_bytes_holds_at_every_moment(budget):
    stream = Stream(n_tasks=10, per_task=2, n=60, width=24)
    model = make(budget_bytes=budget)
    ranks = []
    for X, y in stream.batches(7):
        model.partial_fit(X, y)
        assert model.memory_bytes() <= budget
        model.predict(X)
        assert model.memory_bytes() <= budget
        ranks.append(model.ranks_.max())
    assert model.score(stream.X, stream.y) > 0.6
    assert ranks[-1] <= max(ranks)
    if budget == 12_000:
        assert ranks[-1] < max(ranks)


def test_more_bytes_keep_more_directions():
    stream = Stream(n_tasks=6, per_task=2, n=200, width=24)
    ranks = [make(budget_bytes=b).partial_fit(stream.X, stream.y).ranks_.max() for b in (8_000, 16_000, 64_000)]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


def test_a_budget_with_room_for_means_only_leaves_the_shared_covariance():
    X, y = correlated(n_classes=4, n=200, width=24)
    tight, shared = make(budget_bytes=2900, power=1).partial_fit(X, y), make(strength=1e-6, power=1).partial_fit(X, y)
    assert tight.ranks_.tolist() == [0, 0, 0, 0]
    assert tight.memory_bytes() <= 2900
    assert (tight.predict(X) == shared.predict(X)).mean() > 0.99


def test_a_budget_without_room_for_the_means_is_refused_and_changes_nothing():
    stream = Stream(n_tasks=2, per_task=2, width=24)
    with pytest.raises(ValueError, match=r"budget_bytes=2000 is too small: 4 classes of 24 features take \d+ bytes"):
        make(budget_bytes=2000).partial_fit(stream.X, stream.y)
    model = make(budget_bytes=2700).partial_fit(stream.X[:5], ["one"] * 5)
    before = model.memory_.arrays()
    with pytest.raises(ValueError, match="too small"):
        model.partial_fit(stream.X[:40], list(range(40)))
    assert model.classes_.tolist() == ["one"]
    assert all(np.array_equal(before[name], array) for name, array in model.memory_.arrays().items())


def test_asking_takes_working_memory_that_is_counted_on_request_only():
    stream = Stream()
    model = make().partial_fit(stream.X, stream.y)
    kept = model.memory_bytes()
    model.predict(stream.X)
    assert model.memory_bytes() == kept
    assert model.memory_bytes(working=True) > kept


def test_with_a_block_of_one_no_row_of_the_stream_is_kept():
    stream = Stream(n_tasks=2, n=100)
    model = make(block=1, power=1).partial_fit(stream.X, stream.y)
    assert len(model.memory_.pending) == 0
    kept = [
        a.reshape(-1, 12).astype(np.float32)
        for a in model.memory_.arrays().values()
        if a.size and a.shape[-1:] == (12,)
    ]
    assert kept
    for table in kept:
        nearest = np.linalg.norm(table[:, None] - stream.X[None], axis=2).min()
        assert nearest > 1e-3


@pytest.mark.parametrize(("shift", "scale"), [(1000.0, 1.0), (0.0, 1e-4), (0.0, 1e4)])
def test_where_features_lie_and_how_large_they_are_decides_nothing(shift, scale):
    X, y = correlated()
    plain, moved = make(power=1).partial_fit(X, y), make(power=1).partial_fit(X * scale + shift, y)
    assert (plain.predict(X) == moved.predict(X * scale + shift)).mean() > 0.99


def test_a_class_of_one_sample_does_not_swallow_the_others():
    stream = Stream(n_tasks=2, per_task=2, n=200, width=24)
    model = make().partial_fit(stream.X, stream.y).partial_fit(stream.centres[:1] + 2, ["new"])
    assert np.mean([guess == label for guess, label in zip(model.predict(stream.X), stream.y, strict=True)]) > 0.9
    assert model.predict(stream.centres[:1] + 2).tolist() == ["new"]


def test_one_sample_of_each_class_is_nearest_mean():
    X = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    model = make(power=1).partial_fit(X, list("abcdef"))
    assert model.predict(X).tolist() == list("abcdef")


def test_constant_features_do_no_harm():
    X, y = correlated()
    flat = np.concatenate((X, np.full((len(X), 3), 7.0, np.float32)), axis=1)
    assert make().partial_fit(flat, y).score(flat, y) > 0.95 * make().partial_fit(X, y).score(X, y)


def test_square_roots_are_for_features_that_are_not_negative():
    X, y = correlated()
    assert make().partial_fit(X, y).memory_.power == 1
    assert make().partial_fit(np.abs(X), y).memory_.power == 0.5


def test_the_vote_is_a_probability_split_in_two():
    stream = Stream()
    model = make()
    for name, (X, y) in enumerate(stream.tasks):
        model.partial_fit(X, y, task=name)
    vote, P = model.vote(stream.X), model.predict_proba(stream.X)
    assert np.array_equal(vote.winner, model.predict(stream.X))
    assert np.allclose(vote.prior.sum(1), 1, atol=1e-5)
    assert np.allclose(vote.score, vote.s_hat * vote.prior, atol=1e-6)
    assert np.allclose(vote.score.max(1), P.max(1), atol=1e-6)
    assert np.array_equal(
        model.task_of_class_[[model.classes_.tolist().index(c) for c in vote.winner]], vote.winner_task
    )


def test_a_class_that_comes_back_goes_on_learning():
    stream = Stream(n_tasks=3, n=100)
    X, y = stream.tasks[0]
    model = make(block=20).partial_fit(X, y)
    for later, labels in stream.tasks[1:]:
        model.partial_fit(later, labels)
    model.partial_fit(X, y)
    assert model.class_counts_.tolist() == [100, 100, 50, 50, 50, 50]
    assert np.allclose(model.class_means_[0], X[y == model.classes_[0]].mean(0), atol=1e-4)


@pytest.mark.parametrize(
    "params", [{"budget_bytes": 0}, {"rank": 0}, {"strength": -1}, {"few": 0}, {"power": "root"}, {"block": 2.5}]
)
def test_wrong_settings_are_named(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        make(**params).partial_fit(np.ones((2, 2)), ["a", "b"])


def test_directions_that_no_class_has_yet_change_nothing():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 30
    X = rng.normal(size=(90, 400)).astype(np.float32) + rng.normal(size=(30, 400)).astype(np.float32)[y]
    few, many = make(rank=60).partial_fit(X, y), make(rank=400).partial_fit(X, y)
    assert np.allclose(many.predict_proba(X), few.predict_proba(X), atol=1e-4)
    assert many.ranks_.tolist() == few.ranks_.tolist()
    one = X[:1], y[:1]
    asked = make(rank=400).partial_fit(X, y)
    asked.predict(X[:1])
    shares = asked.partial_fit(*one).predict_proba(X)
    assert np.array_equal(shares, make(rank=400).partial_fit(X, y).partial_fit(*one).predict_proba(X))
