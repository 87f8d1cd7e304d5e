"""Presets of a backbone: views and stages that go together, "careful" for accuracy and "quick" for speed.

They were chosen on a fifth of CIFAR-100's training part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Preset(NamedTuple):
    """The views and stages of one preset."""

    views: str
    stages: str


PRESET_NAMES = ("careful", "quick")
PRESETS: dict[str, dict[str, Preset]] = {
    "reduced_resnet18": {
        "careful": Preset("32,32m,40,40m", "3:top,3:bottom,3:centre,4"),
        "quick": Preset("32", "3:centre,4"),
    },
    "efficientnet_lite0": {
        "careful": Preset("192,192m,256,256m", "5:top,5:bottom,5:centre,7"),
        "quick": Preset("224", "5:centre,7"),
    },
}


def has_presets(backbone: str, options: Mapping[str, Any]) -> bool:
    """Whether the backbone has what the options name: only some backbones have "careful" and "quick"."""
    return backbone in PRESETS or not set(PRESET_NAMES).intersection(options.values())


def resolve_presets(
    backbone: str, views: str | Iterable[str] | None = None, stages: str | Iterable[str] | None = None
) -> dict[str, Any]:
    """The views and stages that are given, with "careful" and "quick" replaced by those of the backbone's preset.

    >>> resolve_presets("reduced_resnet18", stages="quick")
    {'stages': '3:centre,4'}
    """
    given = {name: value for name, value in (("views", views), ("stages", stages)) if value is not None}
    for field, value in given.items():
        if isinstance(value, str) and value in PRESET_NAMES:
            if backbone not in PRESETS:
                known = " and ".join(PRESETS)
                raise ValueError(f"{field}={value!r} is a preset of {known} only: name the {field} of {backbone!r}.")
            given[field] = getattr(PRESETS[backbone][value], field)
    return given


def with_preset(preset: str | None, views: Any = None, stages: Any = None) -> tuple[Any, Any]:
    """Views and stages where those that are not given come from the preset.

    >>> with_preset("careful", stages="4")
    ('careful', '4')
    """
    if preset is not None and preset not in PRESET_NAMES:
        raise ValueError(f"preset must be one of {', '.join(PRESET_NAMES)}, got {preset!r}.")
    return (preset if views is None else views), (preset if stages is None else stages)
