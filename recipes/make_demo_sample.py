"""Make the small CIFAR-10 sample that ships with the package for `votestream demo`.

    python recipes/make_demo_sample.py CIFAR_10_BATCHES_PY

Takes the first 100 training images of each class (from data_batch_1) and the first 50 test images, lays each
class out as one row of a lossless WebP sheet, and writes them to src/votestream/sample/.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
from PIL import Image

OUT = Path(__file__).resolve().parent.parent / "src" / "votestream" / "sample"


def sheet(source: Path, per_class: int) -> Image.Image:
    """One row a class, in the order of the file."""
    batch = pickle.loads(source.read_bytes(), encoding="bytes")
    images = batch[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    labels = np.array(batch[b"labels"])
    rows = [np.concatenate(images[labels == c][:per_class], axis=1) for c in range(10)]
    return Image.fromarray(np.concatenate(rows))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, source, per_class in (("train", "data_batch_1", 100), ("test", "test_batch", 50)):
        path = OUT / f"{name}.webp"
        sheet(folder / source, per_class).save(path, lossless=True, quality=100, method=6, exact=True)
        print(f"{path}: {path.stat().st_size:,} bytes")
