"""What a stream costs: loading CIFAR-100, and going through 50,000 cached features in batches of 10.

    python benchmarks/stream_speed.py --data-dir data        # writes results/speed/stream_speed.csv, prints the rows

Loading is timed in a process of its own each round, files in the page cache; its memory is how far the process's
peak rises above what it was after the imports. The overhead of a stream is the time of an empty loop over all its
batches, tasks included; beside it stands the time of slicing the same features with nothing around, in order.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import votestream as vs
from rows import COMMAND, SPEED, write

LIMITS = {"load CIFAR-100": 2.0, "load CIFAR-100, memory": 400.0, "go through a stream": 0.3}


def peak_mb() -> float:
    scale = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def load_once(data_dir: Path) -> None:
    """In a process of its own: seconds, and megabytes above those of the imports."""
    load = vs.load_data  # the imports behind it are not the loader's
    before, start = peak_mb(), time.perf_counter()
    load("cifar100", data_dir)
    print(time.perf_counter() - start, peak_mb() - before)


def seconds(work: Callable[[], int], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        assert work() == 50_000
        times.append(time.perf_counter() - start)
    return times


def measure(data_dir: Path, folder: Path, rounds: int) -> dict[str, tuple[list[float], str]]:
    command = [sys.executable, __file__, "--data-dir", str(data_dir), "--load-once"]
    loads = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(rounds)]
    rng = np.random.default_rng(0)
    np.save(folder / "features.npy", rng.normal(size=(50_000, 160)).astype(np.float32))
    X, y = np.asarray(np.load(folder / "features.npy", mmap_mode="r")), rng.permutation(50_000) % 100  # as the cache's
    stream = vs.stream_from(X, y, tasks=20)
    life = vs.task_free(vs.repeated(vs.blurry(stream)), 20)
    return {
        "load CIFAR-100": ([float(each[0]) for each in loads], "s"),
        "load CIFAR-100, memory": ([float(each[1]) for each in loads], "MB"),
        "make a stream of 20 tasks": (
            seconds(lambda: vs.stream_from(X, y, tasks=20).n_samples, rounds),
            "s",
        ),
        "go through a stream": (seconds(lambda: sum(len(y) for task in stream for x, y in task), rounds), "s"),
        "go through a stream, blurry, repeated, task-free": (
            seconds(lambda: sum(len(y) for task in life for x, y in task), rounds),
            "s",
        ),
        "slice the features, no stream": (
            seconds(lambda: sum(len(X[i : i + 10]) for i in range(0, 50_000, 10)), rounds),
            "s",
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--load-once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=SPEED / "stream_speed.csv")
    args = parser.parse_args()
    if args.load_once:
        load_once(args.data_dir)
        return
    load = f"{os.getloadavg()[0]:.1f}"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(args.data_dir, Path(folder), args.rounds)
    for what, (values, unit) in measured.items():
        row = {"what": what, "median": f"{statistics.median(values):.3f}", "worst": f"{max(values):.3f}", "unit": unit}
        row |= {"limit": str(LIMITS.get(what, "")), "rounds": str(args.rounds), "load before": load}
        row |= {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version()}
        row |= {"numpy": np.__version__, "version": vs.__version__, "command": COMMAND}
        rows.append(row)
        print(f"{what:50} median {row['median']:>8} {unit:2}  worst {row['worst']:>8}  limit {row['limit']}")
    write(args.out, rows)


if __name__ == "__main__":
    main()
