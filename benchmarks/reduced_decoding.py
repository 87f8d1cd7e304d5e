"""What decoding large JPEGs at reduced size changes: features and predictions, beside saving the photos once more.

    python benchmarks/reduced_decoding.py FOLDER... --taught flowers   # rows to results/accuracy/reduced_decoding.csv

FOLDER: JPEGs below it, those whose shorter side is 1,000 pixels or more (the rows are of the wallpapers in Debian's
packages gnome-backgrounds, mate-backgrounds and plasma-workspace-wallpapers: 36 different ones). Each is brought to
sizes that are decoded at 1/2, 1/4 or 1/8 and then have just three times what the network reads on their shorter side,
which is the least that is kept; the cosine is that of its features with those of the full decoding. "Saved again" is
the full decoding of the same photo saved once more as a JPEG of quality 90.

`--taught`: a folder of rounds and a test part (docs/photos.md). A model is taught its rounds; the test photos are
enlarged to such a size, get a camera's grain, and are predicted in the three ways; about a hundred of them.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import votestream as vs
from rows import ACCURACY, COMMAND, append
from votestream.images.files import KEPT

FIELDS = [
    *("backbone", "decoded_at", "photos", "cosine_least", "cosine_median", "saved_again_least", "saved_again_median"),
    *("predictions_changed", "changed_by_saving_again", "accuracy", "accuracy_reduced", "version", "command"),
]
LEAST, GRAIN, QUALITY, ASKED = 1000, 10, 92, 100


def jpeg(image: Image.Image, quality: int = QUALITY) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def decoded(file: bytes, times: int = 1) -> Image.Image:
    image = Image.open(io.BytesIO(file))
    if times > 1:
        image.draft(None, (image.width // times, image.height // times))
    return image.convert("RGB")


def three_ways(backbone: vs.Backbone, files: list[bytes], times: int) -> list[np.ndarray]:
    """Features of the full decoding, the reduced one, and that of photos saved again."""
    ways: list[Callable[[bytes], Image.Image]] = [
        decoded,
        lambda file: decoded(file, times),
        lambda file: decoded(jpeg(decoded(file), 90)),
    ]
    return [backbone.of_prepared(np.stack([backbone.prepare(way(file)) for file in files])) for way in ways]


def cosines(a: np.ndarray, b: np.ndarray) -> list[float]:
    return ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).tolist()


def of_shorter_side(image: Image.Image, side: int) -> Image.Image:
    scale = side / min(image.size)
    size = [max(side, round(scale * length) // 8 * 8) for length in image.size]
    return image.resize((size[0], size[1]), Image.Resampling.LANCZOS)


def large_jpegs(folders: list[Path]) -> list[Path]:
    found: dict[str, Path] = {}
    for path in sorted(path for folder in folders for path in folder.rglob("*.jp*g")):
        with Image.open(path) as image:
            if min(image.size) >= LEAST and image.mode == "RGB":
                found.setdefault(hashlib.md5(path.read_bytes()).hexdigest(), path)
    return list(found.values())


def features_row(backbone: vs.Backbone, photos: list[Path], times: int) -> dict[str, Any] | None:
    side, files = KEPT * times * backbone.input_size, []
    for path in photos:
        with Image.open(path) as image:
            if min(image.size) >= side:
                files.append(jpeg(of_shorter_side(image, side)))
    if len(files) < 5:
        return None
    full, reduced, again = three_ways(backbone, files, times)
    row: dict[str, Any] = {"backbone": backbone.name, "decoded_at": f"1/{times}", "photos": len(files)}
    for name, others in (("cosine", reduced), ("saved_again", again)):
        found = cosines(full, others)
        row |= {f"{name}_least": f"{min(found):.4f}", f"{name}_median": f"{statistics.median(found):.4f}"}
    return row


def predictions_row(backbone: vs.Backbone, folder: Path, times: int) -> dict[str, Any]:
    taught, asked = sorted(folder.glob("round*/*/*")), sorted(folder.glob("test/*/*"))
    asked = asked[:: max(1, len(asked) // ASKED)]
    order = np.random.default_rng(0).permutation(len(taught))
    model = vs.GaussianVoting(device="cpu")
    model.partial_fit(backbone([taught[i] for i in order]), [taught[i].parent.name for i in order])
    side, rng, features = KEPT * times * backbone.input_size, np.random.default_rng(0), []
    for path in asked:
        with Image.open(path) as image:
            large = np.asarray(of_shorter_side(image.convert("RGB"), side), np.float32)
        grain = rng.normal(0, GRAIN, (*large.shape[:2], 1)).astype(np.float32)
        file = jpeg(Image.fromarray((large + grain).clip(0, 255).astype(np.uint8)))
        features.append(three_ways(backbone, [file], times))
    full, reduced, again = (model.predict(np.concatenate(way)) for way in zip(*features, strict=True))
    truth = np.array([path.parent.name for path in asked])
    return {
        "backbone": backbone.name,
        "decoded_at": f"1/{times}",
        "photos": f"{len(asked)} of {folder.name}, enlarged",
        "predictions_changed": int((full != reduced).sum()),
        "changed_by_saving_again": int((full != again).sum()),
        "accuracy": f"{100 * (full == truth).mean():.1f}",
        "accuracy_reduced": f"{100 * (reduced == truth).mean():.1f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--taught", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    out = ACCURACY / "reduced_decoding.csv"
    out.unlink(missing_ok=True)
    photos, about = large_jpegs(args.folders), {"version": vs.__version__, "command": COMMAND}
    for name, stages in (("efficientnet_lite0", "quick"), ("reduced_resnet18", None)):
        backbone = vs.create_backbone(name, stages=stages, device="cpu")
        for times in (2, 4, 8):
            if row := features_row(backbone, photos, times):
                append(out, row | about, FIELDS)
    for folder in args.taught:
        backbone = vs.create_backbone("efficientnet_lite0", stages="quick", device="cpu")
        append(out, predictions_row(backbone, folder, 4) | about, FIELDS)
    print(out.read_text())


if __name__ == "__main__":
    main()
