"""Many passes over the images of a task: SGD with momentum, a learning rate that drops, images on the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from votestream.compute.graph_cache import GraphCache
from votestream.learners.network.augmentation import brightened, shift_and_flip
from votestream.learners.network.classifier import Classifier

Loss = Callable[[Tensor, Tensor], Tensor]  # of normalised images and class numbers


def train(
    network: Classifier,
    images: Tensor,
    labels: Tensor,
    loss: Loss,
    random: torch.Generator,
    *,
    rates: list[float],
    batch_size: int = 128,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    augment: str | None = "shift",
    largest: float | None = None,
    half: bool = True,
    after_step: Callable[[], None] | None = None,
) -> None:
    """As many passes as there are learning rates; the network is left in evaluation mode.

    `augment` is None, "shift" (random crops and mirror images) or "colour" (those, and brightness or contrast). Mini-
    batches are of nearly equal size: where three may be in one, no batch norm sees a last image alone. Gradients
    longer than `largest`, all parameters together, are shortened to it. On a GPU the passes forward are in bfloat16,
    unless `half` is False, what is random is drawn and sent once a pass, steps are replayed, and none waits for the
    device.
    """
    device, n = images.device, len(labels)
    parts = math.ceil(n / batch_size)
    parameters = list(network.parameters())
    optimiser = torch.optim.SGD(parameters, rates[0], momentum, weight_decay=weight_decay, fused=device.type == "cuda")
    again = GraphCache()

    def gradient(rows: Tensor, drawn: Tensor) -> tuple[Tensor | None, ...]:
        batch = images[rows]
        if augment == "colour":
            batch = brightened(batch, drawn[3:])
        if augment is not None:
            batch = shift_and_flip(batch, drawn[:3])
        with half_precision(device) if half else nullcontext():
            value = loss(network.pixels(batch), labels[rows])
        whole = torch.autograd.grad(value, parameters, allow_unused=True)
        return whole if largest is None else shortened(whole, largest)

    network.train()
    for rate in rates:
        optimiser.param_groups[0]["lr"] = rate
        order = torch.randperm(n, generator=random).to(device, non_blocking=True).tensor_split(parts)
        draws = torch.rand(5, n, generator=random).to(device, non_blocking=True).tensor_split(parts, 1)
        for rows, drawn in zip(order, draws, strict=True):
            for parameter, part in zip(parameters, again(gradient, rows, drawn), strict=True):
                parameter.grad = part
            optimiser.step()
            if after_step is not None:
                after_step()
    optimiser.zero_grad()
    network.eval()


def shortened(gradient: tuple[Tensor | None, ...], largest: float) -> tuple[Tensor | None, ...]:
    """The gradient, of this norm at most.

    >>> shortened((torch.tensor([3.0]), None, torch.tensor([4.0])), 10.0)
    (tensor([3.]), None, tensor([4.]))
    >>> shortened((torch.tensor([3.0]), None, torch.tensor([4.0])), 1.0)
    (tensor([0.6000]), None, tensor([0.8000]))
    """
    norm = torch.stack([part.norm() for part in gradient if part is not None]).norm()
    share = (largest / norm).clamp(max=1)
    return tuple(None if part is None else part * share for part in gradient)


def half_precision(device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def dropping(lr: float, epochs: int, drops: tuple[float, ...], factor: float) -> list[float]:
    """The learning rate of each pass: divided by `factor` after each of these shares of the passes; the first has lr.

    >>> dropping(1.0, 10, (0.7, 0.9), 5)
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2, 0.04]
    """
    ends = [max(1, round(share * epochs)) for share in drops]
    return [lr / factor ** sum(epoch >= end for end in ends) for epoch in range(epochs)]
