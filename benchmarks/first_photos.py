"""How far a model can be believed after its first photos: right, sure and wrong, and photos of classes never learned.

    python benchmarks/first_photos.py flowers signs                    # rows to results/accuracy/first_photos.csv
    python benchmarks/first_photos.py MY_PHOTOS --out mine.csv         # any folder that `photo_folders.py` takes

Of half of the classes, drawn anew for each seed, so many photos a class are learned in mixed order. Asked are the test
photos of these classes, and those of the others, which are unknown.

`confident` is the mean of the largest probability, `right` the accuracy; ECE the calibration error (15 bins). In a
stream in which one photo in ten is unknown, `answered` have a confidence of 90 % or more, and so many of them are
`right of answered`. `unknown at 90` are the unknown photos among them; `unknown proba at 90` those whose largest
probability is so large. AUROC and `accepted`, the unknown photos that pass where half of the known ones do, are of
`unknown_score`. All in per cent, with the standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import votestream as vs
from calibration import calibration_error
from photo_parts import parts_of
from rows import ACCURACY, COMMAND, write

COUNTS = (2, 5, 10, 20, 40, 80)
BACKBONES = (
    *("efficientnet_lite0+quick", "efficientnet_lite0+careful", "efficientnet_lite0"),
    *("reduced_resnet18+quick", "reduced_resnet18+careful", "reduced_resnet18"),
)
MEASURED = (
    *("right", "confident", "ECE", "answered", "right of answered", "unknown at 90", "unknown proba at 90"),
    *("AUROC", "accepted"),
)
FIELDS = ("photos", "backbone", "track", "classes", "photos a class", *MEASURED, *(f"{name} +-" for name in MEASURED))
SURE, UNKNOWN_SHARE = 0.9, 0.1


class Rows(NamedTuple):
    """Features of photos and their labels."""

    X: NDArray[np.float32]
    y: NDArray[Any]


def rows_of_set(name: str, backbone: str) -> tuple[Rows, Rows]:
    """Photos to learn and to ask about, through a backbone."""
    kind, _, preset = backbone.partition("+")
    extract = vs.create_backbone(kind, **({"views": preset, "stages": preset} if preset else {}))
    parts = parts_of(Path(name))
    learned = [photo for part in parts.rounds for photo in part]
    both = (learned, parts.test)
    made = [
        Rows(extract([photo.path for photo in photos]), np.array([photo.label for photo in photos])) for photos in both
    ]
    return made[0], made[1]


def draw(rows: Rows, classes: NDArray[Any], n: int, rng: np.random.Generator) -> Rows:
    """So many of each of these classes, in mixed order."""
    kept = np.concatenate([rng.permutation(np.flatnonzero(rows.y == label))[:n] for label in classes])
    kept = rng.permutation(kept)
    return Rows(rows.X[kept], rows.y[kept])


def measure(learn: Rows, ask: Rows, classes: NDArray[Any], track: bool) -> dict[str, float]:
    """One model, in per cent."""
    model = vs.GaussianVoting(track=track)
    for start in range(0, len(learn.y), 10):
        model.partial_fit(learn.X[start : start + 10], learn.y[start : start + 10])
    is_known = np.isin(ask.y, classes)
    known, unknown = ask.X[is_known], ask.X[~is_known]
    shares, right = model.predict_proba(known), model.predict(known) == ask.y[is_known]
    found = {"right": right.mean(), "confident": shares.max(1).mean()}
    found["ECE"] = calibration_error(shares, right) / 100
    proba = model.predict_proba(unknown).max(1) if len(unknown) else np.zeros(0)
    found["unknown proba at 90"] = np.mean(proba >= SURE) if len(unknown) else np.nan
    if track and len(unknown):
        # Before version 0.3 there was no `confidence`: the largest probability was shown.
        confidence = getattr(model, "confidence", lambda X: model.predict_proba(X).max(1))
        sure, sure_of_unknown = confidence(known) >= SURE, confidence(unknown) >= SURE
        answered = (1 - UNKNOWN_SHARE) * sure.mean() + UNKNOWN_SHARE * sure_of_unknown.mean()
        found["answered"], found["unknown at 90"] = answered, sure_of_unknown.mean()
        found["right of answered"] = (1 - UNKNOWN_SHARE) * (sure & right).mean() / answered if answered else np.nan
        scores = model.unknown_score(known), model.unknown_score(unknown)
        found["AUROC"] = roc_auc_score(np.repeat([0, 1], [len(known), len(unknown)]), np.concatenate(scores))
        found["accepted"] = np.mean(scores[1] <= np.median(scores[0]))
    return {name: 100 * float(found.get(name, np.nan)) for name in MEASURED}


def measured(name: str, backbone: str, seeds: int, most_classes: int) -> Iterator[dict[str, Any]]:
    learn, ask = rows_of_set(name, backbone)
    labels = np.unique(learn.y)
    half = (len(labels) + 1) // 2
    for n_classes in sorted({2, 5, 10, 20, half} & set(range(2, min(half, most_classes) + 1))):
        for n in COUNTS:
            for track in (False, True):
                runs = []
                for seed in range(seeds):
                    rng = np.random.default_rng(seed)
                    classes = rng.permutation(labels)[:n_classes]
                    runs.append(measure(draw(learn, classes, n, rng), ask, classes, track))
                row: dict[str, Any] = {"photos": Path(name).name, "backbone": backbone, "track": track}
                row |= {"classes": n_classes, "photos a class": n, "version": vs.__version__, "command": COMMAND}
                for what in MEASURED:
                    values = np.array([run[what] for run in runs])
                    values = values[~np.isnan(values)]
                    if len(values):
                        row |= {what: round(float(values.mean()), 1), f"{what} +-": round(float(values.std()), 1)}
                yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="+", help="folders")
    parser.add_argument("--backbones", nargs="+", default=list(BACKBONES))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--most-classes", type=int, default=20)
    parser.add_argument("--out", type=Path, default=ACCURACY / "first_photos.csv")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.photos:
        for backbone in given.backbones:
            rows += measured(name, backbone, given.seeds, given.most_classes)
            show([row for row in rows if row["photos"] == Path(name).name and row["backbone"] == backbone])
            write(given.out, rows, [*FIELDS, "version", "command"])


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("photos", "backbone", "track", "classes", "a class", *MEASURED)
    for row in rows:
        about = [str(row[name]) for name in ("photos", "backbone", "track", "classes", "photos a class")]
        table.add_row(*about, *(str(row.get(name, "")) for name in MEASURED))
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
