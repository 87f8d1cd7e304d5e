"""ASER: Shapley values by their definition, what is replayed and what is kept because of them."""

from __future__ import annotations

import copy
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from conftest import ImageStream, make_on_network, one_thread
from votestream.learners.network.shapley import asv, knn_shapley
from votestream.memory import turns


@pytest.fixture(autouse=True)
def single_thread():
    with one_thread():
        yield


# ---- Shapley values -----------------------------------------------------------------------------


def by_definition(X, y, query, label, k):
    """Every sample's mean contribution over all sets of the others, sets of each size weighing the same."""

    def worth(members):
        nearest = sorted(members, key=lambda i: float(((X[i] - query) ** 2).sum()))[:k]
        return sum(y[i] == label for i in nearest) / k

    n, values = len(y), []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        sets = (members for size in range(n) for members in combinations(others, size))
        values.append(sum((worth((*s, i)) - worth(s)) / (n * comb(n - 1, len(s))) for s in sets))
    return values


def random_sets(seed, n=6, queries=4):
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(n, 3)), rng.normal(size=(queries, 3))
    return X, rng.integers(0, 3, n), Q, rng.integers(0, 3, queries)


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_values_are_shapley_values_by_definition(k):
    for seed in range(3):
        X, y, Q, labels = random_sets(seed)
        wanted = [by_definition(X, y, query, label, k) for query, label in zip(Q, labels, strict=True)]
        values = knn_shapley(*tensors(X, y, Q, labels), k=k)
        assert np.allclose(values, wanted)


def test_samples_that_are_not_held_take_no_part():
    X, y, Q, labels = random_sets(0, n=12, queries=30)
    held = np.random.default_rng(1).random(12) < 0.6
    values = knn_shapley(*tensors(X, y, Q, labels), k=3, held=torch.from_numpy(held))
    alone = knn_shapley(*tensors(X[held], y[held], Q, labels), k=3)
    assert not values[:, ~held].any()
    assert torch.allclose(values[:, held], alone)


def test_all_queries_at_once_are_each_of_them_alone():
    X, y, Q, labels = random_sets(0, n=40, queries=25)
    alone = [knn_shapley(*tensors(X, y, Q[i : i + 1], labels[i : i + 1]), k=3) for i in range(25)]
    assert torch.allclose(knn_shapley(*tensors(X, y, Q, labels), k=3), torch.cat(alone))


def test_adversarial_values_are_means_or_extremes_of_those_that_are_there():
    rng = np.random.default_rng(0)
    cooperative, adversarial = rng.normal(size=(9, 5)), rng.normal(size=(4, 5))
    there = np.arange(9) % 3 > 0
    mean, extreme = (asv(*tensors(cooperative, there, adversarial), mean=mean) for mean in (True, False))
    assert np.allclose(mean, cooperative[there].mean(0) - adversarial.mean(0))
    assert np.allclose(extreme, cooperative[there].max(0) - adversarial.min(0))
    none = np.zeros(9, bool)
    assert np.allclose(asv(*tensors(cooperative, none, adversarial), mean=True), -adversarial.mean(0))
    assert np.allclose(asv(*tensors(cooperative, none, adversarial), mean=False), -adversarial.min(0))


# ---- what is drawn from memory ------------------------------------------------------------------


def test_turns_draw_every_slot_of_a_class_as_often_and_as_many_of_each_class():
    rng = np.random.default_rng(0)
    labels = np.array([0] * 10 + [2] * 4 + [5])
    counts = np.zeros(15)
    for _ in range(3000):
        turn = turns(*tensors(labels, rng.random(15))).numpy()
        first = turn < 2
        assert np.bincount(labels[first]).tolist() == [2, 0, 2, 0, 0, 1]
        assert all(sorted(turn[labels == label]) == list(range((labels == label).sum())) for label in (0, 2, 5))
        counts += first
    assert np.allclose(counts / 3000, [0.2] * 10 + [0.5] * 4 + [1], atol=0.03)


def model_and_batch(**params):
    """A model with a full memory, few of some classes in it, and the next mini-batch."""
    stream = ImageStream(n_tasks=4)
    model = make_on_network("aser")(budget=70, **params)
    for X, y in stream.tasks[:3]:
        model.partial_fit(X, y)
    assert model.memory_.images.store.full
    held = model.memory_.images.store.labels
    for few, many, n in ((0, 1, 2), (2, 3, 5)):
        held[(held == few).nonzero().flatten()[n:]] = many
    X, y = stream.tasks[1][0][:10] ^ 1, stream.tasks[1][1][:10]  # a little different from those in memory
    number = {label: i for i, label in enumerate(model.classes_.tolist())}
    model.memory_.network.train()
    return model, torch.from_numpy(X), torch.tensor([number[label] for label in y.tolist()])


def features(model, images):
    network = copy.deepcopy(model.memory_.network).eval()
    with torch.no_grad():
        return network.features(images)


def class_by_class(labels, draws):
    """The slots of each class, in the order of their draws."""
    slots = np.arange(len(labels))
    return [sorted(slots[labels == label], key=lambda slot: draws[slot]) for label in np.unique(labels)]


@pytest.mark.parametrize("mean", [True, False])
def test_replayed_are_the_candidates_of_the_largest_adversarial_values(mean):
    model, images, labels = model_and_batch(per_class=4, replay=7, mean=mean)
    store, draws = model.memory_.images.store, copy.deepcopy(model.memory_.random).uniform(70)
    members = class_by_class(store.labels.numpy(), draws)
    candidates = np.concatenate([slots[:4] for slots in members])
    others = np.concatenate([slots[4:8] for slots in members])
    f, y = features(model, store.images), store.labels
    cooperative, adversarial = (
        knn_shapley(f[candidates], y[candidates], queries, classes, model.k)
        for queries, classes in ((f[others], y[others]), (features(model, images), labels))
    )
    scores = cooperative.mean(0) - adversarial.mean(0) if mean else cooperative.amax(0) - adversarial.amin(0)
    taken = model._retrieve(images, labels, model._draws(1))
    assert len(set(taken.tolist())) == 7
    assert set(taken.tolist()) <= set(candidates.tolist())
    at = dict(zip(candidates.tolist(), scores.tolist(), strict=True))
    assert sorted(at[slot] for slot in taken.tolist()) == pytest.approx(sorted(at.values())[-7:], abs=1e-6)


def test_the_memory_keeps_the_most_worthy_of_candidates_and_new_images():
    replaced = 0
    for seed in range(5):
        model, images, labels = model_and_batch(per_class=4, seed=seed)
        store, random = model.memory_.images.store, copy.deepcopy(model.memory_.random)
        draws, fresh, threshold = random.uniform(70), random.uniform(70), float(random.uniform(1)[0]) / 6
        old_images, old_labels = store.images.clone(), store.labels.clone()
        others = np.concatenate([slots[:4] for slots in class_by_class(old_labels.numpy(), draws)])
        rest = sorted(set(range(70)) - set(others.tolist()), key=lambda slot: fresh[slot])[:24]
        rare = [i for i in range(10) if (old_labels == labels[i]).float().mean() < threshold]
        f, f_new = features(model, old_images), features(model, images)
        X, y = torch.cat((f[rest], f_new)), torch.cat((old_labels[rest], labels))
        queries, classes = torch.cat((f[others], f_new[rare])), torch.cat((old_labels[others], labels[rare]))
        worth = knn_shapley(X, y, queries, classes, model.k).sum(0)

        model._update(images, labels, model._draws(2), torch.from_numpy(model.memory_.random.uniform(1)))
        changed = (store.images != old_images).flatten(1).any(1).nonzero().flatten().tolist()
        assert set(changed) <= set(rest)
        came = [int((images == store.images[slot]).flatten(1).all(1).nonzero()[0]) for slot in changed]
        assert len(set(came)) == len(came)
        assert [int(labels[i]) for i in came] == store.labels[changed].tolist()
        kept = [worth[rest.index(slot)] for slot in rest if slot not in changed] + [worth[24 + i] for i in came]
        assert np.allclose(np.sort(kept), np.sort(worth.numpy())[-24:], atol=1e-6)
        replaced += len(changed)
    assert replaced


def test_scoring_and_keeping_leave_network_and_batch_norm_statistics_as_they_were():
    model, images, labels = model_and_batch()
    before, random = copy.deepcopy(model.memory_.network.state_dict()), torch.get_rng_state()
    model._retrieve(images, labels, model._draws(1))
    model._update(images, labels, model._draws(2), torch.from_numpy(model.memory_.random.uniform(1)))
    assert all(torch.equal(now, before[name]) for name, now in model.memory_.network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(module.training for module in model.memory_.network.modules())


# ---- the learner --------------------------------------------------------------------------------


def test_until_the_memory_is_full_aser_is_er(monkeypatch):
    stream, models = ImageStream(), [make_on_network(name)(budget=60) for name in ("er", "aser")]
    for model in models:
        model.partial_fit(stream.X[:60], stream.y[:60], task=0)
    one, other = (model.memory_.network.state_dict() for model in models)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert np.array_equal(models[0].exemplars_.features, models[1].exemplars_.features)
    asked = []
    monkeypatch.setattr(models[1], "_retrieve", lambda *batch: asked.append(batch) or torch.arange(10))
    models[1].partial_fit(stream.X[60:70], stream.y[60:70], task=1)
    assert len(asked) == 1


def test_a_new_class_finds_its_place_in_a_full_memory():
    stream = ImageStream(n_tasks=2)
    model = make_on_network("aser")(budget=30)
    model.partial_fit(*stream.tasks[0], task=0)
    assert len(set(model.exemplars_.labels.tolist())) == 2
    model.partial_fit(*stream.tasks[1], task=1)
    held = np.unique(model.exemplars_.labels, return_counts=True)[1]
    assert len(held) == 4
    assert held.min() >= 3


@pytest.mark.parametrize("params", [{"per_class": 1}, {"mean": False}, {"k": 50}, {"batch_size": 25}, {"replay": 200}])
@pytest.mark.parametrize("budget", [1, 2, 7])
def test_odd_sizes_are_learned_within_the_budget(budget, params):
    stream = ImageStream()
    model = make_on_network("aser")(budget=budget, **params).partial_fit(stream.X, stream.y)
    assert len(model.exemplars_.labels) == budget
    assert np.isfinite(model.predict_proba(stream.X)).all()
