"""MIR: "Online Continual Learning with Maximally Interfered Retrieval" (Aljundi et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from votestream.backbones import Backbone
from votestream.common.parameters import Ranges, whole
from votestream.core.registry import register
from votestream.learners.network.network_learner import NetworkLearner
from votestream.learners.network.network_memory import NetworkMemory
from votestream.memory import distinct


@register("mir")
class MIR(NetworkLearner[NetworkMemory]):
    r"""Experience replay of the stored images that the coming step would hurt most (MIR).

    Of the candidates drawn from memory those with the largest rise of their loss are replayed, the rise that a step on
    the mini-batch B alone would bring:

    .. math::
        s(x, y) = \ell(f_{\theta'}(x), y) - \ell(f_\theta(x), y), \qquad
        \theta' = \theta - \mathrm{lr} \, \nabla_\theta \ell(f_\theta(B))

    Take it where the network itself is to be trained in one pass and thousands of images may be kept.

    Reference: Rahaf Aljundi et al., "Online Continual Learning with Maximally Interfered Retrieval", NeurIPS 2019.

    Parameters
    ----------
    budget : images kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : learning rate of plain SGD, for the whole network; the virtual step takes the same.
    replay : images replayed with each mini-batch.
    candidates : images drawn from memory, among which the replayed ones are found.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : images learned in one step.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    seed, device : "auto" is the GPU if there is one.

    X is images: arrays, PIL images, paths. As in the paper's Algorithm 1 candidates come from the whole memory, the
    current task's too (the authors' code leaves those out), and the step is on new and replayed images
    together. Losses are compared in evaluation mode, each image on its own; public versions let the scoring change
    the batch norms' statistics.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.MIR(budget=8, replay=2, device="cpu").partial_fit(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, model.exemplars_.features.shape
    ((20, 2), (8, 32, 32, 3))
    """

    parameter_ranges: ClassVar[Ranges] = {"candidates": whole(1, 10**6)}

    def __init__(
        self,
        budget: int = 1000,
        lr: float = 0.1,
        replay: int = 10,
        candidates: int = 50,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 10,
        close_task_after: int = 20,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(budget, lr, replay, backbone, batch_size, close_task_after, seed, device)
        self.candidates = candidates

    def step(self, images: Tensor, labels: Tensor) -> None:
        if self.replay and len(self.memory_.images):
            drawn = self.memory_.images.store.take(
                distinct(self.memory_.images.slots(), self.candidates, self.memory_.random)
            )
            self.memory_.captured(self._learn_with_the_worst_of, images, labels, *drawn)
        else:
            self.memory_.captured(self.learn_from, images, labels)

    def _learn_with_the_worst_of(self, images: Tensor, labels: Tensor, drawn: Tensor, classes: Tensor) -> None:
        if len(drawn) > self.replay:
            worst = self._interference(images, labels, drawn, classes).topk(self.replay).indices
            drawn, classes = drawn[worst], classes[worst]
        self.learn_from(torch.cat((images, drawn)), torch.cat((labels, classes)))

    def _interference(self, images: Tensor, labels: Tensor, drawn: Tensor, classes: Tensor) -> Tensor:
        """How much each drawn image's loss would rise if the mini-batch alone were learned (s_MI-1).

        Nothing of it stays: the virtual weights are tensors of their own, and the batch norms that the virtual
        step passes through in training mode count into copies of their statistics.
        """
        network = self.memory_.network
        statistics = {name: buffer.clone() for name, buffer in network.named_buffers()}
        names, parameters = zip(*network.trained().items(), strict=True)
        loss = F.cross_entropy(functional_call(network, statistics, (images,)), labels)
        gradient = torch.autograd.grad(loss, parameters, materialize_grads=True)
        with torch.no_grad():
            virtual = dict(zip(names, torch._foreach_add(parameters, gradient, alpha=-self.lr), strict=True))
            network.eval()
            after = F.cross_entropy(functional_call(network, virtual, (drawn,)), classes, reduction="none")
            before = F.cross_entropy(network(drawn), classes, reduction="none")
            network.train()
        return after - before
