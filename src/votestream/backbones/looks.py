"""Ways of looking that were chosen for a backbone, on a fifth of CIFAR-100's training part: careful and quick."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Look(NamedTuple):
    views: str
    stages: str


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


def chosen(
    backbone: str, views: str | Iterable[str] | None, stages: str | Iterable[str] | None
) -> tuple[str | Iterable[str] | None, str | Iterable[str] | None]:
    """Views and stages with the words "careful" and "quick" replaced by what was chosen for the backbone.

    >>> chosen("reduced_resnet18", None, "quick")
    (None, '3:centre,4')
    """
    given = {"views": views, "stages": stages}
    for field, value in given.items():
        if value in ("careful", "quick"):
            if backbone not in LOOKS:
                known = " and ".join(LOOKS)
                raise ValueError(f"{field}={value!r} was chosen for {known} only: name the {field} of {backbone!r}.")
            given[field] = getattr(LOOKS[backbone][str(value)], field)
    return given["views"], given["stages"]
