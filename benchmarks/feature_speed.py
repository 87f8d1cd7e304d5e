"""How fast the learners on frozen features learn and answer, side by side in one run.

    python benchmarks/feature_speed.py            # prints a table, writes results/speed/feature_speed.csv

The stream: 50,000 x 160 non-negative features, 100 classes in 20 tasks; 10,000 queries. "Streaming LDA, row by row" is
the update as it was published, a sample at a time in torch, which public libraries run. "Of its products": the time
that the matrix products of a batch prediction alone take, over the prediction's. Medians over rounds in which all take
turns; run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import votestream as vs
from learn_speed import N_TASKS, C, D, about, make_stream, seconds
from rows import SPEED, write

LEARNERS: dict[str, dict[str, Any]] = {
    "gaussian_voting": {},
    "ncm": {},
    "slda": {},
    "rls": {},
    "fecam": {},
    "knn": {"budget": 2000},
    "er_features": {"budget": 2000},
    "candidates_voting": {"budget": 2000},
}
ROW_BY_ROW = "streaming LDA, row by row"
COLUMNS = ("learn, 10 rows a call", "learn, a task a call", "predict 10,000 rows", "predict row by row")


def learn(name: str, X: np.ndarray, y: np.ndarray, rows_a_call: int) -> vs.Learner:
    model = vs.create(name, device="cpu", **LEARNERS[name])
    for i in range(0, len(X), rows_a_call):
        model.partial_fit(X[i : i + rows_a_call], y[i : i + rows_a_call])
    return model


def learn_row_by_row(X: np.ndarray, y: np.ndarray) -> torch.Tensor:
    """Hayes and Kanan's update: Sigma <- (n Sigma + n/(n+1) (x - mean)(x - mean)^T) / (n+1), then the class mean."""
    means, counts = torch.zeros(C, D), torch.zeros(C)
    sigma = torch.ones(D, D)
    for n, (x, label) in enumerate(zip(torch.from_numpy(X), y.tolist(), strict=True)):
        offset = x - means[label]
        sigma = (n * sigma + n / (n + 1) * torch.outer(offset, offset)) / (n + 1)
        means[label] += offset / (counts[label] + 1)
        counts[label] += 1
    return sigma


def one_by_one(model: vs.Learner, X: np.ndarray) -> None:
    for i in range(len(X)):
        model.predict(X[i : i + 1])


def products(model: Any) -> Callable[[np.ndarray], object] | None:
    """The matrix products of a batch prediction and nothing else."""
    if isinstance(model, vs.GaussianVoting):
        ready = model.prepared().predictor
        table = ready.chunks[0].table.reshape(D, -1)
        return lambda X: [(X[i : i + 300] @ ready.whiten) @ table for i in range(0, len(X), 300)]
    if isinstance(model, vs.StreamingLDA | vs.NearestClassMean):
        table = np.ascontiguousarray(model.class_means_.T.astype(np.float32))
        return lambda X: X @ table
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS))
    parser.add_argument("--out", type=Path, default=SPEED / "feature_speed.csv")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    X, y, queries = make_stream(50_000)
    X, queries, few = np.abs(X), np.abs(queries), np.abs(queries[:300])
    works: dict[tuple[str, str], tuple[int, Callable[[], object]]] = {}
    for name in args.learners:
        model, fast = learn(name, X, y, len(X) // N_TASKS), name not in ("knn", "er_features", "candidates_voting")
        part = len(X) if fast else len(X) // 5  # the slow ones show their speed on a fifth

        works[name, "learn, 10 rows a call"] = part, partial(learn, name, X[:part], y[:part], 10)
        works[name, "learn, a task a call"] = part, partial(learn, name, X[:part], y[:part], len(X) // N_TASKS)
        works[name, "predict 10,000 rows"] = len(queries), partial(model.predict, queries)
        works[name, "predict row by row"] = len(few), partial(one_by_one, model, few)
        if bare := products(model):
            works[name, "products alone"] = len(queries), partial(bare, queries)
    works[ROW_BY_ROW, "learn, 10 rows a call"] = 2000, partial(learn_row_by_row, X[:2000], y[:2000])

    times: dict[tuple[str, str], list[float]] = {what: [] for what in works}
    for _ in range(args.rounds):
        for what, (_, work) in works.items():
            time.sleep(0.1)  # threads that the one before left spinning go to sleep
            times[what].append(seconds(work))
    rate = {what: count / statistics.median(times[what]) for what, (count, _) in works.items()}
    peer = rate[ROW_BY_ROW, "learn, 10 rows a call"]
    rows = []
    for name in (*args.learners, ROW_BY_ROW):
        own = {what: speed for (learner, what), speed in rate.items() if learner == name}
        row = {"learner": name, **{f"{what}, a second": round(own[what]) if what in own else "" for what in COLUMNS}}
        row["learning, times row by row"] = f"{own['learn, 10 rows a call'] / peer:.0f}"
        alone = own.get("products alone")
        row["prediction, of its products"] = f"{own['predict 10,000 rows'] / alone:.2f}" if alone else ""
        rows.append(row)
        print("  ".join(f"{value:>12,}" if isinstance(value, int) else f"{value:>26}" for value in row.values()))
    settings = f"{len(X)} x {D}, {C} classes, {N_TASKS} tasks, {args.rounds} rounds, load {load:.1f} at the start"
    write(args.out, [{**row, **about(settings)} for row in rows])


if __name__ == "__main__":
    main()
