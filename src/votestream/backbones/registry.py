"""Backbones by name: a dict and a decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from votestream.backbones.backbone import Backbone
from votestream.common.plugins import Registry
from votestream.common.suggestions import did_you_mean

BACKBONES: Registry[Callable[..., Backbone]] = Registry("backbone")


def register_backbone(name: str) -> Callable[[Callable[..., Backbone]], Callable[..., Backbone]]:
    """Register a factory under a name, or under a family such as `"timm:NAME"`.

    A factory takes the name it was asked for, or what stands behind a family's colon, then the options.

    Example:
        >>> @register_backbone("mine:FILE")
        ... def mine(file, **options):
        ...     raise ValueError(f"{file} is not there yet")
        >>> create_backbone("mine:net.pt")
        Traceback (most recent call last):
        ...
        ValueError: net.pt is not there yet
    """
    return BACKBONES.decorator(name)


def create_backbone(name: str, **options: Any) -> Backbone:
    """Make the backbone of that name; `list_backbones()` tells which there are.

    Every backbone takes `device` ("auto", "cpu", "cuda") and `batch_size`; more depends on the backbone.

    Example:
        >>> create_backbone("reduced_resnet81")
        Traceback (most recent call last):
        ...
        ValueError: There is no backbone 'reduced_resnet81'. Did you mean 'reduced_resnet18'?
    """
    if name in BACKBONES:  # a plug-in of its family is here, too, once this has been asked
        return BACKBONES[name](name, **options)
    family, _, rest = name.partition(":")
    for known in BACKBONES.here() if rest else ():
        if known.startswith(f"{family}:"):
            return BACKBONES[known](rest, **options)
    raise ValueError(f"There is no backbone {name!r}. {did_you_mean(name, list_backbones())}")


def list_backbones() -> list[str]:
    """Names that `create_backbone` takes; what stands in capitals behind a colon is yours to fill in.

    Example:
        >>> [name for name in list_backbones() if ":" in name]
        ['onnx:FILE', 'timm:NAME', 'torchvision:NAME']
    """
    return sorted(BACKBONES)
