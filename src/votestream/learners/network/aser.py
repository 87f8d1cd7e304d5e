"""ASER: "Online Class-Incremental Continual Learning with Adversarial Shapley Value" (Shim et al., AAAI 2021)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.backbones import Backbone
from votestream.common.parameters import SWITCH, Ranges, whole
from votestream.core.registry import register
from votestream.learners.network.er import ExperienceReplay
from votestream.learners.network.shapley import asv, knn_shapley
from votestream.memory import DeviceMemory, turns
from votestream.memory.image_memory import to_device


@register("aser")
class ASER(ExperienceReplay):
    r"""Experience replay of images that hold old classes together and stand in the way of new ones (ASER).

    A stored image i is worth what it does for other stored images S, less what it does for the mini-batch B, by Shapley
    values s of a nearest-neighbour classifier; those worth most are replayed:

    .. math:: \mathrm{ASV}_\mu(i) = \frac{1}{|S|} \sum_{j \in S} s_j(i) - \frac{1}{|B|} \sum_{b \in B} s_b(i)

    Take it to compare replay of chosen images with replay of random ones, `ExperienceReplay`.

    Reference: Dongsub Shim, Zheda Mai, Jihwan Jeong, Scott Sanner, Hyunwoo Kim and Jongseong Jang, "Online
    Class-Incremental Continual Learning with Adversarial Shapley Value", AAAI 2021.

    Parameters
    ----------
    budget : images kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : learning rate of plain SGD, for the whole network.
    replay : images replayed with each mini-batch; 0 is plain fine-tuning, which keeps none.
    k : nearest neighbours that Shapley values are about.
    per_class : stored images of each class among the candidates, and among those they are valued on. None takes the
        authors' 9 for ten classes and 2 for a hundred: 100 in all, between those bounds.
    mean : candidates are ranked by the mean of their values (ASERµ); False takes the extremes (ASER).
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : images learned in one step.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    seed, device : "auto" is the GPU if there is one.

    X is images: arrays, PIL images, paths. Values are taken on the features in evaluation mode. Until the memory is
    full, replayed images are drawn at random. Differently from the authors' code, classes are those seen so far, and
    a small memory is never all candidates or all valued upon: either is half of it at most.

    A step sends `batch_size + replay` images forward and back, and `2 * (batch_size + 2 * per_class * classes)`
    forward for values, half before the step and half after it: 20 and 380 at ten classes.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.ASER(budget=8, device="cpu").partial_fit(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, sorted(model.exemplars_.labels.tolist())[::7]
    ((20, 2), ['cat', 'dog'])
    """

    parameter_ranges: ClassVar[Ranges] = {"k": whole(1, 1000), "per_class": whole(1, 10**6, None), "mean": SWITCH}

    def __init__(
        self,
        budget: int = 1000,
        lr: float = 0.1,
        replay: int = 10,
        k: int = 3,
        per_class: int | None = None,
        mean: bool = True,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 10,
        close_task_after: int = 20,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(budget, lr, replay, backbone, batch_size, close_task_after, seed, device)
        self.k = k
        self.per_class = per_class
        self.mean = mean

    def new_image_memory(self, shape: tuple[int, ...], device: torch.device) -> Any:
        return DeviceMemory(self.images_kept(), shape, device)

    def step(self, images: Tensor, labels: Tensor) -> None:
        if self.replay and self.memory_.images.store.full:
            self.memory_.captured(self._learn_with_the_best, images, labels, self._draws(1))
        else:
            super().step(images, labels)

    def _learn_with_the_best(self, images: Tensor, labels: Tensor, draws: Tensor) -> None:
        drawn, classes = self.memory_.images.store.take(self._retrieve(images, labels, draws))
        self.learn_from(torch.cat((images, drawn)), torch.cat((labels, classes)))

    def remember(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        if self.replay:
            fit = self.memory_.images.fill(images, labels)
            if fit < len(labels):
                draws, part = self._draws(2), to_device(self.memory_.random.uniform(1), self.memory_.device)
                self.memory_.captured(self._update, images[fit:], labels[fit:], draws, part)

    def _retrieve(self, images: Tensor, labels: Tensor, draws: Tensor) -> Tensor:
        """Slots of the candidates with the largest adversarial Shapley values."""
        n, size = self._sizes()
        draws = draws[0]
        turn = turns(self.memory_.images.store.labels, draws)
        candidates = (turn + draws).argsort()[:size]
        others = (turn + draws).masked_fill(turn < n, torch.inf).argsort()[:size]  # S_sub: the next of each class
        held, there = turn[candidates] < n, (turn[others] >= n) & (turn[others] < 2 * n)
        f, y = self._described(others, images, labels, candidates)
        values = knn_shapley(f[-size:], y[-size:], f[:-size], y[:-size], self.k, held)
        scores = asv(values[:size], there, values[size:], self.mean).masked_fill(~held, -torch.inf)
        return candidates[scores.topk(min(self.replay, size)).indices]

    def _update(self, images: Tensor, labels: Tensor, draws: Tensor, part: Tensor) -> None:
        """New images take the slots of candidates that are worth less to the classes in memory."""
        store, new = self.memory_.images.store, len(labels)
        draws, fresh = draws
        n, size = self._sizes()
        turn = turns(store.labels, draws)
        others = (turn + draws).argsort()[:size]
        there = turn[others] < n
        free = fresh.scatter(0, others, fresh[others].masked_fill(there, torch.inf))
        candidates = free.argsort()[:size]  # any but those valued upon
        # New classes would hardly enter if only those in memory had a say: as in the authors' code, new images of a
        # class whose share of the memory is below a random part of a fair one are valued upon, too.
        share = (labels[:, None] == store.labels).double().mean(1)
        rare = share < part / len(self.memory_.network.weight)
        f, y = self._described(others, images, labels, candidates)
        values = knn_shapley(f[size:], y[size:], f[:-size], y[:-size], self.k)
        worth = (values * torch.cat((there, rare))[:, None]).sum(0)
        # The best of the new against the least of the stored, pair by pair: so the most worthy of all are kept.
        pairs = min(size, new)
        best, least = worth[:new].topk(pairs), worth[new:].topk(pairs, largest=False)
        enters, slots = best.values > least.values, candidates[least.indices]
        old_images, old_labels = store.take(slots)
        kept = torch.where(enters[:, None, None, None], images[best.indices], old_images)
        store.overwrite(slots, kept, torch.where(enters, labels[best.indices], old_labels))

    def _sizes(self) -> tuple[int, int]:
        """Images of each class, and of all together, in a set drawn from memory."""
        classes = len(self.memory_.network.weight)
        n = self.per_class or min(9, max(2, 100 // classes))
        n = max(min(n, self.budget // (2 * classes)), -(-self.replay // classes))
        return n, max(1, min(n * classes, self.budget // 2))

    def _draws(self, n: int) -> Tensor:
        """Random numbers for every slot, n times (n, budget)."""
        return to_device(self.memory_.random.uniform(n * self.budget).reshape(n, -1), self.memory_.device)

    def _described(self, others: Tensor, images: Tensor, labels: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Features and classes of stored images, the new ones and stored images again, in one pass."""
        (X_sub, y_sub), (X, y) = self.memory_.images.store.take(others), self.memory_.images.store.take(candidates)
        self.memory_.network.eval()
        with torch.no_grad():
            features = self.memory_.network.features(torch.cat((X_sub, images, X)))
        self.memory_.network.train()
        return features, torch.cat((y_sub, labels, y))
