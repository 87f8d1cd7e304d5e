"""FineTuning: plain cross-entropy on every task, the lower bound of continual learning."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from votestream.core.registry import register
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import Loss
from votestream.learners.offline.knowledge import Knowledge
from votestream.learners.offline.offline_learner import OfflineLearner


@register("finetune")
class FineTuning(OfflineLearner):
    r"""Cross-entropy over the classes so far, nothing against forgetting: the paper's CN; with a budget its CN + Exp.

    Each task's images and, with a budget, the exemplars of earlier ones are M in

    .. math:: \min_\theta \; \frac{1}{|M|} \sum_{(x, y) \in M} -\log \operatorname{softmax}(f_\theta(x))_y

    Take it as the lower bound that methods against forgetting are compared with.

    Reference: Jiangpeng He and Fengqing Zhu, "Online Continual Learning Via Candidates Voting", WACV 2022, whose
    comparisons CN and CN + Exp it is.

    Parameters
    ----------
    budget : exemplars kept by herding, all classes together, trained on with every later task; 0 keeps none.
    lr, momentum, weight_decay : of the SGD; the rate is divided by 5 after 70% and 90% of the passes (iCaRL's).
    epochs : passes over a task.
    augment : random crops and mirror images. False where a mirrored image is another thing, such as a letter.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : images of one step.
    max_waiting : images that may wait for their task to be over (`partial_fit`); a longer task is learned in parts.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    preset : "short" makes a fifth of the passes, the learning rate dropping accordingly.
    seed, device : "auto" is the GPU if there is one. There the network computes in bfloat16 while it is trained.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.FineTuning(budget=8, epochs=2, device="cpu").fit_task(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, model.exemplars_.labels.tolist()
    ((20, 2), ['cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog'])
    """

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor) -> Loss:
        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(network(pixels).float(), labels)

        return loss
