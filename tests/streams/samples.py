"""Small data in the official formats, made on the spot."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image


class Python2Pickler(pickle._Pickler):  # of which type checkers know little
    """Writes text and bytes alike as Python 2's strings: what the official files are made of."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_string(self, value):
        value = value.encode() if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(value)) + value)  # type: ignore[attr-defined]
        self.memoize(value)  # type: ignore[attr-defined]

    dispatch[bytes] = dispatch[str] = save_string  # type: ignore[assignment]


def python2(value) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"numpy._core", b"numpy.core")


def python3(value) -> bytes:
    return pickle.dumps(value, protocol=2)


def cifar_content(n: int, n_classes: int, seed: int, key: bytes):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_classes)
    return {
        b"batch_label": b"batch",
        key: labels.tolist(),
        b"data": rng.integers(0, 256, (n, 3072), np.uint8),
        b"filenames": [b"image_%d.png" % i for i in range(n)],
    }


def write_cifar10(data_dir: Path, per_file: int = 20, write=python2) -> Path:
    folder = data_dir / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        (folder / name).write_bytes(write(cifar_content(per_file, 10, seed, b"labels")))
    names = b"airplane automobile bird cat deer dog frog horse ship truck".split()
    (folder / "batches.meta").write_bytes(write({b"label_names": names, b"num_cases_per_batch": per_file}))
    return folder


def write_cifar100(data_dir: Path, n: int = 300, n_test: int = 200, write=python2) -> Path:
    folder = data_dir / "cifar-100-python"
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate((("train", n), ("test", n_test))):
        (folder / name).write_bytes(write(cifar_content(count, 100, seed, b"fine_labels")))
    (folder / "meta").write_bytes(write({b"fine_label_names": [b"class_%d" % i for i in range(100)]}))
    return folder


def write_image(path: Path, shade: int, size: tuple[int, int] = (8, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade % 256, shade // 256, 77)).save(path)
    return path


CORE50_TASKS = np.split(np.random.default_rng(5).permutation(np.arange(1, 51)), range(10, 50, 5))


def write_core50(data_dir: Path, frames: int = 2) -> None:
    """11 sessions of 50 objects, and the lists of run 0 and run 1 (the same tasks backwards, 10 objects first)."""
    for session in range(1, 12):
        for thing in range(1, 51):
            for frame in range(frames):
                name = f"s{session}/o{thing}/C_{session:02d}_{thing:02d}_{frame:03d}.png"
                write_image(data_dir / "core50_128x128" / name, thing, (4, 4))
    backwards = np.concatenate(CORE50_TASKS)[::-1]
    for run, tasks in enumerate((CORE50_TASKS, np.split(backwards, range(10, 50, 5)))):
        folder = data_dir / "batches_filelists" / "NC_inc" / f"run{run}"
        folder.mkdir(parents=True)
        number = {thing: place for place, thing in enumerate(np.concatenate(tasks))}  # given anew for every run
        for batch, things in enumerate(tasks):
            lines = [
                f"s{session}/o{thing}/C_{session:02d}_{thing:02d}_{frame:03d}.png {number[thing]}"
                for session in range(1, 12)
                if session not in (3, 7, 10)
                for thing in things
                for frame in range(frames)
            ]
            (folder / f"train_batch_{batch:02d}_filelist.txt").write_text("\n".join(lines) + "\n")


def write_tiny_imagenet(data_dir: Path, wnids=("n03", "n01", "n02"), train: int = 3, val: int = 2) -> Path:
    folder = data_dir / "tiny-imagenet-200"
    lines = []
    for place, wnid in enumerate(wnids):
        for i in range(train):
            write_image(folder / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", 40 * place)
        for _ in range(val):
            name = f"val_{len(lines)}.JPEG"
            write_image(folder / "val" / "images" / name, 40 * place)
            lines.append(f"{name}\t{wnid}\t0\t0\t62\t62")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    (folder / "wnids.txt").write_text("\n".join(wnids) + "\n")
    (folder / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn02\ttoad\nn09\tsomething else\n")
    return folder
