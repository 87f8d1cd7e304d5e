"""How good models of photos are, on any folder of class folders: accuracy, calibration and unknowns of each backbone.

    python benchmarks/photo_folders.py flowers signs                     # rows to results/accuracy/photo_folders.csv
    python benchmarks/photo_folders.py MY_PHOTOS --out my_photos.csv
    python benchmarks/photo_folders.py MY_PHOTOS --backbones auto timm:vit_small_patch14_dinov2.lvd142m
    python benchmarks/photo_folders.py --show                            # the rows there are, as in docs/photos.md

A folder holds one folder of photos for each class, and a share of each class is drawn for the test; or it holds `train`
and `test`, or rounds (`round1`, `round2`, ...) and `test`, with class folders in each. The classes are taught in rounds
by the code of `votestream learn`, and tested after each round.

Accuracy is that of the last round's model on the test photos, with Wilson's 95 % interval; ECE the expected calibration
error (15 bins). Unknowns: how well `unknown_score` tells photos of classes never taught. "False alarms" are known ones
that are called unknown as `votestream predict` does it, "found" are unknown ones; once for half of the classes, in a
model that is taught the other half, and once for the test photos of the other folders given. All in per cent.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import votestream as vs
from calibration import calibration_error
from photo_parts import Parts, parts_of
from rows import ACCURACY, COMMAND, rows_of, write
from votestream.common.exits import Refused
from votestream.images.class_folders import some
from votestream.model_store.model_file import open_model
from votestream.model_store.paths import ModelStoreError
from votestream.photos.decode import decode_photos
from votestream.photos.photo_list import Photo, PhotoList
from votestream.photos.training import learn_photos
from votestream.tracking.report import Score

BACKBONES = (
    *("auto", "reduced_resnet18", "efficientnet_lite0", "efficientnet_lite0+quick", "efficientnet_lite0+careful"),
)
FIELDS = [
    *("photos", "classes", "taught", "backbone", "is", "features", "accuracy", "low", "high", "tested", "ECE"),
    *("after each round", "half: AUROC", "half: false alarms", "half: found"),
    *("others: AUROC", "others: false alarms", "others: found", "model bytes", "seconds"),
    *("learner", "seed", "version", "command"),
]
STRANGE = 0.95  # unknown_score above which `votestream predict` says unknown


class Photos(NamedTuple):
    """Features of photos, and their labels."""

    features: np.ndarray
    labels: np.ndarray


def settings_of(backbone: str, given: argparse.Namespace) -> dict[str, Any]:
    """As `votestream learn` has them."""
    name, _, look = backbone.partition("+")
    settings = {"backbone": None if name == "auto" else name, "views": look or None, "stages": look or None}
    return settings | {"learner": given.learner, "budget": None, "device": given.device, "max_pixels": None}


def digest_of(parts: Parts, backbone: str, given: argparse.Namespace) -> str:
    """Of the backbone that a new model gets; "auto" is one of the others."""
    photos = [photo.path for photo in parts.rounds[0]]
    return open_model(Path("none yet"), settings_of(backbone, given), given.seed, photos).backbone.digest


class Judge:
    """One set of photos through one backbone."""

    def __init__(self, parts: Parts, backbone: str, given: argparse.Namespace) -> None:
        self.parts = parts
        self.problems: list[str] = []
        self.settings, self.seed = settings_of(backbone, given), given.seed
        self.accuracies: list[float] = []
        self.test: Photos | None = None
        self.model = self._taught(parts.rounds, self._after_round)

    def _taught(self, rounds: list[list[Photo]], after: Any = None) -> vs.ImageClassifier:
        model: vs.ImageClassifier | None = None
        with tempfile.TemporaryDirectory() as place:
            for number, photos in enumerate(rounds, 1):
                path = Path(place, "model.safetensors")
                lesson = learn_photos(path, PhotoList(photos), self.settings, f"round {number}", self.seed, 0)
                self.problems += lesson.problems
                if lesson.interrupted:
                    raise KeyboardInterrupt
                model = lesson.model
                if model is not None and after is not None:
                    after(model)
        if model is None:
            raise ModelStoreError(f"No photo of {self.parts.name} could be read.")
        return model

    def _after_round(self, model: vs.ImageClassifier) -> None:
        test = self._test(model.backbone_)
        known = np.isin(test.labels, model.classes_)
        right = model.learner_.predict(test.features[known]) == test.labels[known]
        self.accuracies.append(100 * float(right.mean()) if len(right) else float("nan"))

    def _test(self, backbone: vs.Backbone) -> Photos:
        if self.test is None:
            self.test = self.seen(backbone, self.parts.test)
        return self.test

    def seen(self, backbone: vs.Backbone, photos: Sequence[Photo]) -> Photos:
        """What the backbone makes of photos; those that cannot be read are named and left out."""
        features: list[np.ndarray] = []
        batch: list[np.ndarray] = []
        labels = []
        for reading in decode_photos(photos, backbone):
            if reading.pixels is None:
                self.problems.append(str(reading.problem))
                continue
            labels.append(reading.photo.label)
            batch.append(reading.pixels)
            if len(batch) == backbone.batch_size:
                features.append(backbone.of_prepared(np.stack(batch)))
                batch = []
        if batch:
            features.append(backbone.of_prepared(np.stack(batch)))
        if not features:
            raise ModelStoreError(f"None of the photos to test on could be read: {some(self.problems, 3)}")
        return Photos(np.concatenate(features), np.array(labels))

    def accuracy(self) -> tuple[Score, float]:
        test = self._test(self.model.backbone_)
        shares = self.model.learner_.predict_proba(test.features)
        right = self.model.classes_[shares.argmax(1)] == test.labels
        return Score.of(len(right), int(right.sum())), calibration_error(shares, right)

    def half(self) -> dict[str, str]:
        """Half of the classes are taught, the others are unknown."""
        classes = self.parts.classes
        if len(classes) < 3:
            return {}
        order = np.random.default_rng(self.seed).permutation(len(classes))
        known = {classes[i] for i in order[: (len(classes) + 1) // 2]}
        model, test = self._taught(self.parts.only(known)), self._test(self.model.backbone_)
        own = np.isin(test.labels, sorted(known))
        return unknowns("half", model, test.features[own], test.features[~own])

    def others(self, photos: list[Photo]) -> dict[str, str]:
        """The photos of other sets are unknown."""
        if not photos:
            return {}
        found = self.seen(self.model.backbone_, photos)
        return unknowns("others", self.model, self._test(self.model.backbone_).features, found.features)


def unknowns(what: str, model: vs.ImageClassifier, known: np.ndarray, unknown: np.ndarray) -> dict[str, str]:
    if not (len(known) and len(unknown) and getattr(model.learner_, "track", False)):
        return {}
    a, b = (model.learner_.unknown_score(features) for features in (known, unknown))
    truth = np.repeat([0, 1], [len(a), len(b)])
    found = {
        "AUROC": roc_auc_score(truth, np.concatenate((a, b))),
        "false alarms": (a > STRANGE).mean(),
        "found": (b > STRANGE).mean(),
    }
    return {f"{what}: {name}": f"{100 * float(share):.1f}" for name, share in found.items()}


def judged(parts: Parts, backbone: str, others: list[Photo], given: argparse.Namespace) -> dict[str, Any]:
    start = time.perf_counter()
    judge = Judge(parts, backbone, given)
    score, error = judge.accuracy()
    eyes = judge.model.backbone_
    row: dict[str, Any] = {
        "photos": parts.name,
        "classes": len(parts.classes),
        "taught": int(judge.model.class_counts_.sum()),
        "backbone": backbone,
        "is": eyes.name
        + ("" if eyes.stages is None else f", stages {','.join(eyes.stages)}")
        + ("" if eyes.plain else f", views {','.join(map(str, eyes.views))}"),
        "features": eyes.feature_dim,
        "accuracy": f"{100 * (score.accuracy or 0):.1f}",
        "low": f"{100 * (score.low or 0):.1f}",
        "high": f"{100 * (score.high or 0):.1f}",
        "tested": score.tested,
        "ECE": f"{error:.1f}",
        "after each round": " ".join(f"{value:.1f}" for value in judge.accuracies),
        **judge.half(),
        **judge.others(others),
        "model bytes": judge.model.memory_bytes(),
        "learner": judge.model.learner_.name,
        "seed": given.seed,
    }
    for problem in dict.fromkeys(judge.problems):
        print(f"Skipped: {problem}", file=sys.stderr)
    row |= {"seconds": f"{time.perf_counter() - start:.0f}", "version": vs.__version__, "command": COMMAND}
    return {name: row.get(name, "") for name in FIELDS}


def show(rows: list[dict[str, Any]], console: Console) -> None:
    for name in dict.fromkeys(row["photos"] for row in rows):
        own = [row for row in rows if row["photos"] == name]
        title = f"{name}: {own[0]['classes']} classes, {own[0]['taught']} photos taught, {own[0]['tested']} tested"
        table = Table(title=title, title_justify="left")
        for column in ("backbone", "accuracy (95 % interval)", "after each round", "ECE"):
            table.add_column(column)
        for what in ("half the classes unknown", "other photos unknown"):
            table.add_column(f"{what}: AUROC, false alarms, found")
        for row in own:
            accuracy = f"{row['accuracy']} ({row['low']} to {row['high']})"
            told = (
                ", ".join(row[f"{what}: {n}"] for n in ("AUROC", "false alarms", "found"))
                for what in ("half", "others")
            )
            table.add_row(
                row["backbone"], accuracy, row["after each round"], row["ECE"], *(text.strip(", ") for text in told)
            )
        console.print(table)


def as_markdown(rows: list[dict[str, str]]) -> str:
    """As in docs/photos.md: AUROC, and in brackets known and unknown photos that are called unknown."""

    def told(row: dict[str, str], what: str) -> str:
        auroc, alarms, found = (row[f"{what}: {name}"] for name in ("AUROC", "false alarms", "found"))
        return f"{auroc} ({alarms}, {found})" if auroc else ""

    lines = ["| photos | backbone | accuracy | ECE | other half unknown | other set unknown |", "|---" * 6 + "|"]
    sets = list(dict.fromkeys(row["photos"] for row in rows))
    for row in sorted(rows, key=lambda row: sets.index(row["photos"])):
        accuracy = f"{row['accuracy']} ({row['low']} to {row['high']})"
        cells = row["photos"], f"`{row['backbone']}`", accuracy, row["ECE"], told(row, "half"), told(row, "others")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--show", action="store_true", help="only print the rows of --out, as Markdown")
    parser.add_argument(
        "--backbones", nargs="+", default=BACKBONES, help="names of backbones, with +quick or +careful behind them"
    )
    parser.add_argument("--learner", help="gaussian_voting unless given")
    parser.add_argument("--rounds", type=int, default=3, help="where the folder has none")
    parser.add_argument(
        "--test-share", type=float, default=0.3, help="of each class, where the folder has no test part"
    )
    parser.add_argument("--seed", type=int, default=0, help="of split, rounds, order and model")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--out", type=Path, default=ACCURACY / "photo_folders.csv", help="rows are added or replaced there"
    )
    given = parser.parse_args(arguments)
    if given.show:
        print(as_markdown(rows_of(given.out)))
        return
    if not given.folders:
        parser.error("name a folder of photos, one folder in it for each class")
    if given.rounds < 1 or not 0 < given.test_share < 1:
        parser.error("--rounds must be at least 1, --test-share between 0 and 1")
    try:
        sets = [parts_of(folder, given.rounds, given.test_share, given.seed) for folder in given.folders]
        for text in (f"{parts.name}: {note}" for parts in sets for note in parts.notes):
            print(f"note: {text}", file=sys.stderr)
        rows: list[dict[str, Any]] = []
        for parts in sets:
            others = [photo for other in sets if other is not parts for photo in other.test]
            done: dict[str, dict[str, Any]] = {}
            for backbone in given.backbones:
                digest = digest_of(parts, backbone, given)
                if digest not in done:
                    done[digest] = judged(parts, backbone, others, given)
                rows.append({**done[digest], "backbone": backbone})
                print(f"{parts.name}, {backbone}: {rows[-1]['accuracy']} %", file=sys.stderr)
                keep(rows[-1], given.out)
    except Refused as problem:
        sys.exit(f"photo_folders: {problem}")
    show(rows, Console(width=150))


def keep(row: dict[str, Any], path: Path) -> None:
    """Add a row to the file, or put it in the place of the one of the same photos, backbone, learner and seed."""
    names = ("photos", "backbone", "learner", "seed")
    others = [old for old in rows_of(path) if any(old[name] != str(row[name]) for name in names)]
    write(path, [*others, row], FIELDS)


if __name__ == "__main__":
    main()
