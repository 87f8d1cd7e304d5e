"""GSS: gradients of images and of mini-batches, and a memory that keeps images whose gradients point apart."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import votestream as vs
from conftest import ImageStream, make_on_network, one_thread, same_model
from votestream.compute.random_pool import RandomPool
from votestream.io import model_files as persistence
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.gradients import _by_vmap, gradient_products
from votestream.memory import GreedyMemory, distinct


@pytest.fixture(autouse=True)
def single_thread():
    with one_thread():
        yield


class AllKinds(nn.Module):
    """Every known layer in odd forms: strides, groups, one used twice, one for nothing, a change in place."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.twice = nn.Conv2d(8, 8, (3, 2), padding=(2, 1), groups=4)
        self.side = nn.Linear(8, 3)
        self.last = nn.Linear(8, 6)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)), inplace=True)
        x = self.twice(torch.tanh(self.twice(x)))
        tokens = x.flatten(2).transpose(1, 2)
        self.side(tokens)
        return self.last(tokens).tanh().mean(1)


class Other(nn.Module):
    """Layers that only `torch.func` knows."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(12, 10), nn.LayerNorm(10)

    def forward(self, x):
        return self.norm(self.linear(x.flatten(1)))


class Reshaped(nn.Module):
    """A layer that sees images' halves as a batch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 5)

    def forward(self, x):
        return torch.tanh(self.linear(x.reshape(-1, 6))).view(len(x), -1)


def network_of(module, size):
    """The network with statistics that are not at their start, and five classes."""
    torch.manual_seed(0)
    backbone = vs.from_module(module(), input_size=size, name="module", device="cpu") if module else None
    network = Classifier(backbone or vs.create_backbone("reduced_resnet18", device="cpu"))
    network.grow(5, torch.Generator().manual_seed(1))
    images = torch.randint(0, 256, (12, size, size, 3), dtype=torch.uint8)
    if module:
        network.train()(images)
    return network.eval(), images[:7], torch.arange(7) % 5


def gradient_of(network, image, label):
    """By plain autograd, of one image, as one vector."""
    loss = F.cross_entropy(network(image[None]), label[None])
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()), materialize_grads=True)]
    )


@pytest.mark.parametrize(("module", "size"), [(AllKinds, 8), (Other, 2), (Reshaped, 2), (None, 32)])
def test_products_are_those_of_gradients_taken_one_by_one(module, size):
    network, images, labels = network_of(module, size)
    images = network.pixels(images).double()
    network.double()
    rows = torch.stack([gradient_of(network, *each) for each in zip(images, labels, strict=True)])
    sums = torch.block_diag(torch.eye(2), torch.ones(1, 3), torch.ones(1, 2)).double()
    for way in (gradient_products, _by_vmap):
        for more, G in (((), rows), ((sums,), sums @ rows)):
            norms = G.norm(dim=1)
            off = (way(network, images, labels, *more) - G @ G.T) / (norms * norms[:, None])
            assert off.abs().max() < 1e-12


def without_a_trace(model, X, y):
    """The scores of these images, and that taking them left everything as it was."""
    model.memory_.network.train()
    before, random = copy.deepcopy(model.memory_.network.state_dict()), torch.get_rng_state()
    scores = model._scores(X, y)
    assert all(torch.equal(now, before[name]) for name, now in model.memory_.network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(module.training and not module._forward_hooks for module in model.memory_.network.modules())
    assert all(parameter.grad is None for parameter in model.memory_.network.parameters())
    return scores, copy.deepcopy(model.memory_.network).eval()


def taught(**params):
    """A model with a full memory, and ten more images."""
    stream, model = ImageStream(), make_on_network("gss")(budget=40, **params)
    model.partial_fit(stream.X[:40], stream.y[:40])
    X, y = torch.from_numpy(stream.X[50:60]), torch.from_numpy(model.memory_.images.store.labels.numpy()[:10].copy())
    return model, X, y


def cosines_to(g, stored):
    return [float(g @ G / (g.norm() * G.norm())) for G in stored]


def test_to_the_letter_scores_are_one_plus_the_largest_cosine_and_leave_no_trace():
    model, X, y = taught(references=4, preset="paper")
    drawn = distinct(model.memory_.images.slots(), 4, copy.deepcopy(model.memory_.random))
    scores, network = without_a_trace(model, X, y)
    stored = [gradient_of(network, *each) for each in zip(*model.memory_.images.store.take(drawn), strict=True)]
    for image, label, score in zip(X, y, scores, strict=True):
        assert float(score) == pytest.approx(1 + max(cosines_to(gradient_of(network, image, label), stored)), abs=1e-5)
    assert scores.min() < 1 < scores.max()


def test_scores_are_taken_against_mini_batches_and_the_last_is_the_new_mini_batchs(monkeypatch):
    model, X, y = taught(references=3, replay=4)
    used, compare = [], model._to_batches

    def spy(images, labels, stored, classes):
        used.extend(zip(stored, classes, strict=True))
        return compare(images, labels, stored, classes)

    monkeypatch.setattr(model, "_to_batches", spy)
    scores, network = without_a_trace(model, X, y)

    def gradient(images, labels):
        loss = F.cross_entropy(network(images), labels)
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(network.parameters()))])

    assert [len(labels) for _, labels in used] == [4, 4, 4]
    stored = [gradient(*each) for each in used]
    for i, score in enumerate(scores[:-1]):
        wanted = 1 + max(cosines_to(gradient(X[i : i + 1], y[i : i + 1]), stored))
        assert float(score) == pytest.approx(wanted, abs=1e-5)
    assert float(scores[-1]) == pytest.approx(1 + max(cosines_to(gradient(X, y), stored)), abs=1e-5)
    assert scores.min() < 1 < scores.max()


def test_a_memory_smaller_than_the_references_is_cut_into_mini_batches_anew_each_time(monkeypatch):
    model, X, y = taught(references=10, replay=8)
    cuts = []

    def spy(images, labels, stored, classes):
        cuts.append([frozenset(map(str, batch.flatten(1).tolist())) for batch in stored])
        return torch.ones(len(labels) + 1)

    monkeypatch.setattr(model, "_to_batches", spy)
    for _ in range(3):
        model._scores(X, y)
    assert [len(cut) for cut in cuts] == [5, 5, 5]  # 40 images
    assert not set(cuts[0]) & set(cuts[1]) | set(cuts[1]) & set(cuts[2])


def full(scores):
    memory = GreedyMemory(len(scores), (1, 1, 1), torch.device("cpu"))
    labels = torch.arange(len(scores))
    memory.observe(torch.zeros(len(scores), 1, 1, 1, dtype=torch.uint8), labels, torch.tensor(scores), RandomPool(0))
    return memory


def offer(memory, labels, scores, random, gate=None):
    images = torch.tensor(labels, dtype=torch.uint8)[:, None, None, None]
    memory.observe(images, torch.tensor(labels), torch.tensor(scores), random, gate)


# ---- the rule of the authors' code --------------------------------------------------------------


def offered(gradients, monkeypatch):
    """A GSS whose memory is full of gradients (1, 0), offered images of these, 40 mini-batches; labels kept."""
    table = torch.tensor([[1.0, 0.0], *gradients])

    def products(network, images, labels, sums=None):
        G = table[images[:, 0, 0, 0].long()]
        G = G if sums is None else sums @ G
        return G @ G.T

    monkeypatch.setattr("votestream.learners.network.gss.gradient_products", products)
    X = np.zeros((20 + 40 * len(gradients), 2, 2, 3), np.uint8)
    X[20:, 0, 0, 0] = np.tile(np.arange(1, len(table)), 40)
    model = make_on_network("gss")(budget=20, lr=1e-6, batch_size=len(gradients))
    model.partial_fit(X[:20], ["old"] * 20, task=0).partial_fit(X[20:], X[20:, 0, 0, 0], task=1)
    return model.exemplars_.features[:, 0, 0, 0].tolist()


def test_a_mini_batch_whose_gradient_points_the_old_way_leaves_the_memory_alone(monkeypatch):
    """Though one of its images points the other way."""
    assert offered([(1, 0), (1, 0), (1, 0), (-2, 0)], monkeypatch) == [0] * 20


def test_a_mini_batch_whose_gradient_points_away_lets_all_its_images_contest(monkeypatch):
    """Though one of them points the old way."""
    assert set(offered([(-1, 0), (-1, 0.1), (-1, -0.1), (2, 0)], monkeypatch)) == {0, 1, 2, 3, 4}


def test_the_gate_is_the_mini_batchs_and_not_the_images():
    for scores in ([0.0] * 5, [1.9] * 5):
        memory, random = full([1.5] * 10), RandomPool(0)
        for _ in range(10):
            offer(memory, [20, 21, 22, 23, 24], scores, random, gate=torch.tensor(False))
        assert memory.store.labels.tolist() == list(range(10))
        for _ in range(10):
            offer(memory, [20, 21, 22, 23, 24], scores, random, gate=torch.tensor(True))
        assert set(memory.store.labels.tolist()) & {20, 21, 22, 23, 24}


def test_slots_are_drawn_by_scores_less_the_smallest_and_won_by_scores_as_they_are():
    random, C, c, taken = RandomPool(1), np.array([0.3, 0.9, 1.8]), 1.2, np.zeros(4)
    for _ in range(1500):
        memory = full(C.tolist())
        offer(memory, [9], [c], random, gate=torch.tensor(True))
        where = (memory.store.labels == 9).nonzero().flatten().tolist()
        taken[where[0] if where else 3] += 1
    scaled = (C - C.min()) / (C - C.min()).sum()
    wanted = scaled * C / (C + c)
    assert taken[0] == 0
    assert np.allclose(taken / 1500, [*wanted, 1 - wanted.sum()], atol=0.04)


def test_among_equal_scores_every_slot_is_as_likely():
    random, taken = RandomPool(1), np.zeros(4)
    for _ in range(800):
        memory = full([1.1] * 4)
        offer(memory, [9], [0.0], random, gate=torch.tensor(True))
        taken += (memory.store.labels == 9).numpy()
    assert taken.sum() == 800
    assert np.allclose(taken / 800, 0.25, atol=0.04)


# ---- Algorithm 2 to the letter ------------------------------------------------------------------


def test_a_model_file_that_names_no_preset_goes_on_to_the_letter(tmp_path):
    """Files from before there was a preset are such."""
    stream, steady = ImageStream(), make_on_network("gss")(budget=20, preset="paper")
    steady.partial_fit(stream.X[:60], stream.y[:60])
    steady.save(tmp_path / "new")
    header, arrays = persistence.read(tmp_path / "new")
    del header["params"]["preset"]
    persistence.write(tmp_path / "old", header, arrays)
    loaded = vs.load(tmp_path / "old")
    assert loaded.preset == "paper"
    assert same_model(
        steady.partial_fit(stream.X[60:], stream.y[60:]), loaded.partial_fit(stream.X[60:], stream.y[60:])
    )
    steady.set_params(preset=None).save(tmp_path / "new")
    assert vs.load(tmp_path / "new").preset is None


def test_a_image_takes_a_slot_as_often_as_algorithm_2_says():
    random, C, c, taken = RandomPool(1), np.array([0.3, 0.9, 1.8]), 0.6, np.zeros(4)
    for _ in range(4000):
        memory = full(C.tolist())
        offer(memory, [9], [c], random)
        where = (memory.store.labels == 9).nonzero().flatten().tolist()
        taken[where[0] if where else 3] += 1
    wanted = C / C.sum() * C / (C + c)
    assert np.allclose(taken / 4000, [*wanted, 1 - wanted.sum()], atol=0.03)


def test_scores_and_images_move_together_and_like_images_never_enter():
    memory, random, score_of = full([1.5] * 20), RandomPool(0), {}
    for first in range(20, 120, 10):
        labels = list(range(first, first + 10))
        scores = [0.1 + 0.01 * (label - 20) if label % 2 else 1.0 + 0.001 * label for label in labels]
        score_of.update(zip(labels, scores, strict=True))
        offer(memory, labels, scores, random)
    held = memory.store.labels.tolist()
    assert len(set(held)) == 20
    assert all(label < 20 or label % 2 for label in held)
    assert max(held) > 20
    for label, image, score in zip(held, memory.store.images.flatten().tolist(), memory.scores.tolist(), strict=True):
        assert image == (label if label >= 20 else 0)
        assert score == pytest.approx(score_of.get(label, 1.5))


def test_more_new_images_than_slots_are_taken_in_turn():
    memory, random = full([1.9] * 3), RandomPool(0)
    offer(memory, list(range(10, 30)), [1e-6] * 20, random)
    assert len(memory) == 3
    assert all(label >= 10 for label in memory.store.labels.tolist())


# ---- either -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preset", "apart"), [(None, 0.9), ("paper", 0.8)])
def test_gss_keeps_more_of_what_is_rare_than_a_reservoir_and_gradients_point_further_apart(preset, apart):
    """Nine in ten images are of one class."""
    stream = ImageStream(n_tasks=1, per_task=4, n=1200, spread=0.3)
    rng = np.random.default_rng(0)
    common, rare = (rng.permutation((stream.y == 0).nonzero()[0]), rng.permutation((stream.y > 0).nonzero()[0])[:30])
    rows = rng.permutation(np.concatenate([common[:270], rare]))
    X, y = stream.X[rows], stream.y[rows]
    spread, shares = {}, {}
    for name, more in (("er", {}), ("gss", {"preset": preset})):
        held, cosines = [], []
        for seed in range(4):
            model = make_on_network(name)(budget=30, lr=0.02, seed=seed, **more).partial_fit(X, y, task=0)
            held.append((model.exemplars_.labels > 0).mean())
            network = copy.deepcopy(model.memory_.network).eval()
            products = gradient_products(network, model.memory_.images.store.images, model.memory_.images.store.labels)
            norms = products.diagonal().sqrt()
            cosines.append(float((products / (norms * norms[:, None])).mean()))
        shares[name], spread[name] = np.mean(held), np.mean(cosines)
    assert shares["gss"] > 1.5 * shares["er"]
    assert spread["gss"] < apart * spread["er"]
