"""Ways of looking that were chosen for a backbone, on a fifth of CIFAR-100's training part: careful and quick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Look(NamedTuple):
    views: str
    stages: str


WORDS = {"careful", "quick"}
LOOKS: dict[str, dict[str, Look]] = {
    "reduced_resnet18": {
        "careful": Look("32,32m,40,40m", "3:top,3:bottom,3:centre,4"),
        "quick": Look("32", "3:centre,4"),
    },
    "efficientnet_lite0": {
        "careful": Look("192,192m,256,256m", "5:top,5:bottom,5:centre,7"),
        "quick": Look("224", "5:centre,7"),
    },
}


def is_known(backbone: str, look: Mapping[str, Any]) -> bool:
    """Whether that look can be had of the backbone: "careful" and "quick" were chosen for some only."""
    return backbone in LOOKS or not WORDS.intersection(look.values())


def chosen(
    backbone: str, views: str | Iterable[str] | None = None, stages: str | Iterable[str] | None = None
) -> dict[str, Any]:
    """The views and stages that are given, with "careful" and "quick" replaced by what was chosen for the backbone.

    >>> chosen("reduced_resnet18", stages="quick")
    {'stages': '3:centre,4'}
    """
    given = {name: value for name, value in (("views", views), ("stages", stages)) if value is not None}
    for field, value in given.items():
        if isinstance(value, str) and value in WORDS:
            if backbone not in LOOKS:
                known = " and ".join(LOOKS)
                raise ValueError(f"{field}={value!r} was chosen for {known} only: name the {field} of {backbone!r}.")
            given[field] = getattr(LOOKS[backbone][value], field)
    return given
