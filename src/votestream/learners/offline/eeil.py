"""EEIL: "End-to-End Incremental Learning" (Castro et al., ECCV 2018)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import functional as F

from votestream.backbones import Backbone
from votestream.core.registry import register
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import Loss, dropping
from votestream.learners.offline.distillation import outputs, soft_cross_entropy
from votestream.learners.offline.knowledge import Knowledge, LabelledImages, absent_classes, both, select
from votestream.learners.offline.offline_learner import OfflineLearner

TEMPERATURE = 2.0
TUNING = 3 / 7  # of the passes: 30 of 70


@register("eeil")
class EEIL(OfflineLearner):
    r"""Cross-entropy and one distillation for each task's classes, then a fine-tuning with as many images of each.

    With p and q the softmax, at temperature 2, of the old and the new network's logits of a task's classes:

    .. math:: L = \mathrm{CE} - \sum_t \sum_{c \in t} p_{tc} \log q_{tc}

    Take it where exemplars may be kept and a task's images gone over many times, until it is over.

    Reference: Francisco Castro, Manuel Marín-Jiménez, Nicolás Guil, Cordelia Schmid and Karteek Alahari, "End-to-End
    Incremental Learning", ECCV 2018.

    Parameters
    ----------
    budget : exemplars kept by herding, all classes together.
    lr : of the first stage, divided by 10 after every quarter of its passes; the second begins at a tenth.
    epochs : passes over a task, 4 in 7 (40 of 70) in the first stage, 3 in 7 in the second; the first task has one.
    augment : crops and mirror images, brightness, contrast: a pass shows one of the paper's twelve versions of an
        image, drawn anew, where theirs shows all twelve.
    momentum, weight_decay, batch_size, max_waiting, backbone, close_task_after, preset, seed, device :
        as in `FineTuning`.

    The noise that the paper adds to gradients is left out.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.EEIL(budget=8, epochs=2, device="cpu").fit_task(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape
    (20, 2)
    """

    _drops = (1 / 4, 2 / 4, 3 / 4)
    _factor = 10.0
    _colour = True

    def __init__(
        self,
        budget: int = 2000,
        lr: float = 0.1,
        epochs: int = 70,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        augment: bool = True,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 128,
        max_waiting: int = 50_000,
        close_task_after: int = 20,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(
            budget=budget,
            lr=lr,
            epochs=epochs,
            momentum=momentum,
            weight_decay=weight_decay,
            augment=augment,
            backbone=backbone,
            batch_size=batch_size,
            max_waiting=max_waiting,
            close_task_after=close_task_after,
            preset=preset,
            seed=seed,
            device=device,
        )

    def _learn_task(
        self, network: Classifier, before: Knowledge, new: LabelledImages, random: torch.Generator
    ) -> tuple[LabelledImages, dict[str, Tensor]]:
        tuning = max(1, round(self._passes() * TUNING))
        main = dropping(self.lr, max(1, self._passes() - tuning), self._drops, self._factor)
        old = absent_classes(before, new)
        self._pass(network, both(before.exemplars, new), self._loss(network, before, old), random, main)
        balanced = self._balanced(network, before, new)
        if before.n_classes and len(balanced[1]):
            rates = dropping(self.lr / 10, tuning, (1 / 3, 2 / 3), self._factor)
            after_main = copy.deepcopy(network)
            self._pass(network, balanced, self._loss(network, before, old, after_main), random, rates)
        return self._select(network, before.exemplars, new), {}

    def _balanced(self, network: Classifier, before: Knowledge, new: LabelledImages) -> LabelledImages:
        """As many images of every class, chosen by herding: as there are of the class with the fewest."""
        counts = torch.bincount(both(before.exemplars, new)[1], minlength=len(network.weight))
        return select(network, before.exemplars, new, quota=int(counts.min()))

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor, after_main: Classifier | None = None) -> Loss:
        """Eq. 1 to 3: cross-entropy over all, and a distillation for each head, which is a task's classes.

        Old heads have the network before the task as teacher; in the second stage (`after_main`) the new one has the
        network as the first stage left it.
        """
        ends = before.heads
        parts = [old[(old >= start) & (old < end)] for start, end in zip([0, *ends], ends, strict=False)]
        heads = [part for part in parts if len(part)]
        newest = slice(before.n_classes, len(network.weight))

        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            logits = network(pixels)
            value = F.cross_entropy(logits.float(), labels)
            if heads:
                teacher = outputs(before.network, pixels)
                for head in heads:
                    both_answers = logits.index_select(1, head), teacher.index_select(1, head)
                    value = value + soft_cross_entropy(*both_answers, TEMPERATURE)
            if after_main is not None and newest.start < newest.stop:
                own = outputs(after_main, pixels)[:, newest]
                value = value + soft_cross_entropy(logits[:, newest], own, TEMPERATURE)
            return value

        return loss
