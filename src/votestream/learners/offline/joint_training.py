"""JointTraining: a network trained on all images at once, the bound that learning task by task aims at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from votestream.backbones import Backbone
from votestream.core.registry import register
from votestream.learners.offline.finetune import FineTuning


@register("joint_images")
class JointTraining(FineTuning):
    r"""Keeps every image and, at the first prediction after new ones, trains the backbone's network on all of them.

    .. math:: \min_\theta \; \frac1n \sum_{i=1}^n -\log \operatorname{softmax}(f_\theta(x_i))_{y_i}

    Not a method for streams but what they are measured against: its memory grows with the stream. Every answer
    after new images is a training from the start, so that it does not depend on when one had asked before.

    Take it as the upper bound for methods that train a network task by task.

    Reference: Jiangpeng He and Fengqing Zhu, "Online Continual Learning Via Candidates Voting", WACV 2022, on its upper
    bound.

    Parameters
    ----------
    lr, epochs, momentum, weight_decay, augment, batch_size, backbone, close_task_after, preset, seed, device :
        as in `FineTuning`; of one training, on everything.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.JointTraining(epochs=1, device="cpu").partial_fit(images[:10], ["cat", "dog"] * 5)
    >>> model.partial_fit(images[10:], ["elm", "oak"] * 5).predict_proba(images).shape
    (20, 4)
    """

    bounded = False
    budget, max_waiting = 0, 1  # of no use here: no task is ever over

    def __init__(
        self,
        lr: float = 0.1,
        epochs: int = 70,
        momentum: float = 0.9,
        weight_decay: float = 1e-5,
        augment: bool = True,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 128,
        close_task_after: int = 20,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.lr = lr
        self.epochs = epochs
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.augment = augment
        self.backbone = backbone
        self.batch_size = batch_size
        self.close_task_after = close_task_after
        self.preset = preset
        self.seed = seed
        self.device = device

    def learn(self, X: NDArray[np.uint8], classes: NDArray[np.int64], offset: int) -> None:
        self.memory_.ahead = None
        self.memory_.waiting.add(X, classes, block=0)

    def _finish(self, before: int | None = None) -> None:
        self._ahead()
