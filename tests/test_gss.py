"""GSS: gradients of single pictures, and a memory that keeps those that point apart."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import votestream as vs
from conftest import PictureStream, make_on_network, one_thread
from votestream.learners.classifier import Classifier
from votestream.learners.gradients import _by_vmap, gradient_products
from votestream.memory import GreedyMemory, distinct
from votestream.random_pool import RandomPool


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
    """A layer that sees pictures' halves as a batch."""

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
    """By plain autograd, of one picture, as one vector."""
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
    wanted = rows @ rows.T
    norms = wanted.diagonal().sqrt()
    for way in (gradient_products, _by_vmap):
        off = (way(network, images, labels) - wanted) / (norms * norms[:, None])
        assert off.abs().max() < 1e-12


def test_scores_are_one_plus_the_largest_cosine_and_leave_no_trace():
    stream, model = PictureStream(), make_on_network("gss")(references=4)
    model.partial_fit(stream.X[:40], stream.y[:40])
    X, y = torch.from_numpy(stream.X[50:60]), torch.from_numpy(model._memory.store.labels.numpy()[:10].copy())
    model._network.train()
    before, random = copy.deepcopy(model._network.state_dict()), torch.get_rng_state()
    drawn = distinct(model._memory.slots(), 4, copy.deepcopy(model._random))
    scores = model._scores(X, y)
    assert all(torch.equal(now, before[name]) for name, now in model._network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(module.training and not module._forward_hooks for module in model._network.modules())
    assert all(parameter.grad is None for parameter in model._network.parameters())

    network = copy.deepcopy(model._network).eval()
    stored = [gradient_of(network, *each) for each in zip(*model._memory.store.take(drawn), strict=True)]
    for image, label, score in zip(X, y, scores, strict=True):
        g = gradient_of(network, image, label)
        cosines = [float(g @ G / (g.norm() * G.norm())) for G in stored]
        assert float(score) == pytest.approx(1 + max(cosines), abs=1e-5)
    assert scores.min() < 1 < scores.max()


def full(scores):
    memory = GreedyMemory(len(scores), (1, 1, 1), torch.device("cpu"))
    labels = torch.arange(len(scores))
    memory.observe(torch.zeros(len(scores), 1, 1, 1, dtype=torch.uint8), labels, torch.tensor(scores), RandomPool(0))
    return memory


def offer(memory, labels, scores, random):
    images = torch.tensor(labels, dtype=torch.uint8)[:, None, None, None]
    memory.observe(images, torch.tensor(labels), torch.tensor(scores), random)


def test_a_picture_takes_a_slot_as_often_as_algorithm_2_says():
    random, C, c, taken = RandomPool(1), np.array([0.3, 0.9, 1.8]), 0.6, np.zeros(4)
    for _ in range(4000):
        memory = full(C.tolist())
        offer(memory, [9], [c], random)
        where = (memory.store.labels == 9).nonzero().flatten().tolist()
        taken[where[0] if where else 3] += 1
    wanted = C / C.sum() * C / (C + c)
    assert np.allclose(taken / 4000, [*wanted, 1 - wanted.sum()], atol=0.03)


def test_scores_and_pictures_move_together_and_like_pictures_never_enter():
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


def test_more_new_pictures_than_slots_are_taken_in_turn():
    memory, random = full([1.9] * 3), RandomPool(0)
    offer(memory, list(range(10, 30)), [1e-6] * 20, random)
    assert len(memory) == 3
    assert all(label >= 10 for label in memory.store.labels.tolist())


def test_gss_keeps_more_of_what_is_rare_than_a_reservoir_and_gradients_point_further_apart():
    """Nine in ten pictures are of one class."""
    stream = PictureStream(n_tasks=1, per_task=4, n=1200, spread=0.3)
    rng = np.random.default_rng(0)
    common, rare = (rng.permutation((stream.y == 0).nonzero()[0]), rng.permutation((stream.y > 0).nonzero()[0])[:30])
    rows = rng.permutation(np.concatenate([common[:270], rare]))
    X, y = stream.X[rows], stream.y[rows]
    spread, shares = {}, {}
    for name in ("er", "gss"):
        held, cosines = [], []
        for seed in range(4):
            model = make_on_network(name)(budget=30, lr=0.02, seed=seed).partial_fit(X, y, task=0)
            held.append((model.exemplars_.labels > 0).mean())
            network = copy.deepcopy(model._network).eval()
            products = gradient_products(network, model._memory.store.images, model._memory.store.labels)
            norms = products.diagonal().sqrt()
            cosines.append(float((products / (norms * norms[:, None])).mean()))
        shares[name], spread[name] = np.mean(held), np.mean(cosines)
    assert shares["gss"] > 1.5 * shares["er"]
    assert spread["gss"] < 0.8 * spread["er"]
