"""ExperienceReplay: "On Tiny Episodic Memories in Continual Learning" (Chaudhry et al., 2019)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.core.registry import register
from votestream.learners.network.network_learner import NetworkLearner
from votestream.learners.network.network_memory import NetworkMemory
from votestream.memory import distinct


@register("er")
class ExperienceReplay(NetworkLearner[NetworkMemory]):
    r"""Every mini-batch is learned together with images drawn from a reservoir of the stream (ER).

    A step on the mini-batch B and the replayed images M, for all weights of the network f:

    .. math::
        \theta \leftarrow \theta - \frac{\mathrm{lr}}{|B \cup M|} \, \nabla_\theta
        \sum_{(x, y) \in B \cup M} -\log \operatorname{softmax}(f_\theta(x))_y

    Take it as the baseline of all methods that train a network and replay images, `MIR`, `ASER` and `GSS` among them.

    Reference: Arslan Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", arXiv 1902.10486, 2019.

    Parameters
    ----------
    budget : images kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : learning rate of plain SGD, for the whole network.
    replay : images replayed with each mini-batch; 0 is plain fine-tuning, which keeps none.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : images learned in one step.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    seed, device : "auto" is the GPU if there is one.

    X is images: arrays, PIL images, paths. Replay is one step: new and replayed images go through the network
    together, as one mini-batch, and the loss is the mean over all of them (the paper's Algorithm 1). RaptorMai's
    public code sends them through one after the other and adds the two means: at the same learning rate a step is
    twice as long, and batch norms see each half alone. That explains several points of difference, either way.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.ExperienceReplay(budget=8, device="cpu").partial_fit(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, model.exemplars_.features.shape
    ((20, 2), (8, 32, 32, 3))
    """

    def images_kept(self) -> int:
        return self.budget if self.replay else 1

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Algorithm 1: B_M ~ M, theta <- SGD(B_n ∪ B_M, theta, alpha)."""
        if self.replay and len(self.memory_.images):
            drawn, classes = self.memory_.images.store.take(
                distinct(self.memory_.images.slots(), self.replay, self.memory_.random)
            )
            images, labels = torch.cat((images, drawn)), torch.cat((labels, classes))
        self.memory_.captured(self.learn_from, images, labels)

    def remember(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        if self.replay:
            super().remember(images, labels, classes)
