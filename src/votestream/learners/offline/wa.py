"""WeightAligning: "Maintaining Discrimination and Fairness in Class Incremental Learning" (Zhao et al., CVPR 2020)."""

from __future__ import annotations

import torch
from torch import Tensor

from votestream.backbones import Backbone
from votestream.core.registry import register
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import Loss
from votestream.learners.offline.distillation import outputs, shared_loss
from votestream.learners.offline.knowledge import Knowledge, LabelledImages, absent_classes, both
from votestream.learners.offline.offline_learner import OfflineLearner

TEMPERATURE = 2.0


@register("wa")
class WeightAligning(OfflineLearner):
    r"""Distillation and exemplars; after each task the new classes' weights are scaled to the old ones' norm (WA).

    Rows w of the head, once the task is learned by the loss of `BiC`:

    .. math::
        w_c \leftarrow \gamma \, w_c \quad (c \, \mathrm{new}), \qquad \gamma =
        \frac{\operatorname{mean}_\mathrm{old} \lVert w \rVert}{\operatorname{mean}_\mathrm{new} \lVert w \rVert}

    Take it where exemplars may be kept and a task's images gone over many times; it needs no images held out, as `BiC`
    does.

    Reference: Bowen Zhao, Xi Xiao, Guojun Gan, Bin Zhang and Shu-Tao Xia, "Maintaining Discrimination and Fairness in
    Class Incremental Learning", CVPR 2020.

    Parameters
    ----------
    budget : exemplars kept by herding, all classes together.
    lr, epochs, batch_size : the rate is divided by 10 after 40, 60 and 80% of the passes.
    clip : no weight of the head below zero, after every step: norms then say how large logits are. The paper asks for
        it in its Sec. 4.3; no public version that we know has it, so clip=False compares with those. For features that
        are not negative, such as those behind a ReLU.
    momentum, weight_decay, augment, max_waiting, backbone, close_task_after, preset, seed, device : as in `FineTuning`.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.WeightAligning(budget=8, epochs=1, device="cpu").fit_task(images[:10], ["cat", "dog"] * 5)
    >>> norms = np.linalg.norm(model.fit_task(images[10:], ["elm", "oak"] * 5).weights_, axis=1)
    >>> bool(np.isclose(norms[:2].mean(), norms[2:].mean()))
    True
    """

    _drops = (0.4, 0.6, 0.8)
    _factor = 10.0

    def __init__(
        self,
        budget: int = 2000,
        lr: float = 0.1,
        epochs: int = 250,
        clip: bool = True,
        momentum: float = 0.9,
        weight_decay: float = 2e-4,
        augment: bool = True,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 32,
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
        self.clip = clip

    def _learn_task(
        self, network: Classifier, before: Knowledge, new: LabelledImages, random: torch.Generator
    ) -> tuple[LabelledImages, dict[str, Tensor]]:
        def clip() -> None:
            network.weight.detach().clamp_(min=0)

        images, loss = both(before.exemplars, new), self._loss(network, before, absent_classes(before, new))
        self._pass(network, images, loss, random, self._rates(), after_step=clip if self.clip else None)
        align(network.weight.detach(), before.n_classes)
        return self._select(network, before.exemplars, new), {}

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor) -> Loss:
        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            teacher = outputs(before.network, pixels) if len(old) else None
            return shared_loss(network(pixels), labels, teacher, old, TEMPERATURE)

        return loss


def align(weight: Tensor, n_old: int) -> None:
    """Eq. 5 to 7: new rows times γ = mean |w_old| / mean |w_new|, in place; old rows and all biases stay.

    >>> weight = torch.tensor([[1.0], [3.0], [8.0]])
    >>> align(weight, 2)
    >>> weight.flatten().tolist()
    [1.0, 3.0, 2.0]
    """
    if 0 < n_old < len(weight):
        norms = weight.norm(dim=1)
        weight[n_old:] *= norms[:n_old].mean() / norms[n_old:].mean().clamp(min=1e-12)
