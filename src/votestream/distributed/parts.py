"""What becomes of a chunk of images: what a learner has made of it, or its features; and how that travels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.files import arrays_of
from votestream.core.learner import Learner
from votestream.core.registry import from_parts
from votestream.distributed.merge_tree import MergeTree
from votestream.io.array_checks import made_by_workers
from votestream.io.model_files import ModelFileError, joined, packed, part_of, unpacked
from votestream.tracking.calibration import CalibrationSums
from votestream.tracking.tracker import Tests

FORMAT = 2  # of a part's bytes, and of what they are made from: another number, and no stored part is taken again
NAME = "a part"


@dataclass
class Part:
    """Either `learner` is there, or `features` with their `labels`; neither where no image was left to learn."""

    images: int  # in the chunk, those left out among them
    learned: int = 0
    learner: Learner | None = None
    features: NDArray[np.float32] | None = None
    labels: list[str | int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # images that cannot be read, and why
    notes: list[Any] = field(default_factory=list)  # of each chunk, plain values that can be written as JSON
    tests: Tests | None = None  # of the rows, by the model as it was when the job began
    sums: CalibrationSums | None = None

    def to_bytes(self) -> bytes:
        header = {
            "part": FORMAT,
            "images": self.images,
            "learned": self.learned,
            "labels": self.labels,
            "problems": self.problems,
            "notes": self.notes,
            "learner": None if self.learner is None else self.learner.header(),
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self.features is not None:
            arrays["features"] = self.features
        if self.learner is not None:
            arrays |= joined({"learner": arrays_of(self.learner)})
        if self.tests is not None and self.sums is not None:
            arrays |= joined({"tests": self.tests._asdict(), "sums": self.sums.state()})
        return packed(header, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> Part:
        """Whatever is wrong with the bytes is a ModelFileError."""
        header, arrays = unpacked(NAME, blob)
        if header.get("part") != FORMAT:
            raise ModelFileError(f"{NAME} has the format {header.get('part')!r}, not {FORMAT}")
        part = cls(
            images=header["images"],
            learned=header["learned"],
            features=arrays.get("features"),
            labels=header["labels"],
            problems=header["problems"],
            notes=header["notes"],
        )
        if header["learner"] is not None:
            with made_by_workers():
                part.learner = from_parts(NAME, header["learner"], part_of(arrays, "learner"))
        if tests := part_of(arrays, "tests"):
            part.tests, part.sums = Tests(**tests), CalibrationSums(0.0)
            part.sums.restore(part_of(arrays, "sums"))
        return part


def merged(left: Any, right: Any) -> Any:
    """The left learner, which has learned what the right one has, too."""
    left.merge_in(right)
    return left


def joined_parts(parts: Iterable[Part]) -> Part:
    """Those of a group of chunks as one. Features and tests stay as they are: their groups have one chunk."""
    first, *others = parts
    if not others:
        return first
    whole, tree = Part(0), MergeTree(merged)
    for number, part in enumerate((first, *others)):
        tree.add(number, part.learner)
        whole.images += part.images
        whole.learned += part.learned
        whole.problems += part.problems
        whole.notes += part.notes
    whole.learner = tree.result()
    return whole
