"""Backbones by name: a dict and a decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from votestream.backbones.backbone import Backbone
from votestream.backbones.looks import chosen
from votestream.common.parameters import shown
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


def create_backbone(
    name: str,
    *,
    views: str | Iterable[str] | None = None,
    stages: str | Iterable[str] | None = None,
    **options: Any,
) -> Backbone:
    """Make the backbone of that name; `list_backbones()` tells which there are.

    Every backbone takes `device` ("auto", "cpu", "cuda") and `batch_size`; more depends on the backbone.

    Args:
        views: Looks at each image that are averaged, such as "32,32m,40,40m"; see `Backbone.with_views`.
        stages: Stages of the network whose features stand side by side, such as "3:centre,4", where the backbone
            has them; see `StageFeatures`. "careful" and "quick" are the views and the stages that were chosen for it.

    Example:
        >>> create_backbone("reduced_resnet18", views="careful", stages="careful", device="cpu")  # doctest: +ELLIPSIS
        <Backbone reduced_resnet18: views 32,32m,40,40m -> 400, stages 3:top,3:bottom,3:centre,4, cpu, digest ...>
        >>> create_backbone("reduced_resnet81")
        Traceback (most recent call last):
        ...
        ValueError: There is no backbone 'reduced_resnet81'. Did you mean 'reduced_resnet18'?
    """
    factory, asked = _factory(name)
    look = chosen(name, views, stages)
    if "stages" in look:
        if "stages" not in inspect.signature(factory).parameters:
            raise ValueError(f"The backbone {name!r} has no stages to choose from: leave stages out.")
        options["stages"] = look["stages"]
    made = factory(asked, **options)
    return made.with_views(look["views"]) if "views" in look else made


def _factory(name: str) -> tuple[Callable[..., Backbone], str]:
    """What makes the backbone, and the name it is called with."""
    if name in BACKBONES:  # a plug-in of its family is here, too, once this has been asked
        return BACKBONES[name], name
    family, _, rest = name.partition(":")
    for known in BACKBONES.here() if rest else ():
        if known.startswith(f"{family}:"):
            return BACKBONES[known], rest
    raise ValueError(f"There is no backbone {shown(name)}. {did_you_mean(name, list_backbones())}")


def list_backbones() -> list[str]:
    """Names that `create_backbone` takes; what stands in capitals behind a colon is yours to fill in.

    Example:
        >>> [name for name in list_backbones() if ":" in name]
        ['onnx:FILE', 'timm:NAME', 'torchvision:NAME']
    """
    return sorted(BACKBONES)
