"""Learning in chunks that are merged (`vs.learn`) beside learning in sequence, on Split CIFAR-100 and Split CIFAR-10.

    python benchmarks/merged_learning.py --data-dir data                 # writes results/accuracy/merged_learning.csv
    python benchmarks/merged_learning.py --data-dir data --validation    # chunks of 128, 512 and 2048, to choose from

Accuracy at the end, and the share of the test images that are predicted as by the model that learned in sequence. To
compare with: the same, where the rows of each task come to the sequential learner in another order. "a job a task" is
how a model goes on from week to week: each task is a call of `vs.learn`. "one job" is all tasks in one call.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

import votestream as vs
from cifar import N_TASKS, Parts, held_out, load
from rows import ACCURACY, COMMAND, append

METHODS = ("gaussian_voting", "ncm", "slda", "rls", "fecam", "ranpac")
CHUNKS = {False: (512,), True: (128, 512, 2048)}
Tasks = list[tuple[np.ndarray, np.ndarray]]
Way = tuple[str, Any]  # how it is learned, and the size of chunks


def in_sequence(model: Any, tasks: Tasks) -> Any:
    for number, task in enumerate(tasks):
        model.partial_fit(*task, task=number)
    return model


def shuffled(tasks: Tasks, seed: int) -> Tasks:
    orders = [np.random.default_rng([seed, number]).permutation(len(y)) for number, (_, y) in enumerate(tasks)]
    return [(X[order], y[order]) for (X, y), order in zip(tasks, orders, strict=True)]


def job_a_task(model: Any, tasks: Tasks, chunk: int) -> Any:
    for number, task in enumerate(tasks):
        vs.learn(*task, model, task=number, chunk=chunk)
    return model


def one_job(model: Any, tasks: Tasks, chunk: int) -> Any:
    X, y = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    return vs.learn(X, y, model, chunk=chunk)


def measure(
    make: Callable[[], Any], tasks: Tasks, test: tuple[np.ndarray, np.ndarray], ways: dict[Way, Any]
) -> Iterator[tuple[Way, float, float]]:
    """Accuracy and share of predictions as in sequence of each way of learning, in percent."""
    before = None
    for way, learned in ways.items():
        predicted = learned(make(), tasks).predict(test[0])
        before = predicted if before is None else before
        yield way, 100 * float((predicted == test[1]).mean()), 100 * float((predicted == before).mean())


def ways_of(method: str, chunks: tuple[int, ...], seed: int) -> dict[Way, Any]:
    ways: dict[Way, Any] = {
        ("in sequence", ""): in_sequence,
        ("in sequence, reordered", ""): lambda model, tasks: in_sequence(model, shuffled(tasks, seed)),
    }
    for chunk in chunks:
        ways["a job a task", chunk] = lambda model, tasks, chunk=chunk: job_a_task(model, tasks, chunk)
        if method == "gaussian_voting":  # for the others the order of merging is a matter of rounding
            ways["one job", chunk] = lambda model, tasks, chunk=chunk: one_job(model, tasks, chunk)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where CIFAR lies")
    parser.add_argument("--validation", action="store_true", help="on a fifth of the training part")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=ACCURACY / "merged_learning.csv")
    args = parser.parse_args()
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    for data_set, n_tasks in N_TASKS.items():
        parts: Parts = load(args.data_dir, data_set, backbone)
        parts = held_out(*parts[:2]) if args.validation else parts
        for method in args.methods:
            scores: dict[Way, list[tuple[float, float]]] = {}
            for seed in args.seeds:
                tasks = cast("Tasks", [t.train for t in vs.stream_from(*parts[:2], tasks=n_tasks, seed=seed)])
                ways = ways_of(method, CHUNKS[args.validation], seed)
                made = measure(lambda: vs.create(method, device="cpu"), tasks, parts[2:], ways)  # noqa: B023
                for (way, chunk), last, same in made:
                    scores.setdefault((way, chunk), []).append((last, same))
                    row = {"data set": data_set, "method": method, "learned": way, "chunk": chunk, "seed": seed}
                    row |= {"Last": f"{last:.2f}", "predicted as in sequence": f"{same:.2f}"}
                    row["tested on"] = "a fifth of the training part" if args.validation else "the test part"
                    append(args.out, {**row, "version": vs.__version__, "command": COMMAND})
            for (way, chunk), runs in scores.items():
                last, same = (statistics.fmean(column) for column in zip(*runs, strict=True))
                print(f"{data_set:10} {method:16} {way:24} {chunk!s:5} Last {last:.2f}, as in sequence {same:.2f} %")


if __name__ == "__main__":
    main()
