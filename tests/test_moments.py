"""Statistics that stream in block by block."""

from __future__ import annotations

import numpy as np
import pytest

from votestream.memory import ClassMoments, Pending


def rows(n, width=3, n_classes=4, mean=0.0, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, n)
    spread = rng.normal(size=(width, width))
    return (mean + classes[:, None] + rng.normal(size=(n, width)) @ spread).astype(np.float32), classes


def blocks_of(X, classes, cuts, block):
    pending = Pending(X.shape[1], block)
    found = []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        found += [(part.copy(), numbers.copy()) for part, numbers in pending.add(X[a:b], classes[a:b])]
    return found, pending


@pytest.mark.parametrize("cuts", [[], [1], [15, 16, 17], [16, 32], [5, 50], list(range(1, 100))])
def test_blocks_end_at_the_same_places_of_the_stream_however_it_is_cut(cuts):
    X, classes = rows(100)
    found, pending = blocks_of(X, classes, cuts, block=16)
    assert [len(part) for part, _ in found] == [16] * 6
    assert np.array_equal(np.concatenate([*(part for part, _ in found), pending.rows]), X)
    assert np.array_equal(np.concatenate([*(numbers for _, numbers in found), pending.classes]), classes)


def test_whole_blocks_of_a_large_call_are_not_copied():
    X, classes = rows(64)
    assert all(np.shares_memory(part, X) for part, _ in Pending(3, 16).add(X, classes))


def test_what_waits_is_a_copy_and_is_saved():
    X, classes = rows(20)
    pending, other = Pending(3, 16), Pending(3, 16)
    list(pending.add(X, classes))
    kept = X[16:].copy()
    other.restore({name: array.copy() for name, array in pending.state().items()}, merged=4, n_classes=4)
    X[:] = 0
    for each in (pending, other):
        assert len(each) == 4
        assert np.array_equal(each.rows, kept)


@pytest.mark.parametrize("mean", [0.0, 1000.0])
@pytest.mark.parametrize("sizes", [[400], [1] * 400, [3, 97, 200, 100]])
def test_moments_are_those_of_all_rows_together_whatever_the_blocks(mean, sizes):
    X, classes = rows(400, mean=mean)
    shared, own = ClassMoments(3, "shared"), ClassMoments(3, "class")
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        for moments in (shared, own):
            moments.add(X[end - size : end], classes[end - size : end])
    of_class = [X[classes == c].astype(np.float64) for c in range(4)]
    scatters = np.array([(part - part.mean(0)).T @ (part - part.mean(0)) for part in of_class])
    for moments in (shared, own):
        assert np.array_equal(moments.counts, np.bincount(classes))
        assert np.allclose(moments.means, [part.mean(0) for part in of_class], rtol=1e-12)
    assert np.allclose(own.scatter, scatters, rtol=1e-5, atol=1e-3)
    assert np.allclose(shared.scatter, scatters.sum(0), rtol=1e-10)
    assert np.allclose(shared.overall_mean(), X.mean(0, dtype=np.float64), rtol=1e-12)


@pytest.mark.parametrize("scatter", [None, "shared", "class"])
def test_moments_saved_are_moments_kept_and_a_copy_stands_alone(scatter):
    X, classes = rows(200, n_classes=20)
    moments, other = ClassMoments(3, scatter), ClassMoments(3, scatter)
    moments.add(X, np.sort(classes))
    twin = moments.copy()
    other.restore({name: array.copy() for name, array in moments.state().items()}, most=20, largest=1e12)
    moments.add(X, classes)
    assert not np.array_equal(twin.means, moments.means)
    for name, array in twin.state().items():
        assert np.array_equal(other.state()[name], array)
