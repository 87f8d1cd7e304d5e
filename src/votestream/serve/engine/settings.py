"""The settings of an engine, and how much may wait in its queues."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
RENAMED = {
    "fold_lessons": "checkpoint_changes",
    "fold_seconds": "checkpoint_seconds",
    "most_images": "max_images",
    "most_image_bytes": "max_image_bytes",
    "most_width": "max_width",
    "most_rows": "max_rows",
    "most_row_bytes": "max_row_bytes",
    "most_predictions": "max_predictions",
    "decoders": "decode_threads",
}


def _accept_old_names(cls: type[T]) -> type[T]:
    """Let the class take and give settings by the names that they had in version 0.2."""
    init: Callable[..., None] = cls.__init__

    @wraps(init)
    def init_with_old_names(self: T, *args: Any, **settings: Any) -> None:
        for old in [name for name in settings if name in RENAMED]:
            _warn(old)
            settings[RENAMED[old]] = settings.pop(old)
        init(self, *args, **settings)

    def old_attribute(self: T, name: str) -> Any:
        if name not in RENAMED:
            raise AttributeError(f"{cls.__name__} has no setting {name!r}")
        _warn(name)
        return getattr(self, RENAMED[name])

    for name, function in (("__init__", init_with_old_names), ("__getattr__", old_attribute)):
        setattr(cls, name, function)
    return cls


def _warn(old: str) -> None:
    warnings.warn(f"The setting {old} is now {RENAMED[old]}", DeprecationWarning, stacklevel=3)


@_accept_old_names
@dataclass(frozen=True)
class EngineSettings:
    """How an engine works. `backbone`, `views`, `stages`, `learner`, `budget` and `seed` are for a new model."""

    backbone: str | None = None  # None: chosen by the size of the first image
    views: str | None = None
    stages: str | None = None
    learner: str | None = None
    budget: int | None = None
    seed: int = 0
    device: str | None = None
    max_pixels: int | None = None
    unknown: float = 0.05  # share of known samples that may be reported as unknown
    undo_reach: int = 1000  # changes that can always be undone; the journal keeps the features of at most twice as many
    checkpoint_changes: int = 500  # the model file is written after so many changes,
    checkpoint_seconds: float = 10.0  # or so many seconds after the first change that is not in it
    max_images: int = 256  # images that wait for the backbone: this many to learn, and this many to predict
    max_image_bytes: int = 128 << 20  # of the files that these images came in
    max_width: int = 4096  # of the first rows of a new model: its memory grows with the square of the width
    max_rows: int = 8192  # rows that wait for the writer
    max_row_bytes: int = 128 << 20
    max_predictions: int = 256  # requests that wait for a prediction of rows
    decode_threads: int = min(4, os.cpu_count() or 1)  # for each of the two kinds of images
