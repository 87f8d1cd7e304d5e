"""ICaRL: "iCaRL: Incremental Classifier and Representation Learning" (Rebuffi et al., CVPR 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from votestream.backbones import Backbone
from votestream.core.registry import register
from votestream.io.array_checks import take
from votestream.learners.network.classifier import Classifier
from votestream.learners.offline.knowledge import Knowledge, LabelledImages, unit_features
from votestream.learners.offline.lwf import LearningWithoutForgetting


@register("icarl")
class ICaRL(LearningWithoutForgetting):
    r"""Sigmoids that keep the old network's outputs, exemplars by herding, and the nearest mean of exemplars decides.

    Learned as in `LearningWithoutForgetting`, with exemplars among the images. With φ the features, of unit length, and
    the mean of those of a class's exemplars E:

    .. math:: \hat y = \arg\min_c \; \left\lVert \varphi(x) - \frac{1}{|E_c|} \sum_{e \in E_c} \varphi(e) \right\rVert

    Take it to compare a decision by exemplars with one by the head, `EEIL`, `BiC` and `WeightAligning`.

    Reference: Sylvestre-Alvise Rebuffi, Alexander Kolesnikov, Georg Sperl and Christoph Lampert, "iCaRL: Incremental
    Classifier and Representation Learning", CVPR 2017.

    Parameters
    ----------
    budget : K, exemplars of all classes together: floor(K / C) of each, never more. At least one a class.
    lr, weight_decay : for the loss summed over classes; the authors' 2.0 and 1e-5 are for its mean over 100.
    augment : random crops and mirror images when learning; means are of exemplars and of their mirror images. False
        where a mirrored image is another thing, such as a letter.
    epochs, momentum, batch_size, max_waiting, backbone, close_task_after, preset, seed, device : as in `FineTuning`.

    Probabilities are the softmax of minus the squared distances to the means, which the paper does not define.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.ICaRL(budget=7, epochs=1, device="cpu").fit_task(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, model.exemplars_.labels.tolist()
    ((20, 2), ['cat', 'cat', 'cat', 'dog', 'dog', 'dog'])
    """

    def __init__(
        self,
        budget: int = 2000,
        lr: float = 0.02,
        epochs: int = 70,
        momentum: float = 0.9,
        weight_decay: float = 1e-3,
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

    def check_growth(self, known: int, soon: int, width: int) -> None:
        if soon > self.budget:
            raise ValueError(
                f"iCaRL decides by exemplars, and a budget of {self.budget} is too small for {soon} classes"
            )

    def _learn_task(
        self, network: Classifier, before: Knowledge, new: LabelledImages, random: torch.Generator
    ) -> tuple[LabelledImages, dict[str, Tensor]]:
        exemplars, _ = super()._learn_task(network, before, new, random)
        return exemplars, {"means": self._means(network, exemplars)}

    def _means(self, network: Classifier, exemplars: LabelledImages) -> Tensor:
        """The mean feature of each class's exemplars, and with `augment` of their mirror images, of unit length."""
        images, labels = exemplars
        features = unit_features(network, images)
        if self.augment:
            features = (features + unit_features(network, images.flip(2))) / 2
        members = F.normalize((labels == torch.arange(len(network.weight), device=labels.device)[:, None]).float(), p=1)
        return F.normalize(members @ features)

    @staticmethod
    def _scores(known: Knowledge, images: Tensor) -> Tensor:
        """Minus the squared distances, up to what is the same for all classes (Algorithm 1)."""
        return 2 * F.normalize(known.network.features(images)) @ known.own["means"].T

    @staticmethod
    def _take_own(state: dict[str, NDArray[Any]], known: Knowledge) -> dict[str, NDArray[Any]]:
        return {"means": take(state, "means", np.float32, tuple(known.network.weight.shape), -1.01, 1.01)}
