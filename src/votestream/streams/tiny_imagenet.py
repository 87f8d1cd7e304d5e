"""Tiny-ImageNet-200: the official folders of JPEG files, or all training images in one array."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from votestream.streams.catalogue import fetch_again
from votestream.streams.data_set import DataError, DataSet
from votestream.streams.image_files import ImageFiles


def load_tiny_imagenet(data_dir: Path) -> DataSet:
    """Labels 0 to 199 are places in `wnids.txt`; names are the first word of `words.txt`, else the wnid.

    Two layouts are read from `tiny-imagenet-200/`: the official one, `train/WNID/images/*.JPEG` and
    `val/images/*.JPEG` with `val/val_annotations.txt`, whose validation part is the test part (the official test
    part has no labels); or `images.npy` (n, 64, 64, 3) and `labels.npy`, which have no test part.
    """
    root = data_dir / "tiny-imagenet-200"
    wnids = _text(root / "wnids.txt").split()
    words = _words(root / "words.txt") if (root / "words.txt").exists() else {}
    names = {label: words.get(wnid, wnid) for label, wnid in enumerate(wnids)}
    if (root / "train").is_dir():
        X, y = _train_files(root / "train", wnids)
        X_test, y_test = _val_files(root / "val", wnids)
        return DataSet("tiny-imagenet", X, y, X_test, y_test, names)
    pixels, labels = _array(root / "images.npy"), _array(root / "labels.npy")
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or labels.shape != pixels.shape[:1]:
        raise DataError(
            f"images.npy {pixels.shape} {pixels.dtype} and labels.npy {labels.shape} in {root} do not belong together."
        )
    if labels.dtype.kind not in "iu" or len(labels) == 0 or labels.min() < 0 or labels.max() >= len(wnids):
        raise DataError(f"labels.npy in {root} must hold places in wnids.txt, 0 to {len(wnids) - 1}.")
    return DataSet("tiny-imagenet", pixels, labels.astype(np.int64), class_names=names)


def _train_files(folder: Path, wnids: list[str]) -> tuple[ImageFiles, np.ndarray]:
    paths, labels = [], []
    for label, wnid in enumerate(wnids):
        files = sorted((folder / wnid / "images").glob("*.JPEG"))
        if not files:
            raise DataError(f"There are no images in {folder / wnid / 'images'}: {_again(folder.parent)}.")
        paths += files
        labels += [label] * len(files)
    return ImageFiles(paths), np.array(labels)


def _val_files(folder: Path, wnids: list[str]) -> tuple[ImageFiles, np.ndarray]:
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    paths, labels = [], []
    for line in _text(folder / "val_annotations.txt").splitlines():
        name, wnid = [*line.split("\t"), ""][:2]
        if wnid not in label_of:
            raise DataError(f"{folder / 'val_annotations.txt'} has a line with no class of wnids.txt: {line!r}.")
        paths.append(folder / "images" / name)
        labels.append(label_of[wnid])
    here = {path.name for path in (folder / "images").glob("*")}
    for path in paths:
        if path.name not in here:
            raise DataError(f"There is no file {path}: {_again(folder.parent)}.")
    return ImageFiles(paths), np.array(labels)


def _words(path: Path) -> dict[str, str]:
    pairs = (line.split("\t", 1) for line in _text(path).splitlines() if "\t" in line)
    return {wnid: names.partition(",")[0].strip() for wnid, names in pairs}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        root = path.parent.parent if path.parent.name == "val" else path.parent
        raise DataError(f"There is no file {path}: {_again(root)}.") from None


def _array(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except FileNotFoundError:
        raise DataError(
            f"There is neither a folder {path.parent / 'train'} nor a file {path}: {_again(path.parent)}."
        ) from None
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path} is truncated or damaged ({error}): delete it, and make it again.") from error


def _again(root: Path) -> str:
    return fetch_again("tiny-imagenet", root)
