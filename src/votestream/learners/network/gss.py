"""GSS: "Gradient based sample selection for online continual learning" (Aljundi et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from votestream.backbones import Backbone
from votestream.common.parameters import Ranges, choice, whole
from votestream.core.registry import register
from votestream.learners.network.er import ExperienceReplay
from votestream.learners.network.gradients import gradient_products
from votestream.memory import GreedyMemory, distinct

FIRST = 1.1  # the score of images that have nothing in memory to be compared with, as in the authors' code


@register("gss")
class GSS(ExperienceReplay):
    r"""Experience replay from a memory that keeps images whose gradients point apart (GSS-Greedy).

    An image's score, by its gradient g and those of stored references R; the lower it is, the likelier the image stays:

    .. math:: c = 1 + \max_{r \in R} \frac{g^\top r}{\lVert g \rVert \, \lVert r \rVert}

    Take it to compare what is kept: by gradients, or at random as in `ExperienceReplay`.

    Reference: Rahaf Aljundi, Min Lin, Baptiste Goujaud and Yoshua Bengio, "Gradient based sample selection for online
    continual learning", NeurIPS 2019.

    Parameters
    ----------
    budget : images kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : learning rate of plain SGD, for the whole network.
    replay : images replayed with each mini-batch; 0 is plain fine-tuning, which keeps none.
    references : mini-batches of `replay` stored images that new images are compared with.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : images learned in one step.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    preset : "paper" takes the paper's Algorithm 2 to the letter, image by image: each is compared with so many
        single stored `references`, contests a slot if its own score is below 1, and slots are drawn by scores as they
        are. That keeps mostly the first task, in a small memory too. Model files from before there was a preset go
        on like that.
    seed, device : "auto" is the GPU if there is one.

    X is images: arrays, PIL images, paths. An image's score is the largest cosine between its gradient and those of
    the references, plus 1; gradients are over all parameters, in evaluation mode. While there is room, images enter
    with their scores. In a full memory the rule is that of the authors' code and of the public versions after it: if
    the gradient of the whole mini-batch points away from those of all references (a largest cosine below 0), each of
    its images contests a stored one, drawn by scores scaled to [0, 1] by the smallest and the largest of them; no
    slot is drawn twice for one mini-batch. The step is one, on new and replayed images together; the authors took up
    to ten, in turns.

    A step sends `batch_size + replay` images forward and back for the network, and `batch_size + references * replay`
    once more for the memory: 20 and 110. With the paper's preset the latter are `batch_size + references`, 20.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.GSS(budget=8, device="cpu").partial_fit(images, ["cat", "dog"] * 10)
    >>> model.predict_proba(images).shape, model.exemplars_.features.shape
    ((20, 2), (8, 32, 32, 3))
    """

    parameter_ranges: ClassVar[Ranges] = {"references": whole(1, 10_000), "preset": choice(None, "paper")}

    def __init__(
        self,
        budget: int = 1000,
        lr: float = 0.1,
        replay: int = 10,
        references: int = 10,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 10,
        close_task_after: int = 20,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        super().__init__(budget, lr, replay, backbone, batch_size, close_task_after, seed, device)
        self.references = references
        self.preset = preset

    def new_image_memory(self, shape: tuple[int, ...], device: torch.device) -> Any:
        return GreedyMemory(self.images_kept(), shape, device)

    def remember(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        if self.replay:
            scores = self._scores(images, labels)
            gate = None if self.preset == "paper" else scores[-1] < 1
            self.memory_.images.observe(images, labels, scores[: len(labels)], self.memory_.random, gate)

    def _scores(self, images: Tensor, labels: Tensor) -> Tensor:
        """c of each new image: 1 + the largest cosine of its gradient to the references' (lines 5 to 7), and, but for
        the paper's preset, c of the whole mini-batch after them.
        """
        memory, random, captured = self.memory_.images, self.memory_.random, self.memory_.captured
        if not len(memory):
            return torch.full((len(labels) + 1,), FIRST, device=images.device)
        if self.preset == "paper":
            drawn = distinct(memory.slots(), self.references, random)
            to_images: Tensor = captured(self._to_images, images, labels, *memory.store.take(drawn))
            return to_images
        size = min(self.replay, len(memory))
        drawn = distinct(memory.slots(), self.references * size, random)
        shuffled = drawn[random.uniform(len(drawn)).argsort()]  # `distinct` draws a set, in no random order
        stored, classes = memory.store.take(shuffled[: len(drawn) // size * size])
        found: Tensor = captured(
            self._to_batches, images, labels, stored.unflatten(0, (-1, size)), classes.view(-1, size)
        )
        return found

    def _to_images(self, images: Tensor, labels: Tensor, stored: Tensor, classes: Tensor) -> Tensor:
        return self._compared(torch.cat((images, stored)), torch.cat((labels, classes)), len(labels))

    def _to_batches(self, images: Tensor, labels: Tensor, stored: Tensor, classes: Tensor) -> Tensor:
        """In evaluation mode the gradient of a mini-batch is that of its images, added up."""
        n, (batches, size) = len(labels), classes.shape
        sums = groups(n, batches, size, images.device)
        images, labels = torch.cat((images, stored.flatten(0, 1))), torch.cat((labels, classes.flatten()))
        return self._compared(images, labels, n + 1, sums)

    def _compared(self, images: Tensor, labels: Tensor, n: int, sums: Tensor | None = None) -> Tensor:
        """1 + the largest cosine of each of the first n gradients to the others."""
        self.memory_.network.eval()
        products = gradient_products(self.memory_.network, images, labels, sums)
        self.memory_.network.train()
        norms = products.diagonal().sqrt()
        cosines = products[:n, n:] / (norms[:n, None] * norms[n:]).clamp(min=torch.finfo(norms.dtype).tiny)
        return 1 + cosines.amax(1)

    @classmethod
    def from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Self:
        # A file that names no preset is from before there was one: it was taught by Algorithm 2.
        params = {"preset": "paper", **header["params"]}
        return super().from_file({**header, "params": params}, arrays, device, backbone)


def groups(n: int, batches: int, size: int, device: torch.device) -> Tensor:
    """What to add up of n images and of mini-batches after them: each of the n, all of them, and each mini-batch.

    >>> groups(2, batches=2, size=1, device=torch.device("cpu"))
    tensor([[1., 0., 0., 0.],
            [0., 1., 0., 0.],
            [1., 1., 0., 0.],
            [0., 0., 1., 0.],
            [0., 0., 0., 1.]])
    """
    new = torch.cat((torch.eye(n, device=device), torch.ones(1, n, device=device)))
    stored = torch.eye(batches, device=device)[:, :, None].expand(-1, -1, size).flatten(1)
    found: Tensor = torch.block_diag(new, stored)
    return found
