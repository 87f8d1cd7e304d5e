"""Every learner on frozen features at the same bytes: Split CIFAR-100 (20 tasks of 5) and Split CIFAR-10 (5 of 2).

    python benchmarks/frozen_features.py --data-dir data                # appends to results/frozen_features.csv
    python benchmarks/frozen_features.py --show                         # prints the tables of what is there
    python benchmarks/frozen_features.py --data-dir data --backbone efficientnet_lite0 --data-sets CIFAR-100 --last

Budgets are those of Q = 1000, 2000, 5000 and 10000 features in float32: exemplars for learners that keep some, as many
bytes for GaussianVoting, as many random features as fit for RanPAC. Learners whose size follows from the data
run once. One pass, tasks told, five seeds (order of classes and images). `--last` asks only after the last task.
A run that the file already has is not run again; `--validate` tests on a fifth of the training part instead.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import votestream as vs
from rows import append, rows_of
from split_cifar import N_TASKS, ROOT, Parts, held_out, interval, load

BUDGETS = (1000, 2000, 5000, 10_000)
BY_EXEMPLARS = {
    "candidates_voting": {},
    "candidates_voting, 3 pairs": {"pairs": 3},
    "knn": {},
    "er_features": {},
    "er_features, 3 pairs": {"pairs": 3},
}
BY_CLASSES = ("ncm", "slda", "rls", "fecam", "joint")  # their size follows from the number of classes, or of samples
SLOW_TO_ASK = ("joint", "ranpac")  # asked after the last task only
FIELDS = (
    *("data set", "backbone", "learner", "Q", "settings", "seed", "Avg", "Last", "bytes", "after each task"),
    *("tested on", "version", "command"),
)


def runs(width: int) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    """Name, budget and settings of every learner."""
    for name in BY_CLASSES:
        yield name, None, {}
    yield "gaussian_voting", None, {}
    for Q in BUDGETS:
        room = 4 * width * Q
        yield "gaussian_voting", Q, {"budget_bytes": room}
        yield "ranpac", Q, {"projection": random_features(room, width)}
        for name, params in BY_EXEMPLARS.items():
            yield name, Q, {"budget": Q, **params}
    yield "ranpac", None, {}


def random_features(room: int, width: int) -> int:
    """The largest M whose sums, 8 M (M + C) bytes for 100 classes, projection and waiting rows fit."""
    M = 1
    while 8 * (M + 1) * (M + 101) + 4 * width * (M + 1) + 500 * (4 * width + 8) <= room:
        M += 1
    return M


def run(
    parts: Parts, n_tasks: int, seed: int, name: str, params: dict[str, Any], last: bool
) -> tuple[list[float], int]:
    """Accuracies in per cent after each task, or the last, and the bytes kept."""
    X, y, X_test, y_test = parts
    model = vs.create(name.partition(",")[0], device="cpu", seed=seed, **params)
    history = []
    for task in vs.stream_from(X, y, test=(X_test, y_test), tasks=n_tasks, seed=seed):
        model.partial_fit(*task.train, task=task.number)
        if not last or task.number == n_tasks - 1:
            samples, labels = task.test
            history.append(100 * float((model.predict(samples) == labels).mean()))
    return history, model.memory_bytes()


def measure(args: argparse.Namespace) -> None:
    backbone = vs.create_backbone(args.backbone, device="cpu")
    done = {key(row) for row in rows_of(args.out)}
    for data_set in args.data_sets:
        parts = load(args.data_dir, data_set, backbone)
        parts = held_out(*parts[:2]) if args.validate else parts
        for name, Q, params in runs(parts[0].shape[1]):
            if args.learners and name.partition(",")[0] not in args.learners:
                continue
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                row: dict[str, Any] = {"data set": data_set, "backbone": f"{args.backbone} {backbone.digest[:12]}"}
                row |= {"learner": name, "Q": Q or "", "seed": seed, "version": vs.__version__}
                row |= {"tested on": "a fifth of the training part" if args.validate else "the test part"}
                if key(row) in done:
                    continue
                last = args.last or name in SLOW_TO_ASK
                history, size = run(parts, N_TASKS[data_set], seed, name, params, last)
                row |= {"settings": " ".join(f"{k}={v}" for k, v in params.items()), "bytes": size}
                row |= {"Last": f"{history[-1]:.2f}", "Avg": "" if last else f"{statistics.mean(history):.2f}"}
                row |= {"after each task": "" if last else " ".join(f"{a:.2f}" for a in history)}
                row |= {"command": shlex.join(["python", *sys.argv])}
                append(args.out, row, FIELDS)
                print(data_set, name, Q or "", "seed", seed, row["Avg"], row["Last"], size, flush=True)


def key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("data set", "backbone", "learner", "Q", "seed", "tested on"))


def show(path: Path) -> None:
    tables: dict[tuple[str, ...], dict[tuple[str, str], list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows_of(path):
        tables[row["data set"], row["backbone"], row["tested on"]][row["learner"], row["Q"]].append(row)
    for title, cells in tables.items():
        print("\n" + ", ".join(title))
        print(f"{'learner':28}{'Q':>6}{'bytes':>12}{'seeds':>6}   Avg            Last")
        order = sorted(cells.items(), key=lambda cell: (int(cell[0][1] or 0), -mean(cell[1], "Last")))
        for (learner, Q), rows in order:
            size = round(statistics.mean(int(row["bytes"]) for row in rows))
            print(f"{learner:28}{Q:>6}{size:>12,}{len(rows):>6}   {spread(rows, 'Avg'):14} {spread(rows, 'Last')}")


def mean(rows: list[dict[str, str]], column: str) -> float:
    return statistics.mean(float(row[column]) for row in rows)


def spread(rows: list[dict[str, str]], column: str) -> str:
    values = tuple(float(row[column]) for row in rows if row[column])
    return f"{statistics.mean(values):.1f} ± {interval(values):.1f}" if values else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--backbone", default="reduced_resnet18")
    parser.add_argument("--data-sets", nargs="+", default=list(N_TASKS), choices=list(N_TASKS))
    parser.add_argument("--learners", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "frozen_features.csv")
    args = parser.parse_args()
    if not args.show:
        if args.data_dir is None:
            parser.error("--data-dir says where the data sets are")
        measure(args)
    show(args.out)


if __name__ == "__main__":
    main()
