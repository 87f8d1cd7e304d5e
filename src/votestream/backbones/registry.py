"""Backbones by name: a dict and a decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from votestream.backbones.backbone import Backbone
from votestream.backbones.presets import resolve_presets, with_preset
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
    preset: str | None = None,
    views: str | Iterable[str] | None = None,
    stages: str | Iterable[str] | None = None,
    **options: Any,
) -> Backbone:
    """Make the backbone with that name; `list_backbones()` lists the names.

    Every backbone takes `device` ("auto", "cpu", "cuda") and `batch_size`; more depends on the backbone.

    Args:
        preset: "careful" for accuracy or "quick" for speed: the backbone's preset of views and stages.
        views: Sizes in which each image is read, such as "32,32m,40,40m" (m: mirrored); the features are averaged.
            See `Backbone.with_views`. Also "careful" or "quick", for the views of that preset.
        stages: Stages of the network whose features are joined, such as "3:centre,4", if the backbone has stages.
            See `StageFeatures`. Also "careful" or "quick", for the stages of that preset.

    Example:
        >>> create_backbone("reduced_resnet18", preset="careful", device="cpu")  # doctest: +ELLIPSIS
        <Backbone reduced_resnet18: views 32,32m,40,40m -> 400, stages 3:top,3:bottom,3:centre,4, cpu, digest ...>
        >>> create_backbone("reduced_resnet81")
        Traceback (most recent call last):
        ...
        ValueError: There is no backbone 'reduced_resnet81'. Did you mean 'reduced_resnet18'?
    """
    factory, asked = _factory(name)
    chosen = resolve_presets(name, *with_preset(preset, views, stages))
    if "stages" in chosen:
        if "stages" not in inspect.signature(factory).parameters:
            raise ValueError(f"The backbone {name!r} has no stages to choose from: leave stages out.")
        options["stages"] = chosen["stages"]
    made = factory(asked, **options)
    return made.with_views(chosen["views"]) if "views" in chosen else made


def _factory(name: str) -> tuple[Callable[..., Backbone], str]:
    """The factory of the backbone, and the argument to call it with."""
    if name in BACKBONES:  # this also loads plug-ins of its family
        return BACKBONES[name], name
    family, _, rest = name.partition(":")
    for known in BACKBONES.here() if rest else ():
        if known.startswith(f"{family}:"):
            return BACKBONES[known], rest
    raise ValueError(f"There is no backbone {shown(name)}. {did_you_mean(name, list_backbones())}")


def list_backbones() -> list[str]:
    """The names for `create_backbone`; replace the part in capitals after a colon by your own.

    Example:
        >>> [name for name in list_backbones() if ":" in name]
        ['onnx:FILE', 'timm:NAME', 'torchvision:NAME']
    """
    return sorted(BACKBONES)
