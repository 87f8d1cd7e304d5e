"""GSS: "Gradient based sample selection for online continual learning" (Aljundi et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.backbones import Backbone
from votestream.learners.er import ExperienceReplay
from votestream.learners.gradients import gradient_products
from votestream.learners.registry import register
from votestream.memory import GreedyMemory, distinct
from votestream.validation import check_positive

FIRST = 1.1  # the score of pictures that have nothing in memory to be compared with, as in the authors' code


@register("gss")
class GSS(ExperienceReplay):
    """Experience replay from a memory that keeps pictures whose gradients point apart (GSS-Greedy).

    Parameters
    ----------
    budget : pictures kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : learning rate of plain SGD, for the whole network.
    replay : pictures replayed with each mini-batch; 0 is plain fine-tuning, which keeps none.
    references : stored pictures that every new one is compared with.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : pictures learned in one step.
    young : where tasks are not told, samples per class after which a task is closed for good.
    seed, device : "auto" is the GPU if there is one.

    X is pictures: arrays, PIL images, paths. The memory follows the paper's Algorithm 2, picture by picture: each is
    compared with single stored pictures, over all parameters, in evaluation mode, and enters on its own account. The
    authors' code compares with mini-batches, lets all enter only where the whole mini-batch's gradient points
    away, and draws slots by scores rescaled to [0, 1]; here as there, no slot is drawn twice for one mini-batch. The
    step is one, on new and replayed pictures together; the authors took up to ten, in turns.

    A step sends `batch_size + replay` pictures forward and back for the network, and `batch_size + references` once
    more for the memory: 20 and 20.

    >>> import numpy as np, votestream as vs
    >>> pictures = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.GSS(budget=8, device="cpu").partial_fit(pictures, ["cat", "dog"] * 10)
    >>> model.predict_proba(pictures).shape, model.exemplars_.features.shape
    ((20, 2), (8, 32, 32, 3))
    """

    _memory: GreedyMemory  # type: ignore[assignment]

    def __init__(
        self,
        budget: int = 1000,
        lr: float = 0.1,
        replay: int = 10,
        references: int = 10,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 10,
        young: int = 20,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(budget, lr, replay, backbone, batch_size, young, seed, device)
        self.references = references

    def _check_params(self) -> None:
        super()._check_params()
        check_positive("references", self.references, int)

    def _new_memory(self, shape: tuple[int, ...]) -> Any:
        return GreedyMemory(self._room(), shape, self._device)

    def _remember(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        if self.replay:
            self._memory.observe(images, labels, self._scores(images, labels), self._random)

    def _scores(self, images: Tensor, labels: Tensor) -> Tensor:
        """c of each new picture: 1 + the largest cosine of its gradient to those of n stored ones (lines 5 to 7)."""
        if not len(self._memory):
            return torch.full((len(labels),), FIRST, device=images.device)
        stored = self._memory.store.take(distinct(self._memory.slots(), self.references, self._random))
        return self._again(self._compared, images, labels, *stored)

    def _compared(self, images: Tensor, labels: Tensor, stored: Tensor, classes: Tensor) -> Tensor:
        n = len(labels)
        self._network.eval()
        products = gradient_products(self._network, torch.cat((images, stored)), torch.cat((labels, classes)))
        self._network.train()
        norms = products.diagonal().sqrt()
        cosines = products[:n, n:] / (norms[:n, None] * norms[n:]).clamp(min=torch.finfo(norms.dtype).tiny)
        return 1 + cosines.amax(1)
