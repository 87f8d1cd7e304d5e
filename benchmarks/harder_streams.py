"""Learners on frozen features where streams are as they are in life: CIFAR-100 through the built-in backbone.

    python benchmarks/harder_streams.py --data-dir data          # appends to results/accuracy/harder_streams.csv
    python benchmarks/harder_streams.py --show

Accuracy on all 100 classes at the end, one pass, five seeds. Learners that keep exemplars keep 2,000; none is told
the tasks, except on "split". A run that the file already has is not run again.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import votestream as vs
from cifar import Parts, held_out, load
from rows import ACCURACY, COMMAND, append, rows_of, spread

LEARNERS = ("gaussian_voting", "fecam", "slda", "ncm", "candidates_voting", "knn", "er_features")
FIELDS = ("stream", "learner", "seed", "Last", "samples", "bytes", "backbone", "tested on", "version", "command")


def split(X: np.ndarray, y: np.ndarray, seed: int, batch: int = 10) -> vs.Stream:
    return vs.stream_from(X, y, tasks=20, seed=seed, batch=batch)


def few(n: int) -> Callable[..., vs.Stream]:
    """The same with n samples a class."""

    def cut(X: np.ndarray, y: np.ndarray, seed: int) -> vs.Stream:
        order = np.random.default_rng(seed).permutation(len(y))
        rows = np.concatenate([order[y[order] == label][:n] for label in np.unique(y)])
        return vs.task_free(split(X[rows], y[rows], seed))

    return cut


STREAMS: dict[str, Callable[..., vs.Stream]] = {
    "split: 20 tasks of 5 classes": split,
    "tasks not told": lambda X, y, seed: vs.task_free(split(X, y, seed)),
    "one class at a time": lambda X, y, seed: vs.task_free(vs.one_class_at_a_time(split(X, y, seed))),
    "blurry: 20 % with the neighbours": lambda X, y, seed: vs.task_free(vs.blurry(split(X, y, seed), 0.2)),
    "returning: 30 % come later": lambda X, y, seed: vs.task_free(vs.repeated(split(X, y, seed), 0.3)),
    "long tail: 500 down to 5 a class": lambda X, y, seed: vs.task_free(vs.long_tail(split(X, y, seed), 100)),
    "20 samples a class": few(20),
    "5 samples a class": few(5),
    "1 sample a class": few(1),
    "one sample a call": lambda X, y, seed: vs.task_free(split(X, y, seed, batch=1)),
}


def run(name: str, stream: vs.Stream, parts: Parts, seed: int) -> tuple[float, int, int]:
    """Accuracy in per cent, samples seen, bytes kept."""
    model, seen = vs.create(name, device="cpu", seed=seed), 0
    for task in stream:
        for X, y in task:
            model.partial_fit(X, y, task=task.number if stream.told else None)
            seen += len(y)
    _, _, X_test, y_test = parts
    return 100 * float((model.predict(X_test) == y_test).mean()), seen, model.memory_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--validate", action="store_true", help="test on a fifth of the training part instead")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--out", type=Path, default=ACCURACY / "harder_streams.csv")
    args = parser.parse_args()
    if not args.show:
        if args.data_dir is None:
            parser.error("--data-dir says where the data sets are")
        measure(args)
    show(args.out)


def measure(args: argparse.Namespace) -> None:
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    parts = load(args.data_dir, "CIFAR-100", backbone)
    parts = held_out(*parts[:2]) if args.validate else parts
    about = {"backbone": backbone.digest[:12], "version": vs.__version__, "command": COMMAND}
    about["tested on"] = "a fifth of the training part" if args.validate else "the test part"
    done = {key(row) for row in rows_of(args.out)}
    for title, make in STREAMS.items():
        for name in args.learners:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                row: dict[str, Any] = {**about, "stream": title, "learner": name, "seed": seed}
                if key(row) not in done:
                    accuracy, samples, size = run(name, make(*parts[:2], seed), parts, seed)
                    append(args.out, {**row, "Last": f"{accuracy:.2f}", "samples": samples, "bytes": size}, FIELDS)
                    print(title, name, "seed", seed, f"{accuracy:.2f}", flush=True)


def key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("stream", "learner", "seed", "backbone", "tested on"))


def show(path: Path) -> None:
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows_of(path):
        cells[row["stream"], row["learner"]].append(float(row["Last"]))
    first = next(iter(cells))[0]
    learners = sorted({learner for _, learner in cells}, key=lambda name: -statistics.fmean(cells[first, name]))
    print("| stream | " + " | ".join(learners) + " |")
    print("|---" * (len(learners) + 1) + "|")
    for title in dict.fromkeys(stream for stream, _ in cells):
        print(f"| {title} | " + " | ".join(spread(cells[title, name]) for name in learners) + " |")


if __name__ == "__main__":
    main()
