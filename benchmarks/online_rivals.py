"""The online rivals, which train the whole network, on Split CIFAR-10 (5 tasks of 2), one pass over 50,000 images.

    python benchmarks/online_rivals.py --data-dir data --seeds 0 1 2 --jobs 6       # all methods
    python benchmarks/online_rivals.py er mir --data-dir data --validate --seeds 9 --lr 0.01 0.03 0.1

Built-in backbone, Q = 1000, mini-batches of 10, 10 replayed, tasks told; accuracy on all classes seen so far after
each task; Avg is their mean, Last the last. A seed decides the order of classes and images and all drawing.
`finetune` is er without replay. `--validate` tests on a fifth of the training part instead: settings such as the
learning rate are chosen there, on seeds of their own, never on the test part. A row is appended to `--out` as each run
ends; with `--jobs` several run at once, sharing the GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import statistics
import sys
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import votestream as vs
from backbone_accuracy import DATA_SETS
from rows import append
from split_cifar import N_TASKS, Parts, held_out, interval

ROOT = Path(__file__).resolve().parent.parent
RIVALS = [m for m in ("er", "agem", "mir", "gss", "aser", "gdumb") if m in vs.list_learners()]
METHODS = ["finetune", *RIVALS]


class Run(NamedTuple):
    """One method on one stream, all that decides its outcome."""

    method: str
    seed: int
    settings: dict[str, Any]
    data_set: str
    data_dir: Path
    validate: bool
    limit: int | None
    threads: int | None


def load(run: Run) -> Parts:
    data = vs.load_data(DATA_SETS[run.data_set], run.data_dir)
    X, y, X_test, y_test = (np.asarray(part) for part in (data.X, data.y, data.X_test, data.y_test))
    if run.validate:
        X, y, X_test, y_test = held_out(X, y)
    if run.limit:
        rng = np.random.default_rng(0)
        some, few = rng.permutation(len(X))[: run.limit], rng.permutation(len(X_test))[: run.limit]
        X, y, X_test, y_test = X[some], y[some], X_test[few], y_test[few]
    return X, y, X_test, y_test


def carry_out(run: Run) -> dict[str, Any]:
    """Learn the stream and answer after each task; a row of the results."""
    if run.threads:
        torch.set_num_threads(run.threads)
    X, y, X_test, y_test = load(run)
    name, settings = ("er", {"replay": 0}) if run.method == "finetune" else (run.method, {})
    model = vs.create(name, seed=run.seed, **{**settings, **run.settings})
    history: list[float] = []
    learning, start = 0.0, time.perf_counter()
    for task in vs.stream_from(X, y, test=(X_test, y_test), tasks=N_TASKS[run.data_set], seed=run.seed):
        began = time.perf_counter()
        model.partial_fit(*task.train, task=task.number)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        learning += time.perf_counter() - began
        samples, labels = task.test
        history.append(100 * float((model.predict(samples) == labels).mean()))
    seconds = time.perf_counter() - start
    told = {k: v for k, v in model.get_params(deep=False).items() if k not in ("seed", "device", "backbone", "young")}
    device = torch.cuda.get_device_name() if model._device.type == "cuda" else "CPU"
    return {
        "data set": run.data_set,
        "tested on": "a fifth of the training part" if run.validate else "the test part",
        "method": run.method,
        "lr": model.lr,
        "settings": json.dumps(told),
        "images": len(X),
        "seed": run.seed,
        "Avg": round(statistics.mean(history), 2),
        "Last": round(history[-1], 2),
        "after each task": " ".join(f"{accuracy:.2f}" for accuracy in history),
        "seconds": round(seconds, 1),
        "seconds learning": round(learning, 1),
        "device": device,
        "backbone": model.backbone_.digest[:12],
        "version": vs.__version__,
        "torch": torch.__version__,
        "command": shlex.join(["python", *sys.argv]),
    }


def attempt(run: Run) -> dict[str, Any] | str:
    """A row, or why there is none: one run that fails does not end the series."""
    try:
        return carry_out(run)
    except Exception:
        return f"{run.method} with seed {run.seed} failed:\n{traceback.format_exc()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, help=f"of {', '.join(METHODS)}; all unless given")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--data-set", choices=list(N_TASKS), default="CIFAR-10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--lr", type=float, nargs="+", default=[None], help="one or several; the method's own if none")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="more settings, such as passes=256")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--limit", type=int, help="only so many images to learn from and to test on: a smoke test")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "online_rivals.csv")
    args = parser.parse_args()
    unknown = set(args.methods) - set(METHODS)
    if unknown:
        parser.error(f"no method is called {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")

    more = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in args.set)}
    where = args.data_set, args.data_dir.resolve(), args.validate, args.limit, 1 if args.jobs > 1 else None
    runs = []
    for seed in args.seeds:  # seed by seed, so that a series cut short has whole seeds
        for lr in args.lr:
            for method in args.methods:
                settings = {"budget": args.budget, "device": args.device, **({} if lr is None else {"lr": lr}), **more}
                runs.append(Run(method, seed, settings, *where))
    scores, failed = defaultdict(list), 0
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
        for row in pool.imap_unordered(attempt, runs):
            if isinstance(row, str):
                failed += 1
                print(row, flush=True)
                continue
            append(args.out, row)
            scores[row["method"], row["lr"]].append((row["Avg"], row["Last"]))
            print(
                f"{row['method']:9} lr {row['lr']:<5} seed {row['seed']}  Avg {row['Avg']:5.1f}  "
                f"Last {row['Last']:5.1f}  ({row['after each task']})  {row['seconds']:.0f} s",
                flush=True,
            )
    print()
    for (method, lr), pairs in sorted(scores.items()):
        means = [f"{statistics.mean(values):.1f} ± {interval(values):.1f}" for values in zip(*pairs, strict=True)]
        print(f"{method:9} lr {lr:<5} Avg {means[0]:>12}   Last {means[1]:>12}   {len(pairs)} seeds")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
