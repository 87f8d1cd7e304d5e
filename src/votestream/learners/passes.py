"""Many passes over the pictures of a task: SGD with momentum, a learning rate that drops, pictures on the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from votestream.learners.augmentation import brightened, shift_and_flip
from votestream.learners.classifier import Classifier

Loss = Callable[[Tensor, Tensor], Tensor]  # of normalised pictures and class numbers


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
    after_step: Callable[[], None] | None = None,
) -> None:
    """As many passes as there are learning rates; the network is left in evaluation mode.

    `augment` is None, "shift" (random crops and mirror images) or "colour" (those, and brightness or contrast). Mini-
    batches are of nearly equal size, so that no batch norm sees a picture alone. On a GPU the passes forward are in
    bfloat16, what is random is drawn and sent once a pass, and no step waits for the device.
    """
    device, n = images.device, len(labels)
    parts = math.ceil(n / batch_size)
    optimiser = torch.optim.SGD(
        network.parameters(), rates[0], momentum, weight_decay=weight_decay, fused=device.type == "cuda"
    )
    network.train()
    for rate in rates:
        optimiser.param_groups[0]["lr"] = rate
        order = torch.randperm(n, generator=random).to(device, non_blocking=True).tensor_split(parts)
        draws = torch.rand(5, n, generator=random).to(device, non_blocking=True).tensor_split(parts, 1)
        for rows, drawn in zip(order, draws, strict=True):
            batch = images[rows]
            if augment == "colour":
                batch = brightened(batch, drawn[3:])
            if augment is not None:
                batch = shift_and_flip(batch, drawn[:3])
            with half_precision(device):
                value = loss(network.pixels(batch), labels[rows])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            if after_step is not None:
                after_step()
    optimiser.zero_grad()
    network.eval()


def half_precision(device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def dropping(lr: float, epochs: int, drops: tuple[float, ...], factor: float) -> list[float]:
    """The learning rate of each pass: divided by `factor` after each of these shares of the passes.

    >>> dropping(1.0, 10, (0.7, 0.9), 5)
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2, 0.04]
    """
    return [lr / factor ** sum(epoch >= round(share * epochs) for share in drops) for epoch in range(epochs)]
