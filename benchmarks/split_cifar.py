"""CandidatesVoting and its variants on Split CIFAR-100 (20 tasks of 5) and Split CIFAR-10 (5 of 2), one pass.

    python benchmarks/split_cifar.py --data-dir data        # writes results/split_cifar.csv, prints a table

Built-in backbone, Q = 2000, mini-batches of 10, tasks told; accuracy on all classes seen so far after each task;
Avg is their mean, Last the last. A seed decides the order of classes and images and all drawing. `--validate`
tests on a fifth of the training part instead: settings are chosen there, never on the test part.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import votestream as vs
from backbone_accuracy import DATA_SETS

ROOT = Path(__file__).resolve().parent.parent
N_TASKS = {"CIFAR-100": 20, "CIFAR-10": 5}
VARIANTS: dict[str, dict[str, Any]] = {
    "as the paper says": {"preset": "paper"},
    "as the paper says, without augmentation": {"preset": "paper", "augment": False},
    "our defaults": {},
    "our defaults, without augmentation": {"augment": False},
    "our defaults, beta 0.5": {"beta": 0.5},
    "our defaults, not centred": {"centre": False},
    "our defaults, 3 pairs": {"pairs": 3},
    "our defaults, tasks found": {"told": False},
}
DECISIONS = {"argmax": "largest logit", "nearest": "nearest exemplar", "vote": "vote"}
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(data_dir: Path, data_set: str, backbone: vs.Backbone) -> Parts:
    data = vs.load_data(DATA_SETS[data_set], data_dir).seen_through(backbone)
    assert isinstance(data.X, np.ndarray)
    assert isinstance(data.X_test, np.ndarray)
    assert data.y_test is not None
    return data.X, data.y, data.X_test, data.y_test


def held_out(X: np.ndarray, y: np.ndarray) -> Parts:
    """The training part cut in two: four fifths to learn from, a fifth to judge by."""
    order = np.random.default_rng(99).permutation(len(X))
    test, train = order[: len(X) // 5], order[len(X) // 5 :]
    return X[train], y[train], X[test], y[test]


def run(parts: Parts, n_tasks: int, seed: int, told: bool = True, **params: Any) -> dict[str, list[float]]:
    """Accuracies in per cent after each task, for each way to decide."""
    X, y, X_test, y_test = parts
    model = vs.CandidatesVoting(device="cpu", seed=seed, **params)
    accuracy: dict[str, list[float]] = {decide: [] for decide in DECISIONS}
    for task in vs.stream_from(X, y, test=(X_test, y_test), tasks=n_tasks, seed=seed):
        model.partial_fit(*task.train, task=task.number if told else None)
        samples, labels = task.test
        for decide, history in accuracy.items():
            answers = model.set_params(decide=decide).predict(samples)
            history.append(100 * float((answers == labels).mean()))
    return accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "split_cifar.csv")
    args = parser.parse_args()
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    rows = []
    for data_set, n_tasks in N_TASKS.items():
        parts = load(args.data_dir, data_set, backbone)
        parts = held_out(*parts[:2]) if args.validate else parts
        for variant, params in VARIANTS.items():
            scores: dict[str, list[tuple[float, float]]] = {decide: [] for decide in DECISIONS}
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                start = time.perf_counter()
                for decide, history in run(parts, n_tasks, seed, **params).items():
                    scores[decide].append((statistics.mean(history), history[-1]))
                    row = {"data set": data_set, "variant": variant, "decision": DECISIONS[decide], "seed": seed}
                    row |= {"Avg": round(scores[decide][-1][0], 2), "Last": round(history[-1], 2)}
                    row |= {"after each task": " ".join(f"{a:.2f}" for a in history)}
                    row |= {"seconds": round(time.perf_counter() - start, 1), "backbone": backbone.digest[:12]}
                    rows.append({**row, "version": vs.__version__, "command": shlex.join(["python", *sys.argv])})
            for decide, pairs in scores.items():
                means = [
                    f"{statistics.mean(values):.1f} ± {interval(values):.1f}" for values in zip(*pairs, strict=True)
                ]
                print(
                    f"{data_set:10} {variant:42} {DECISIONS[decide]:18} Avg {means[0]:>12}   Last {means[1]:>12}",
                    flush=True,
                )
    with args.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def interval(values: tuple[float, ...]) -> float:
    """Half of the 95 % interval of the mean, by Student's t."""
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}.get(len(values), 1.96)
    return t * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


if __name__ == "__main__":
    main()
