"""How fast GaussianVoting learns where classes come mixed, one task after another, and row by row, in one run.

    python benchmarks/fold_speed.py             # prints a table, writes results/speed/fold_speed.csv

The stream: 50,000 x 160 features of 100 classes, 10 rows a call unless the row says otherwise. The kinds take
turns, round by round; the figure is the median round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import votestream as vs
from learn_speed import BATCH, N_TASKS, C, D, about, make_stream
from rows import SPEED, write


def rows_a_second(X: np.ndarray, y: np.ndarray, rows_a_call: int, block: int | None) -> float:
    model = vs.GaussianVoting(block=block, device="cpu")
    start = time.perf_counter()
    for i in range(0, len(X), rows_a_call):
        model.partial_fit(X[i : i + rows_a_call], y[i : i + rows_a_call])
    return len(X) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=SPEED / "fold_speed.csv")
    args = parser.parse_args()
    X, y, _ = make_stream(args.samples)
    n, task = len(X), len(X) // N_TASKS
    mixed = np.random.default_rng(0).permutation(n)
    few = mixed[: n // 5]
    kinds = {
        "all classes mixed": (X[mixed], y[mixed], BATCH, None),
        "all classes mixed, block=1": (X[few], y[few], BATCH, 1),
        "task by task": (X, y, BATCH, None),
        "task by task, a task a call": (X, y, task, None),
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(args.rounds):
        for name, kind in kinds.items():
            rates[name].append(rows_a_second(*kind))
    rows = [
        {"what": name, "per second": round(statistics.median(rate)), "best round": round(max(rate))}
        for name, rate in rates.items()
    ]
    for row in rows:
        print(f"{row['what']:32}{row['per second']:>10,}{row['best round']:>10,}")
    settings = f"{n} x {D}, {C} classes, {N_TASKS} tasks, batch {BATCH}, {args.rounds} rounds"
    write(args.out, [{**row, **about(settings)} for row in rows])


if __name__ == "__main__":
    main()
