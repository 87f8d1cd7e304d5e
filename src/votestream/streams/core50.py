"""CORe50 at 128 x 128: 50 objects filmed in 11 sessions, and the published order of its class-incremental scenario.

Taken from the published material: the folders `core50_128x128/sS/oO/C_SS_OO_FFF.png`, sessions 3, 7 and 10 for
testing, and, for each of the 10 runs, the lists `batches_filelists/NC_inc/runR/train_batch_0B_filelist.txt` of 9
tasks with lines `s1/o1/C_01_01_000.png 0`. Derived here: the label is the object's number less one, read from the
path. The lists' own numbers are given anew for every run, so they are only checked for telling objects apart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from votestream.streams.catalogue import fetch_again
from votestream.streams.data_set import DataError, DataSet
from votestream.streams.image_files import ImageFiles

TEST_SESSIONS = (3, 7, 10)
CATEGORIES = (
    "plug adapter", "mobile phone", "scissors", "light bulb", "can", "glass", "ball", "marker", "cup", "remote control"
)  # fmt: skip
NC_SIZES = (10, 5, 5, 5, 5, 5, 5, 5, 5)
RUNS = 10


def load_core50(data_dir: Path, level: str = "object") -> DataSet:
    """All images, as files; labels are the 50 objects (0 to 49), or the 10 categories (0 to 9)."""
    if level not in ("object", "category"):
        raise ValueError(f"level must be 'object' (50 classes) or 'category' (10 classes), not {level!r}.")
    root = data_dir / "core50_128x128"
    found: list[tuple[int, int, str, Path]] = []
    for session in root.glob("s*"):
        for thing in session.glob("o*") if session.name[1:].isdigit() else ():
            if thing.name[1:].isdigit() and 1 <= int(thing.name[1:]) <= 50:
                at = int(session.name[1:]), int(thing.name[1:])
                found += [(*at, path.name, path) for path in thing.glob("C_*.png")]
    if not found:
        raise DataError(f"There are no images s1/o1/C_01_01_000.png, ... in {root}: {fetch_again('core50', root)}.")
    found.sort(key=lambda image: image[:3])
    tests = np.array([image[0] in TEST_SESSIONS for image in found])
    y = np.array([image[1] - 1 for image in found])
    names = [f"{CATEGORIES[i // 5]} {i % 5 + 1}" for i in range(50)]
    if level == "category":
        y, names = y // 5, list(CATEGORIES)
    if tests.all() or not tests.any():
        part = "training" if tests.all() else f"test sessions {TEST_SESSIONS}"
        raise DataError(f"The {part} of CORe50 are not in {root}: {fetch_again('core50', root)}.")
    files = ImageFiles([image[3] for image in found])
    train, test = np.flatnonzero(~tests), np.flatnonzero(tests)
    return DataSet("core50", files.select(train), y[train], files.select(test), y[test], dict(enumerate(names)))


def published_tasks(data_dir: Path, data: DataSet, run: int) -> list[np.ndarray]:
    """Rows of the training part, task by task in the order of one published run of the NC scenario."""
    if not 0 <= run < RUNS:
        raise ValueError(f"CORe50 has {RUNS} published orders, run 0 to run {RUNS - 1}; there is no run {run}.")
    assert isinstance(data.X, ImageFiles)
    folder = data_dir / "batches_filelists" / "NC_inc" / f"run{run}"
    row_of = {"/".join(Path(path).parts[-3:]): row for row, path in enumerate(data.X.paths)}
    object_of: dict[str, str] = {}  # each number that the lists use, and the folder it stands for
    tasks = []
    for number in range(len(NC_SIZES)):
        path = folder / f"train_batch_{number:02d}_filelist.txt"
        tasks.append(np.array([_row(line, row_of, object_of, path) for line in _lines(path, data_dir)], np.int64))
    rows = np.concatenate(tasks)
    if len(np.unique(rows)) != len(rows):
        raise DataError(f"The lists in {folder} name an image twice, which the NC scenario never does.")
    if len(set(object_of.values())) != len(object_of):
        raise DataError(f"The lists in {folder} give one object two numbers: they are not those of the NC scenario.")
    return tasks


def _lines(path: Path, data_dir: Path) -> list[str]:
    again = fetch_again("core50", data_dir / "batches_filelists")
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise DataError(
            f"There is no published list {path}: {again}. Without the lists, give `order=` (a seed, or the "
            "50 labels in your order) for an order of your own."
        ) from None
    if not lines:
        raise DataError(f"{path} is empty: {again}.")
    return lines


def _row(line: str, row_of: dict[str, int], object_of: dict[str, str], path: Path) -> int:
    name, _, number = line.strip().rpartition(" ")
    parts = name.strip().split("/")
    row = row_of.get("/".join(parts[-3:]))
    if row is None:
        raise DataError(f"{path} names {line.strip()!r}, which is not among the training images.")
    if object_of.setdefault(number, parts[-2]) != parts[-2]:
        raise DataError(f"{path} uses the number {number} for {object_of[number]} and for {parts[-2]}.")
    return row
