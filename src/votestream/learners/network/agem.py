"""AGEM: "Efficient Lifelong Learning with A-GEM" (Chaudhry et al., ICLR 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from votestream.core.registry import register
from votestream.learners.network.network_learner import NetworkLearner
from votestream.learners.network.network_memory import NetworkMemory
from votestream.memory import distinct

Gradient = tuple[Tensor, ...]


@register("agem")
class AGEM(NetworkLearner[NetworkMemory]):
    r"""A step that would raise the loss on images of earlier tasks is turned until it does not (A-GEM).

    With g the gradient on the mini-batch and r that on stored images of earlier tasks, the step follows

    .. math::
        \tilde g = g - \frac{g^\top r}{r^\top r} \, r \quad \text{where} \quad g^\top r < 0, \qquad
        \tilde g = g \quad \text{elsewhere}

    Take it to compare with. With one head for all tasks it forgets nearly as much as plain fine-tuning.

    Reference: Arslan Chaudhry, Marc'Aurelio Ranzato, Marcus Rohrbach and Mohamed Elhoseiny, "Efficient Lifelong
    Learning with A-GEM", ICLR 2019.

    Parameters
    ----------
    budget : images kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : learning rate of plain SGD, for the whole network.
    replay : images of earlier tasks that the reference gradient is taken on.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : images learned in one step.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    seed, device : "auto" is the GPU if there is one.

    X is images: arrays, PIL images, paths. The reference gradient is on classes of earlier tasks only, and the memory
    holds as many of each class as it can, both as in the paper; public versions often take a reservoir that also holds
    the current task. The memory constrains the step and is not learned from, so classes compete freely with those
    of earlier tasks for the single head: the paper's tasks had heads of their own, and here it forgets much.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.AGEM(budget=8, device="cpu").partial_fit(images[:10], ["cat"] * 10, task="Monday")
    >>> model = model.partial_fit(images[10:], ["dog"] * 10, task="Tuesday")
    >>> sorted(model.exemplars_.labels.tolist())
    ['cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog']
    """

    keep_rule = "balanced"

    def step(self, images: Tensor, labels: Tensor) -> None:
        earlier = self.memory_.images.earlier(self.state_.tasks.block_start)
        if self.replay and len(earlier):
            drawn = self.memory_.images.store.take(distinct(earlier, self.replay, self.memory_.random))
            self.memory_.captured(self._learn_against, images, labels, *drawn)
        else:
            self.memory_.captured(self.learn_from, images, labels)

    def _learn_against(self, images: Tensor, labels: Tensor, drawn: Tensor, classes: Tensor) -> None:
        self.descend(project(self.gradient(images, labels), self.gradient(drawn, classes)))


def project(gradient: Gradient, reference: Gradient) -> Gradient:
    """The gradient nearest to g along which the reference loss does not rise (Eq. 11).

    Where g · g_ref < 0 it is g - (g · g_ref / g_ref · g_ref) g_ref, elsewhere g itself; written without a branch, so
    that nothing waits for the device.

    >>> project((torch.tensor([1.0, -1.0]),), (torch.tensor([0.0, 2.0]),))
    (tensor([1., 0.]),)
    >>> project((torch.tensor([1.0, 1.0]),), (torch.tensor([0.0, 2.0]),))
    (tensor([1., 1.]),)
    """
    g, g_ref = _flat(gradient), _flat(reference)
    against = (g @ g_ref).clamp(max=0) / (g_ref @ g_ref).clamp(min=torch.finfo(g.dtype).tiny)
    return tuple(torch._foreach_sub(gradient, torch._foreach_mul(reference, against)))


def _flat(gradient: Gradient) -> Tensor:
    return torch.cat([part.reshape(-1) for part in gradient])
