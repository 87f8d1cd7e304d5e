"""What the engine can be told, and its limits."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class EngineSettings:
    """`backbone`, `views`, `stages`, `learner` and `budget` are for a new model, as `votestream learn` takes them."""

    backbone: str | None = None  # None: chosen by the first image's size
    views: str | None = None
    stages: str | None = None
    learner: str | None = None
    budget: int | None = None
    seed: int = 0
    device: str | None = None
    max_pixels: int | None = None
    unknown: float = 0.05  # share of known samples that may be called unknown by mistake
    undo_reach: int = 1000  # lessons that can always be taken back; the features of at most twice as many are kept
    fold_lessons: int = 500  # the model file is written after so many changes,
    fold_seconds: float = 10.0  # or so many seconds after the first change that is not in it
    most_images: int = 256  # that wait for the backbone, of all requests that teach, and of all that predict
    most_image_bytes: int = 128 << 20  # of the files they came in
    most_width: int = 4096  # of the rows that a new model begins with: what it keeps grows with the square of it
    most_rows: int = 8192  # that wait to be learned
    most_row_bytes: int = 128 << 20
    most_predictions: int = 256  # requests that wait with rows of features
    decoders: int = min(4, os.cpu_count() or 1)  # images decoded at once
