"""Features from several stages of a network, and from parts of their maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda maps: maps,
    "top": lambda maps: maps[:, :, : (maps.shape[2] + 1) // 2],
    "bottom": lambda maps: maps[:, :, maps.shape[2] // 2 :],
    "centre": lambda maps: maps[:, :, _middle(maps.shape[2]), _middle(maps.shape[3])],
}


def _middle(side: int) -> slice:
    return slice(side // 4, side - side // 4)


class StageFeatures(nn.Module):
    """Joins the averages of some stages' maps, each divided by its stage's spread.

    Args:
        network: Has `maps(x)`, the map of every stage by its name.
        stages: Names of stages, such as "4"; behind a colon a part of the map: "3:top", "3:bottom", "3:centre".
        scales: The spread of each stage's features, measured on the images that the weights were made for.

    Example:
        >>> from votestream.backbones.networks.resnet import ReducedResNet18
        >>> network = StageFeatures(ReducedResNet18(), ["3:centre", "4"], {"3": 0.5, "4": 0.4}).eval()
        >>> network(torch.zeros(2, 3, 32, 32)).shape  # 80 and 160
        torch.Size([2, 240])
    """

    def __init__(self, network: nn.Module, stages: Iterable[str], scales: Mapping[str, float]) -> None:
        super().__init__()
        self.network = network
        names = as_names(stages, "stages")
        for stage in names:
            name, _, part = stage.partition(":")
            if name not in scales or part not in PARTS or stage.endswith(":"):
                parts = ", ".join(f"{name if name in scales else next(iter(scales))}:{part}" for part in PARTS if part)
                raise ValueError(
                    f"There is no stage {stage!r}: there are {', '.join(scales)}, and parts as in {parts}."
                )
        self.scale_of = {stage: scales[stage.partition(":")[0]] for stage in names}

    def forward(self, x: Tensor) -> Tensor:
        maps = self.network.maps(x)  # type: ignore[operator]
        pooled = []
        for stage, scale in self.scale_of.items():
            name, _, part = stage.partition(":")
            pooled.append(PARTS[part](maps[name]).mean(dim=(2, 3)) / scale)
        return torch.cat(pooled, 1)


def as_names(names: str | Iterable[str], what: str) -> tuple[str, ...]:
    """Names given as a list or in one string, separated by commas.

    >>> as_names("3:centre, 4", "stages")
    ('3:centre', '4')
    """
    found = names.split(",") if isinstance(names, str) else list(names)
    cleaned = tuple(name.strip() for name in found if isinstance(name, str))
    if not cleaned or len(cleaned) < len(found) or "" in cleaned or len(set(cleaned)) < len(cleaned):
        raise ValueError(f"{what} must be different names, as a list or separated by commas, got {names!r}.")
    return cleaned
