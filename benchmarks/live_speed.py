"""How fast a model learns one sample and predicts one, in turns, beside predicting alone.

    python benchmarks/live_speed.py               # prints a table, writes results/speed/live_speed.csv
    python benchmarks/live_speed.py --busy        # the same while two other processes keep the cores busy

Test, then train: the protocol of stream learning, and what a live service does all day. Features are non-negative,
classes come mixed; the model has learned `samples` before. "share": pairs a second over answers a second, medians over
rounds in one process. Pairs of samples go over at least one refresh of what classes share. Run it on an otherwise
idle machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import votestream as vs
from learn_speed import about
from rows import SPEED, append, rows_of, write

LEARNERS = ("gaussian_voting", "slda", "ncm", "rls", "candidates_voting")
SIZES = ((160, 100), (160, 1000), (1280, 100), (1280, 1000))  # features, classes


def stream(n: int, width: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    centres = np.random.default_rng(0).normal(size=(n_classes, width)).astype(np.float32)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return np.maximum(centres[y] + rng.normal(size=(n, width)).astype(np.float32), 0), y


def measure(name: str, width: int, n_classes: int, samples: int, pairs: int, rounds: int) -> dict[str, Any]:
    model = vs.create(name, device="cpu")
    for start in range(0, samples, 1000):
        model.partial_fit(*stream(min(1000, samples - start), width, n_classes, 1 + start))
    X, y = stream(rounds * pairs, width, n_classes, 0)
    both, alone = [], []
    for start in range(0, len(X), pairs):
        model.predict(X[:1])
        begin = time.perf_counter()
        for i in range(start, start + pairs):
            model.predict(X[i : i + 1])
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        both.append(pairs / (time.perf_counter() - begin))
        model.predict(X[:1])
        begin = time.perf_counter()
        for i in range(start, start + pairs):
            model.predict(X[i : i + 1])
        alone.append(pairs / (time.perf_counter() - begin))
    pair, answer = statistics.median(both), statistics.median(alone)
    share = f"1/{answer / pair:.1f}"
    return {"pairs_a_second": round(pair), "answers_a_second": round(answer), "share": share}


@contextmanager
def busy_cores(n: int) -> Iterator[None]:
    """Other programs at work on every core."""
    others = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(n)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()


def _spin() -> None:
    while True:
        sum(range(10_000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learners", nargs="*", default=LEARNERS, help="all, unless given")
    parser.add_argument("--size", nargs=2, type=int, action="append", metavar=("D", "C"), help="features and classes")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="two other processes keep the cores busy")
    parser.add_argument("--out", type=Path, default=SPEED / "live_speed.csv")
    args = parser.parse_args()
    kept = [row for row in rows_of(args.out) if row["busy"] != str(args.busy) or row["learner"] not in args.learners]
    write(args.out, kept)
    with busy_cores(os.cpu_count() or 2 if args.busy else 0):
        for name in args.learners:
            for width, n_classes in args.size or SIZES:
                found = measure(name, width, n_classes, args.samples, args.pairs, args.rounds)
                row = {"learner": name, "features": width, "classes": n_classes, "samples": args.samples}
                append(args.out, {**row, "busy": args.busy, **found, **about(f"{args.rounds} x {args.pairs} pairs")})
                print(f"{name:18} D = {width:4}, C = {n_classes:4}: ", *found.values(), flush=True)


if __name__ == "__main__":
    main()
