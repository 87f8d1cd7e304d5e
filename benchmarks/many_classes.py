"""How GaussianVoting predicts among 10,000 classes, beside streaming LDA: speed, memory, and what its shortlist misses.

    python benchmarks/many_classes.py                         # prints a table, writes results/speed/many_classes.csv
    python benchmarks/many_classes.py --features tiny cifar   # also on features in folders with X.npy and y.npy

Classes of real features are split by k-means until there are about as many. A fifth of their rows is held out, of which
10,000 are predicted. "share": rows a second in bulk over SLDA's, medians over rounds in one process. "first_s": the
first prediction after loading. "peak_MB": the most resident memory above what the import takes, with loading and a
bulk prediction, in a fresh process (Linux). "same": held-out rows with the same class as by the densities of all
classes. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

import votestream as vs
from learn_speed import about
from rows import SPEED, append, rows_of, write
from votestream.learners.ours import gaussian_predictor

PREDICTED = 10_000  # held-out rows that are predicted, at once
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  # rows to learn, their classes, rows to predict


def synthetic(n_classes: int, width: int = 160, n: int = 20) -> Parts:
    """Non-negative features, all classes mixed."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, width)).astype(np.float32)
    y = rng.permutation(np.arange(n_classes).repeat(n + 1))
    X = np.maximum(centres[y] + rng.normal(size=(len(y), width)).astype(np.float32), 0)
    return X[PREDICTED:], y[PREDICTED:], X[:PREDICTED]


def real(folder: Path, n_classes: int) -> Parts:
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    classes, parts = np.unique(y), np.zeros(len(y), np.int64)
    pieces = -(-n_classes // len(classes))
    for place, label in enumerate(classes):
        own = y == label
        split = KMeans(pieces, n_init=1, max_iter=10, random_state=0).fit_predict(np.sqrt(np.abs(X[own])))
        parts[own] = place * pieces + split
    order = np.random.default_rng(0).permutation(len(X))
    held, kept = order[: len(X) // 5], order[len(X) // 5 :]
    return X[kept], parts[kept], X[held][:PREDICTED]


def measure(parts: Parts, folder: Path, rounds: int) -> dict[str, Any]:
    X, y, queries = parts
    models = {name: vs.create(name, device="cpu") for name in ("gaussian_voting", "slda")}
    for model in models.values():
        for start in range(0, len(X), 1000):
            model.partial_fit(X[start : start + 1000], y[start : start + 1000])
    path, rows = folder / "model.safetensors", folder / "queries.npy"
    models["gaussian_voting"].save(path)
    np.save(rows, queries)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        first, peak = pool.apply(fresh, (path, rows))
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for model in models.values():
        model.predict(queries[:1])
    for _ in range(rounds):
        for name, model in models.items():
            begin = time.perf_counter()
            model.predict(queries)
            speeds[name].append(len(queries) / (time.perf_counter() - begin))
    ours, slda = (statistics.median(speeds[name]) for name in ("gaussian_voting", "slda"))
    size, gaussians = path.stat().st_size / 1e6, models["gaussian_voting"]
    return {
        "classes": len(gaussians.classes_),
        "samples": len(X),
        "rows_a_second": round(ours),
        "slda_rows_a_second": round(slda),
        "share": f"{ours / slda:.2f}",
        "first_s": f"{first:.2f}",
        "model_MB": f"{size:.1f}",
        "peak_MB": f"{peak:.0f}",
        "times_model": f"{peak / size:.2f}",
        "held_out": len(queries),
        "same": f"{(gaussians.predict(queries) == predicted_by_all(path, queries)).mean():.5f}",
    }


def fresh(path: Path, rows: Path) -> tuple[float, float]:
    """Seconds until the first prediction after loading, and megabytes at most above what the import takes."""
    queries, before = np.load(rows), resident("VmRSS")
    model = vs.load(path)
    begin = time.perf_counter()
    model.predict(queries[:1])
    first = time.perf_counter() - begin
    model.predict(queries)
    return first, resident("VmHWM") - before


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(field))


def predicted_by_all(path: Path, queries: np.ndarray) -> np.ndarray:
    """By the densities of all classes, whatever their number."""
    usual, gaussian_predictor.MANY = gaussian_predictor.MANY, 10**9
    try:
        return vs.load(path).predict(queries)
    finally:
        gaussian_predictor.MANY = usual


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", nargs="*", type=Path, default=[], help="folders with X.npy and y.npy")
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=SPEED / "many_classes.csv")
    args = parser.parse_args()
    sets = {"synthetic": lambda: synthetic(args.classes)}
    sets |= {folder.name: lambda folder=folder: real(folder, args.classes) for folder in args.features}
    write(args.out, [row for row in rows_of(args.out) if row["features"] not in sets])
    for name, parts in sets.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(parts(), Path(folder), args.rounds)
        append(args.out, {"features": name, **found, **about(f"{args.rounds} rounds")})
        print(name, *(f"{key} {value}" for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
