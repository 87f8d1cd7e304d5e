"""The store holds its budget, and each keep rule keeps what it says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from votestream.compute.random_pool import RandomPool
from votestream.memory import Balanced, ClassStatistics, ExemplarStore, FirstIn, Reservoir
from votestream.memory.quota import Quota


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def offer_all(rule, budget, labels, step=1, grow=True):
    """Offers samples that are their own number, as tiny images; returns the store."""
    store, classes = ExemplarStore(budget, (2, 2, 3), np.uint8), 0
    for i in range(0, len(labels), step):
        part = np.array(labels[i : i + step])
        for label in part.tolist():
            if label >= classes:
                classes = label + 1
                rule.grow(store, classes)
        images = np.broadcast_to(np.arange(i, i + len(part))[:, None, None, None] % 256, (len(part), 2, 2, 3))
        rule.offer(store, images.astype(np.uint8), part, None)
        assert len(store) <= budget
    return store


def test_images_are_stored_as_they_came():
    store = offer_all(Reservoir(generator()), 10, [0] * 10)
    assert store.items.dtype == np.uint8
    assert store.items[:, 1, 1, 2].tolist() == list(range(10))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 10**6))
def test_removing_keeps_every_other_exemplar_and_its_columns(slots, seed):
    rng = np.random.default_rng(seed)
    store = ExemplarStore(10, (1,))
    for label in range(10):
        slot = store.add(np.array([label]), label)
        store.score[slot] = label
    gone = np.unique(slots).astype(int)
    store.remove(rng.permutation(gone))
    left = [label for label in range(10) if label not in gone]
    assert store.labels.tolist() == store.items[:, 0].tolist() == store.score.tolist() == left


def test_a_full_store_refuses_more():
    store = ExemplarStore(1, (1,))
    store.add(np.zeros(1), 0)
    with pytest.raises(ValueError, match="budget of 1"):
        store.add(np.zeros(1), 0)


@pytest.mark.parametrize("step", [1, 10, 64])
def test_a_reservoir_keeps_every_sample_with_the_same_probability(step):
    kept = np.zeros(100)
    for seed in range(600):
        kept[offer_all(Reservoir(generator(seed)), 20, [0] * 100, step).items[:, 0, 0, 0]] += 1
    share = kept.reshape(10, 10).mean(1) / 600
    assert np.abs(share - 0.2).max() < 0.03  # each tenth of the stream, early and late alike


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=150), st.integers(1, 30))
def test_the_balanced_memory_is_as_balanced_as_the_stream_allows(labels, budget):
    order = {}
    labels = [order.setdefault(label, len(order)) for label in labels]
    store = offer_all(Balanced(generator()), budget, labels)
    held = np.bincount(store.labels, minlength=max(labels) + 1)
    seen = np.bincount(labels)
    fair = budget / len(seen)
    assert len(store) == min(budget, len(store))
    if budget >= len(seen):
        assert (held >= np.minimum(seen, int(fair)) - 1).all()
    if (seen >= np.ceil(fair)).all() and len(store) == budget:
        assert held.max() - held.min() <= 1 + (fair < 1)


def test_first_in_keeps_the_earliest_of_each_class():
    labels = [0] * 20 + [0, 1] * 10
    store = offer_all(FirstIn(Quota(10)), 10, labels)
    kept = store.items[:, 0, 0, 0]
    assert kept[store.labels == 0].tolist() == [0, 1, 2, 3, 4]
    assert kept[store.labels == 1].tolist() == [21, 23, 25, 27, 29]


def test_statistics_are_the_plain_mean_count_and_deviation_to_the_last_bit_of_any_cutting():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(300, 5)).astype(np.float32) * [1e-4, 1, 30, 1e5, 0], rng.integers(0, 11, 300)
    X = X.astype(np.float32)
    whole, cut = ClassStatistics(5), ClassStatistics(5)
    whole.add(X, labels)
    for i in range(0, 300, 7):
        cut.add(X[i : i + 7], labels[i : i + 7])
    assert np.array_equal(whole.state()["table"], cut.state()["table"])
    for c in range(11):
        own = X[labels == c].astype(np.float64)
        assert whole.counts[c] == len(own)
        assert np.allclose(whole.means[c], own.mean(0))
        assert np.allclose(whole.spread()[c], own.std(0), rtol=1e-4)
    assert np.allclose(whole.global_spread()[0], X.astype(np.float64).std(0), rtol=1e-4)


def test_a_random_pool_serves_normal_and_uniform_numbers():
    pool = RandomPool(1)
    normal = np.concatenate([pool.normal(n) for n in (1, 20000, 7, 30000)])
    uniform = np.concatenate([pool.uniform(n) for n in (5, 3000, 1)])
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert abs(uniform.mean() - 0.5) < 0.03
    assert 0 <= uniform.min() < uniform.max() < 1
    assert len(np.unique(normal)) > 0.99 * len(normal)
