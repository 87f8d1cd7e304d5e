"""Samples of classes never taught: how well `unknown_score` tells them, and how many are still named with confidence.

    python benchmarks/unknowns.py --data-dir data --photos flowers signs     # appends to results/accuracy/unknowns.csv
    python benchmarks/unknowns.py --backbone efficientnet_lite0 --features FOLDER --photos flowers signs --samples 60
    python benchmarks/unknowns.py --show

Near: 50 classes of CIFAR-100 are taught, the others are unknown. Far: the photos of `--photos` are unknown, in folders
`round1/CLASS/photo` and `test/CLASS/photo`. Photos: half of a set's classes are taught from its rounds, the others are
unknown; and the other sets' photos are far. AUROC in per cent, of `unknown_score` and of the largest probability;
"called unknown" is a score above 0.95, "named" a probability of at least 0.9 that is not called unknown.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import votestream as vs
from features import arguments, cifar100, tested_on
from rows import ACCURACY, COMMAND, append, rows_of, spread

FIELDS = (
    *(
        "known",
        "unknown",
        "learner",
        "backbone",
        "samples a class",
        "seed",
        "AUROC",
        "AUROC of the largest probability",
    ),
    *("known called unknown", "unknown called unknown", "unknown named", "unknown named without track"),
    *("tested on", "version", "command"),
)
STRANGE, SURE = 0.95, 0.9


def photos(folder: Path, backbone: vs.Backbone) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels, and whether a photo is of the test part."""
    paths = sorted(path for path in folder.glob("*/*/*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    labels = np.array([path.parent.name for path in paths])
    return backbone(paths), labels, np.array([path.parent.parent.name == "test" for path in paths])


def judged(model: Any, twin: Any, known: np.ndarray, unknown: np.ndarray) -> dict[str, Any]:
    """`twin` has learned the same without a track record."""
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    X = np.concatenate((known, unknown))
    score, sure, plain = model.unknown_score(X), model.predict_proba(X).max(1), twin.predict_proba(X).max(1)
    strange, new = score > STRANGE, truth == 1
    shares = {
        "AUROC": roc_auc_score(truth, score),
        "AUROC of the largest probability": roc_auc_score(truth, -plain),
        "known called unknown": strange[~new].mean(),
        "unknown called unknown": strange[new].mean(),
        "unknown named": ((sure >= SURE) & ~strange)[new].mean(),
        "unknown named without track": (plain >= SURE)[new].mean(),
    }
    return {name: round(100 * float(share), 2) for name, share in shares.items()}


def taught(name: str, seed: int, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """In the order of a stream of 10 tasks, or as many as there are classes for."""
    models = [vs.create(name, device="cpu", seed=seed, track=track) for track in (True, False)]
    n = len(np.unique(y))
    for task in vs.stream_from(X, y, tasks=10 if n % 10 == 0 else n, seed=seed):
        for model in models:
            model.partial_fit(*task.train, task=task.number)
    return models[0], models[1]


def few(y: np.ndarray, classes: np.ndarray, samples: int | None) -> np.ndarray:
    return np.concatenate([np.flatnonzero(y == label)[:samples] for label in classes])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--photos", nargs="*", type=Path, default=[], help="folders of photos")
    parser.add_argument("--samples", type=int, help="samples a class of CIFAR-100; all unless given")
    parser.add_argument("--learner", default="ncm", help="the scores are the same for all, the probabilities are not")
    parser.add_argument("--only-photos", action="store_true", help="leave out CIFAR-100")
    parser.add_argument("--seeds", nargs="+", type=int, default=range(5))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if not given.show:
        measure(given)
    show(rows_of(ACCURACY / "unknowns.csv"))


def measure(given: argparse.Namespace) -> None:
    backbone = vs.create_backbone(given.backbone)
    sets = {folder.name: photos(folder, backbone) for folder in given.photos}

    def keep(
        known: str, unknown: str, seed: int, samples: Any, models: tuple[Any, Any], A: np.ndarray, B: np.ndarray
    ) -> None:
        row = {"known": known, "unknown": unknown, "learner": given.learner, "backbone": given.backbone}
        row |= {"samples a class": samples, "seed": seed, **judged(models[0], models[1], A, B)}
        row |= {"tested on": tested_on(given), "version": vs.__version__, "command": COMMAND}
        append(ACCURACY / "unknowns.csv", row, FIELDS)

    X, y, X_test, y_test = (np.empty(0),) * 4 if given.only_photos else cifar100(given)
    for seed in [] if given.only_photos else given.seeds:
        known = np.random.default_rng(seed).permutation(np.unique(y))[:50]
        rows = few(y, known, given.samples)
        models = taught(given.learner, seed, X[rows], y[rows])
        own, samples = np.isin(y_test, known), given.samples or "all"
        keep("CIFAR-100, 50 classes", "its other classes", seed, samples, models, X_test[own], X_test[~own])
        for name, (F, _, _) in sets.items():
            keep("CIFAR-100, 50 classes", f"{name} photos", seed, samples, models, X_test[own], F)
    for seed in given.seeds:
        for name, (F, labels, test) in sets.items():
            half = np.random.default_rng(seed).permutation(np.unique(labels))[: (len(np.unique(labels)) + 1) // 2]
            own = np.isin(labels, half)
            models = taught(given.learner, seed, F[own & ~test], labels[own & ~test])
            others = {f"the other {name}": F[~own & test]}
            others |= {f"{other} photos": part[0] for other, part in sets.items() if other != name}
            for what, unknown in others.items():
                keep(f"{name} photos, half the classes", what, seed, "all", models, F[own & test], unknown)


def show(rows: list[dict[str, str]]) -> None:
    keys = ("known", "unknown", "learner", "backbone", "samples a class", "tested on")
    print("| known | unknown | learner | backbone | samples | tested on | " + " | ".join(FIELDS[6:12]) + " |")
    print("|---" * 12 + "|")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        own = [row for row in rows if tuple(row[name] for name in keys) == key]
        print(f"| {' | '.join(key)} | " + " | ".join(spread([float(r[c]) for r in own]) for c in FIELDS[6:12]) + " |")


if __name__ == "__main__":
    main()
