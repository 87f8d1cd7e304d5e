"""The offline rivals on CIFAR-100 in steps of 5, 10, 20 or 50 classes: many passes over each task, 2,000 exemplars.

    python benchmarks/offline_rivals.py --data-dir data --step 5 10 20 50 --seeds 0 1 2 --jobs 4     # all methods
    python benchmarks/offline_rivals.py icarl wa --data-dir data --step 20 --preset short --validate --lr 0.01 0.02

Every rival starts from the built-in backbone and trains it. `finetune` is the paper's CN, `finetune_exp` its CN + Exp;
`joint_images` is trained on everything at once, and asked once. CandidatesVoting and GaussianVoting learn on frozen
features, one pass, except that CandidatesVoting's head goes over the first task `--first-passes` times, as the protocol
says; GaussianVoting keeps sums, for which a second pass would be the same samples counted twice. Accuracy on all
classes so far after each task; Avg is their mean, Last the last. The paper's Avg leaves the first task out (its Avg
and Last are equal for two tasks): that is a column of its own. `--validate` tests on a fifth of the training part,
where settings are chosen, on seeds of their own; the learning rates above all, since the papers' are for networks
trained from nothing. A row is appended to `--out` as each run ends.
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
from rows import append
from split_cifar import ROOT, Parts, held_out, interval
from votestream.learners.offline import OfflineLearner

RIVALS = ("lwf", "icarl", "eeil", "bic", "wa", "kd", "finetune", "finetune_exp", "joint_images")
OURS = ("candidates_voting", "gaussian_voting")
METHODS = [*RIVALS, *OURS]
WITHOUT_BUDGET = ("lwf", "kd", "finetune", "joint_images", "gaussian_voting")
STEPS = (5, 10, 20, 50)


class Run(NamedTuple):
    """One method on one stream, all that decides its outcome."""

    method: str
    step: int
    seed: int
    settings: dict[str, Any]
    backbone: str
    device: str
    first_passes: int
    data_dir: Path
    validate: bool
    limit: int | None
    threads: int | None


def load(run: Run) -> Parts:
    """Images, or for ours features."""
    data = vs.load_data("cifar100", run.data_dir)
    if run.method in OURS:
        data = data.seen_through(vs.create_backbone(run.backbone, device=run.device))
    X, y, X_test, y_test = (np.asarray(part) for part in (data.X, data.y, data.X_test, data.y_test))
    if run.validate:
        X, y, X_test, y_test = held_out(X, y)
    if run.limit:
        rng = np.random.default_rng(0)
        some, few = rng.permutation(len(X))[: run.limit], rng.permutation(len(X_test))[: run.limit]
        X, y, X_test, y_test = X[some], y[some], X_test[few], y_test[few]
    return X, y, X_test, y_test


def create(run: Run) -> Any:
    name = "finetune" if run.method == "finetune_exp" else run.method
    where: dict[str, Any] = (
        {"device": "cpu"} if run.method in OURS else {"device": run.device, "backbone": run.backbone}
    )
    return vs.create(name, seed=run.seed, **where, **run.settings)


def learn(model: Any, run: Run, task: vs.Task) -> Any:
    X, y = task.train
    if isinstance(model, OfflineLearner):
        if run.method == "joint_images":
            return model.partial_fit(X, y, task=task.number)
        return model.fit_task(X, y, task=task.number)
    model.partial_fit(X, y, task=task.number)
    if task.number == 0 and run.method == "candidates_voting":
        memory = model._memory
        model = create(run)
        rng = np.random.default_rng(run.seed)
        for passed in range(run.first_passes):
            order = rng.permutation(len(y)) if passed else np.arange(len(y))
            model.partial_fit(np.asarray(X)[order], y[order], task=0)
        model._memory = memory  # every sample once: passed over many times, the nearest would be kept many times
    return model


def carry_out(run: Run) -> dict[str, Any]:
    """Learn the stream and answer after each task; a row of the results."""
    if run.threads:
        torch.set_num_threads(run.threads)
    X, y, X_test, y_test = load(run)
    model, history = create(run), []
    learning, start = 0.0, time.perf_counter()
    stream = vs.stream_from(X, y, test=(X_test, y_test), tasks=100 // run.step, seed=run.seed)
    for task in stream:
        began = time.perf_counter()
        model = learn(model, run, task)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        learning += time.perf_counter() - began
        if run.method != "joint_images" or task.number == len(stream) - 1:
            samples, labels = task.test
            history.append(100 * float((model.predict(samples) == labels).mean()))
    seconds = time.perf_counter() - start
    told = {k: v for k, v in model.get_params(deep=False).items() if k not in ("seed", "device", "backbone", "young")}
    if run.method == "candidates_voting":
        told["passes over the first task"] = run.first_passes
    several = run.method != "joint_images"
    return {
        "data set": "CIFAR-100",
        "tested on": "a fifth of the training part" if run.validate else "the test part",
        "method": run.method,
        "step": run.step,
        "settings": json.dumps(told),
        "images": len(X),
        "seed": run.seed,
        "Avg": round(statistics.mean(history), 2) if several else "",
        "Avg after the first": round(statistics.mean(history[1:]), 2) if several else "",
        "Last": round(history[-1], 2),
        "after each task": " ".join(f"{accuracy:.2f}" for accuracy in history),
        "bytes": model.memory_bytes(),
        "seconds": round(seconds, 1),
        "seconds learning": round(learning, 1),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and run.device != "cpu" else "CPU",
        "backbone": run.backbone,
        "version": vs.__version__,
        "torch": torch.__version__,
        "command": shlex.join(["python", *sys.argv]),
    }


def attempt(run: Run) -> dict[str, Any] | str:
    """A row, or why there is none: one run that fails does not end the series."""
    try:
        return carry_out(run)
    except Exception:
        return f"{run.method} in steps of {run.step} with seed {run.seed} failed:\n{traceback.format_exc()}"


def settings_of(method: str, args: argparse.Namespace, lr: float | None) -> dict[str, Any]:
    settings: dict[str, Any] = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in args.set)}
    if method in OURS:
        return {} if method in WITHOUT_BUDGET else {"budget": args.budget}
    if method not in WITHOUT_BUDGET:
        settings = {"budget": args.budget, **settings}
    return {"preset": args.preset, **({} if lr is None else {"lr": lr}), **settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, help=f"of {', '.join(METHODS)}; all unless given")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--step", type=int, nargs="+", choices=STEPS, default=[10], help="classes of a task")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=int, default=2000, help="of the methods that keep exemplars")
    parser.add_argument("--preset", choices=["short"], help="a fifth of the passes, for the rivals")
    parser.add_argument("--first-passes", type=int, default=10, help="of CandidatesVoting's head, over the first task")
    parser.add_argument("--lr", type=float, nargs="+", default=[None], help="of the rivals; the method's own if none")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="more of the rivals' settings")
    parser.add_argument("--backbone", default="reduced_resnet18")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--limit", type=int, help="only so many images to learn from and to test on: a smoke test")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "offline_rivals.csv")
    args = parser.parse_args()
    unknown = set(args.methods) - set(METHODS)
    if unknown:
        parser.error(f"no method is called {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")

    how = args.backbone, args.device, args.first_passes, args.data_dir.resolve(), args.validate, args.limit
    threads = 1 if args.jobs > 1 else None
    runs = []
    for seed in args.seeds:  # seed by seed, so that a series cut short has whole seeds
        for step in args.step:
            for method in args.methods:
                for lr in args.lr if method in RIVALS else [None]:
                    runs.append(Run(method, step, seed, settings_of(method, args, lr), *how, threads))
    scores, failed = defaultdict(list), 0
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
        for row in pool.imap_unordered(attempt, runs):
            if isinstance(row, str):
                failed += 1
                print(row, flush=True)
                continue
            append(args.out, row)
            name = f"{row['method']} {json.loads(row['settings']).get('lr', '')}"
            scores[row["step"], name].append(row["Last"])
            print(
                f"step {row['step']:2} {name:24} seed {row['seed']}  Avg {row['Avg']!s:>5}  Last {row['Last']:5.1f}  "
                f"({row['after each task']})  {row['seconds']:.0f} s",
                flush=True,
            )
    print()
    for (step, name), lasts in sorted(scores.items()):
        mean, width = statistics.mean(lasts), interval(tuple(lasts))
        print(f"step {step:2} {name:24} Last {mean:5.1f} ± {width:.1f}   {len(lasts)} seeds")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
