"""Test-then-train on the same rows: VoteStream's learners as river classifiers beside river's own models.

    pip install -c constraints-compat.txt river
    python benchmarks/river_prequential.py --data-dir DATA   # a table; writes results/accuracy/river_prequential.csv

Rows are CIFAR features of the built-in backbone, shuffled, as dicts. Each model predicts a row, then learns it.
Models take turns by the hundred rows, so that all meet the same machine; "rows a second" counts a prediction and a
lesson together. river's models have their default settings, those that need it behind river's StandardScaler. Run it
on an otherwise idle machine with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from river import forest, linear_model, naive_bayes, neighbors, preprocessing, tree

import votestream as vs
from cifar import DATA_SETS, load
from learn_speed import about
from rows import ACCURACY, append, rows_of, write
from votestream.compat.river import RiverClassifier

TURN = 100  # rows
OURS = ("gaussian_voting", "slda", "ncm", "rls", "candidates_voting")
RIVERS: dict[str, Callable[[], Any]] = {
    "GaussianNB": naive_bayes.GaussianNB,
    "StandardScaler | SoftmaxRegression": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    "StandardScaler | KNNClassifier": lambda: preprocessing.StandardScaler() | neighbors.KNNClassifier(),
    "HoeffdingTreeClassifier": tree.HoeffdingTreeClassifier,
    "ARFClassifier": lambda: forest.ARFClassifier(seed=0),
    "AMFClassifier": lambda: forest.AMFClassifier(seed=0),
}


def makers() -> dict[str, Callable[[], Any]]:
    ours = {name: lambda name=name: RiverClassifier(vs.create(name, device="cpu")) for name in OURS}
    return {**ours, **RIVERS}


def measure(models: dict[str, Any], X: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float]]:
    """Of each model: accuracy in percent, rows a second."""
    rows = [dict(enumerate(row)) for row in X.astype(np.float64).tolist()]
    labels = y.tolist()
    right, seconds = dict.fromkeys(models, 0), dict.fromkeys(models, 0.0)
    for start in range(0, len(rows), TURN):
        turn = list(zip(rows[start : start + TURN], labels[start : start + TURN], strict=True))
        for name, model in models.items():
            begin = time.perf_counter()
            for x, label in turn:
                right[name] += model.predict_one(x) == label
                model.learn_one(x, label)
            seconds[name] += time.perf_counter() - begin
    return {name: (100 * right[name] / len(rows), len(rows) / seconds[name]) for name in models}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where CIFAR lies")
    parser.add_argument("--data", nargs="*", choices=DATA_SETS, default=list(DATA_SETS), help="all, unless given")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=ACCURACY / "river_prequential.csv")
    args = parser.parse_args()
    write(args.out, [row for row in rows_of(args.out) if row["data"] not in args.data])
    for data in args.data:
        X, y, _, _ = load(args.data_dir, data, vs.create_backbone("reduced_resnet18"))
        some = np.random.default_rng(0).permutation(len(X))[: args.rows]
        found = measure({name: make() for name, make in makers().items()}, X[some], y[some])
        for name, (accuracy, speed) in found.items():
            row = {"data": data, "model": name, "rows": len(some), "accuracy": round(accuracy, 1)}
            row |= {"rows_a_second": round(speed), "of": "votestream" if name in OURS else f"river {version('river')}"}
            append(args.out, {**row, **about("one run, turns of 100 rows")})
            print(f"{data}: {name:36} {accuracy:5.1f} % {speed:7.0f} rows a second", flush=True)


if __name__ == "__main__":
    main()
