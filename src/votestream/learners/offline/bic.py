"""BiC: "Large Scale Incremental Learning" (Wu et al., CVPR 2019), bias correction."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from votestream.backbones import Backbone
from votestream.core.registry import register
from votestream.io.array_checks import demand, take
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import Loss
from votestream.learners.offline.distillation import outputs, shared_loss
from votestream.learners.offline.knowledge import Knowledge, LabelledImages, absent_classes, both, select
from votestream.learners.offline.offline_learner import OfflineLearner

TEMPERATURE = 2.0
HELD_OUT = 10  # one exemplar in ten is never trained on


@register("bic")
class BiC(OfflineLearner):
    r"""Distillation and exemplars; a scale and a shift of the newest classes' logits, learned on held-out images.

    Logits of the newest classes become α z + β. The network learns, with n the number of classes, by

    .. math:: L = (1 - \lambda) \, \mathrm{CE} + \lambda \, \mathrm{KD}, \qquad \lambda = \frac{n_\mathrm{old}}{n}

    Take it where exemplars may be kept and a task's images gone over many times, and tasks are large.

    Reference: Yue Wu et al., "Large Scale Incremental Learning", CVPR 2019.

    Parameters
    ----------
    budget : exemplars, all classes together; a tenth of each class's are its held-out ones, and stay so.
    lr, epochs, batch_size : the rate is divided by 10 after 40, 60 and 80% of the passes.
    momentum, weight_decay, augment, max_waiting, backbone, close_task_after, preset, seed, device : as in `FineTuning`.

    Of the corrections only the latest is used, as in the authors' code: the network learns the earlier ones by
    distillation, so a task without new classes leaves none. Learning one is a convex problem of two numbers, solved by
    L-BFGS where theirs takes steps of SGD.
    A class with fewer than two exemplars has none held out, and then there is no correction.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.BiC(budget=8, epochs=1, device="cpu").fit_task(images[:10], ["cat", "dog"] * 5)
    >>> model.fit_task(images[10:], ["elm", "oak"] * 5).correction_ is not None
    True
    """

    _drops = (0.4, 0.6, 0.8)
    _factor = 10.0

    def __init__(
        self,
        budget: int = 2000,
        lr: float = 0.1,
        epochs: int = 250,
        momentum: float = 0.9,
        weight_decay: float = 2e-4,
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

    @property
    def correction_(self) -> tuple[int, float, float] | None:
        """The first corrected class as its place in `classes_seen_`, α and β; None where nothing is corrected."""
        self.check_fitted()
        return correction_of(self.knowledge())

    def _learn_task(
        self, network: Classifier, before: Knowledge, new: LabelledImages, random: torch.Generator
    ) -> tuple[LabelledImages, dict[str, Tensor]]:
        kept, aside = self._parted(before)
        held = self._hold_out(new[1].cpu(), before.n_classes or len(network.weight), random)
        learn, judge = ((new[0][rows], new[1][rows]) for rows in (~held, held))
        loss = self._loss(network, before, absent_classes(before, new))
        self._pass(network, both(kept, learn), loss, random, self._rates())
        own = {}
        if before.n_classes < len(network.weight):
            correction = self._learn_correction(network, before.n_classes, both(aside, judge))
            own = {} if correction is None else {"correction": correction}
        quota = self.budget // len(network.weight)
        parts = [
            select(network, kept, learn, quota - shared_out(quota)),
            select(network, aside, judge, shared_out(quota)),
        ]
        flags = [torch.full((len(part[1]),), i == 1, device=self.memory_.device) for i, part in enumerate(parts)]
        return both(*parts), {**own, "held": torch.cat(flags)}

    def _parted(self, before: Knowledge) -> tuple[LabelledImages, LabelledImages]:
        """The exemplars to train on, and those held out."""
        images, labels = before.exemplars
        held = before.own.get("held", torch.zeros(len(labels), dtype=torch.bool, device=labels.device))
        return (images[~held], labels[~held]), (images[held], labels[held])

    def _hold_out(self, labels: Tensor, n_classes: int, random: torch.Generator) -> Tensor:
        """Which new images are never trained on: of each class as many as of each of the `n_classes` before."""
        held = torch.zeros(len(labels), dtype=torch.bool)
        for number in labels.unique():
            rows = (labels == number).nonzero()[:, 0]
            n = min(shared_out(self.budget // n_classes), len(rows) - 1)
            held[rows[torch.randperm(len(rows), generator=random)[:n]]] = True
        return held.to(self.memory_.device)

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor) -> Loss:
        """Eq. 3 and 4; the teacher is the corrected old model."""

        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            teacher = corrected(outputs(before.network, pixels), before) if len(old) else None
            return shared_loss(network(pixels), labels, teacher, old, TEMPERATURE)

        return loss

    def _learn_correction(self, network: Classifier, n_old: int, held: LabelledImages) -> Tensor | None:
        """Second stage, Eq. 5 and 6: n_old, α and β; the network is in evaluation mode and is not trained."""
        counts = torch.bincount(held[1], minlength=len(network.weight))
        n = int(counts.min())
        if not (n_old and n):
            return None
        rows = torch.cat([(held[1] == number).nonzero()[:n, 0] for number in range(len(counts))])
        logits, labels = outputs(network, held[0][rows]).double(), held[1][rows]
        alpha_beta = torch.tensor([1.0, 0.0], dtype=torch.float64, device=self.memory_.device, requires_grad=True)
        optimiser = torch.optim.LBFGS([alpha_beta], max_iter=100, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimiser.zero_grad()
            alpha, beta = alpha_beta
            scores = torch.cat((logits[:, :n_old], alpha * logits[:, n_old:] + beta), 1)
            value = F.cross_entropy(scores, labels) + 0.1 * beta**2 / 2
            value.backward()
            found: Tensor = value
            return found

        optimiser.step(closure)
        return torch.cat((torch.tensor([float(n_old)], device=self.memory_.device), alpha_beta.detach().float()))

    @staticmethod
    def _scores(known: Knowledge, images: Tensor) -> Tensor:
        return corrected(known.network(images), known)

    @staticmethod
    def _take_own(state: dict[str, NDArray[Any]], known: Knowledge) -> dict[str, NDArray[Any]]:
        own = {"held": take(state, "held", np.bool_, (len(known.exemplars[1]),))}
        if "correction" in state:
            own["correction"] = take(state, "correction", np.float32, (3,))
            start = own["correction"][0]
            demand(0 < start < known.n_classes and start % 1 == 0, "a correction must begin at one of the classes")
        return own


def shared_out(quota: int) -> int:
    """Of a class's exemplars, how many are held out: a tenth, at least one of two."""
    return max(quota // HELD_OUT, int(quota >= 2))


def correction_of(known: Knowledge) -> tuple[int, float, float] | None:
    if "correction" not in known.own:
        return None
    start, alpha, beta = known.own["correction"].tolist()
    return int(start), alpha, beta


def corrected(logits: Tensor, known: Knowledge) -> Tensor:
    """α o + β for the classes of the latest task, o for those before (Eq. 5)."""
    if "correction" not in known.own:
        return logits
    n_old, alpha, beta = known.own["correction"]
    newest = torch.arange(logits.shape[1], device=logits.device) >= n_old
    return torch.where(newest, alpha * logits + beta, logits)
