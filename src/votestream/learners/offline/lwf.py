"""LearningWithoutForgetting: the multi-class variant (LwF.MC) of iCaRL's paper (Rebuffi et al., CVPR 2017)."""

from __future__ import annotations

from torch import Tensor

from votestream.backbones import Backbone
from votestream.core.registry import register
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import Loss
from votestream.learners.offline.distillation import outputs, sigmoid_loss
from votestream.learners.offline.knowledge import Knowledge
from votestream.learners.offline.offline_learner import OfflineLearner


@register("lwf")
class LearningWithoutForgetting(OfflineLearner):
    r"""The old network's outputs on the new images are learned along with the new labels (LwF.MC).

    A sigmoid σ for each class; targets t are the labels for new classes and the old network's outputs for old ones:

    .. math:: L = - \sum_c \left[ t_c \log \sigma(z_c) + (1 - t_c) \log (1 - \sigma(z_c)) \right]

    Take it where no exemplar may be kept, and a task's images are at hand until it is over.

    Reference: Sylvestre-Alvise Rebuffi, Alexander Kolesnikov, Georg Sperl and Christoph Lampert, "iCaRL: Incremental
    Classifier and Representation Learning", CVPR 2017, after Zhizhong Li and Derek Hoiem, "Learning without
    Forgetting", ECCV 2016.

    Parameters
    ----------
    budget : exemplars; LwF keeps none. With some it is iCaRL deciding by its outputs, that paper's "hybrid1".
    lr, weight_decay : for the loss summed over classes; the authors' 2.0 and 1e-5 are for its mean over 100.
    epochs, momentum, augment, batch_size, max_waiting, backbone, close_task_after, preset, seed, device :
        as in `FineTuning`.

    Li and Hoiem's LwF (2016) knows the task at inference; Rebuffi et al. made it a multi-class method: their own
    loss, sigmoids and no temperature, without exemplars, the largest output deciding. `KnowledgeDistillation` is the
    variant with a softmax and a temperature.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.LearningWithoutForgetting(epochs=1, device="cpu").fit_task(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, len(model.exemplars_.labels)
    ((20, 2), 0)
    """

    def __init__(
        self,
        budget: int = 0,
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

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor) -> Loss:
        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            teacher = outputs(before.network, pixels) if len(old) else None
            return sigmoid_loss(network(pixels), labels, teacher, old)

        return loss
