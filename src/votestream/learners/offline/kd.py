"""KnowledgeDistillation: "Distilling the Knowledge in a Neural Network" (Hinton et al., 2015), from task to task."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from votestream.core.registry import register
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import Loss
from votestream.learners.offline.distillation import outputs, soft_cross_entropy
from votestream.learners.offline.knowledge import Knowledge
from votestream.learners.offline.offline_learner import OfflineLearner

TEMPERATURE = 2.0


@register("kd")
class KnowledgeDistillation(OfflineLearner):
    r"""Cross-entropy over all classes, plus the old network's softened outputs over the old ones: the paper's KD.

    With p and q the softmax, at temperature T, of the old and the new network's logits of the old classes:

    .. math:: L = \mathrm{CE} - T^2 \sum_{c \, \mathrm{old}} p_c \log q_c

    Take it to see what distillation alone does against forgetting.

    Reference: Geoffrey Hinton, Oriol Vinyals and Jeff Dean, "Distilling the Knowledge in a Neural Network", arXiv
    1503.02531, 2015.

    Parameters
    ----------
    budget : exemplars; 0, none, is the paper's.
    lr, epochs, momentum, weight_decay, augment, batch_size, max_waiting, backbone, close_task_after, preset, seed,
    device : as in `FineTuning`.

    The distillation, at temperature T = 2, is weighed by T², which keeps its gradient comparable to the labels'.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.KnowledgeDistillation(epochs=1, device="cpu").fit_task(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, len(model.exemplars_.labels)
    ((20, 2), 0)
    """

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor) -> Loss:
        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            logits = network(pixels)
            value = F.cross_entropy(logits.float(), labels)
            if len(old):
                teacher = outputs(before.network, pixels).index_select(1, old)
                distilled = soft_cross_entropy(logits.index_select(1, old), teacher, TEMPERATURE)
                value = value + TEMPERATURE**2 * distilled
            return value

        return loss
