"""Norms of the head's weight rows over the order in which classes came, online and offline: the study of bias.

    python benchmarks/weight_norms.py --data-dir data --jobs 4    # appends to results/weight_norms.csv
    python benchmarks/weight_norms.py --plot results/weight_norms.png      # draws what is there

CIFAR-100, built-in backbone. CN is plain cross-entropy, CN + Exp with Q exemplars, KD with distillation and none, WA
with Q exemplars and aligned weights; ours is CandidatesVoting, which is online only. Offline is 70 passes in
mini-batches of 128 for all of them; online one pass in mini-batches of 10 at a learning rate of 0.1, without momentum
or augmentation: CN and CN + Exp are then experience replay, KD and WA their own losses in that one pass. A run's
trend is the least-squares line through the norms; its slope for 100 classes over the mean norm, the "drift", is 0
where no class is favoured.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import shlex
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import votestream as vs
from offline_rivals import Run as Stream
from offline_rivals import load
from rows import append
from split_cifar import ROOT

METHODS = ("CN", "CN + Exp", "KD", "WA", "ours")
ONE_PASS = {"epochs": 1, "batch_size": 10, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "augment": False}
MANY = {"epochs": 70, "batch_size": 128}


class Run(NamedTuple):
    method: str
    mode: str
    step: int
    budget: int
    args: argparse.Namespace


def runs(args: argparse.Namespace) -> Iterator[Run]:
    for step in args.steps:
        for method in args.methods:
            for mode in ("online",) if method == "ours" else args.modes:
                for budget in (0,) if method in ("CN", "KD") else args.budgets:
                    yield Run(method, mode, step, budget, args)


def create(run: Run) -> Any:
    seed, device = run.args.seed, run.args.device
    if run.method == "ours":
        return vs.CandidatesVoting(budget=run.budget, seed=seed, device="cpu")
    if run.mode == "online" and run.method in ("CN", "CN + Exp"):
        replay: dict[str, Any] = {"budget": run.budget, "replay": 10} if run.budget else {"replay": 0}
        return vs.ExperienceReplay(lr=0.1, seed=seed, device=device, **replay)
    name = {"CN": "finetune", "CN + Exp": "finetune", "KD": "kd", "WA": "wa"}[run.method]
    passes: dict[str, Any] = ONE_PASS if run.mode == "online" else {**MANY, "preset": run.args.preset}
    return vs.create(name, budget=run.budget, seed=seed, device=device, **passes)


def carry_out(run: Run) -> dict[str, Any] | str:
    args = run.args
    try:
        if args.jobs > 1:
            torch.set_num_threads(1)
        kind = "candidates_voting" if run.method == "ours" else "finetune"
        how: Any = {}, "reduced_resnet18", args.device, 1, args.data_dir.resolve(), False, args.limit, None
        X, y, _, _ = load(Stream(kind, run.step, args.seed, *how))
        model, start = create(run), time.perf_counter()
        for task in vs.stream_from(X, y, tasks=100 // run.step, seed=args.seed):
            learn = model.fit_task if hasattr(model, "fit_task") else model.partial_fit
            learn(*task.train, task=task.number)
        norms = np.linalg.norm(model.weights_, axis=1)
    except Exception:
        return f"{run.method}, {run.mode}, step {run.step}, Q = {run.budget} failed:\n{traceback.format_exc()}"
    slope, intercept = np.polyfit(np.arange(len(norms)), norms, 1)
    return {
        "method": run.method,
        "mode": run.mode,
        "step": run.step,
        "Q": run.budget,
        "preset": (args.preset or "") if run.mode == "offline" else "",
        "seed": args.seed,
        "images": len(X),
        "slope": f"{slope:.6g}",
        "intercept": f"{intercept:.6g}",
        "mean norm": f"{norms.mean():.6g}",
        "drift": f"{100 * slope / norms.mean():.4g}",
        "norms in order of classes": " ".join(f"{norm:.5g}" for norm in norms),
        "seconds": round(time.perf_counter() - start, 1),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and args.device != "cpu" else "CPU",
        "version": vs.__version__,
        "command": shlex.join(["python", *sys.argv]),
    }


def plot(path: Path, out: Path) -> None:
    """Norms and trends, relative to each run's mean; the panels of the paper's two figures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    fewest = min((row["Q"] for row in rows if row["Q"] != "0"), key=int, default="0")
    smallest = min((row["step"] for row in rows), key=int)
    small = [row for row in rows if row["step"] == smallest]
    panels = {
        "CN, by step": [row for row in rows if row["method"] == "CN"],
        f"methods, step {smallest}": [row for row in small if row["Q"] in ("0", fewest)],
        f"CN + Exp by Q, step {smallest}": [row for row in small if row["method"] == "CN + Exp"],
        f"KD and CN + Exp, step {smallest}": [
            row for row in small if row["method"] == "KD" or (row["method"] == "CN + Exp" and row["Q"] == fewest)
        ],
    }
    figure, axes = plt.subplots(2, 2, figsize=(13, 9), sharex=True)
    for axis, (title, shown) in zip(axes.flat, panels.items(), strict=True):
        for number, row in enumerate(shown):
            norms = np.array(row["norms in order of classes"].split(), float)
            order, mean = np.arange(len(norms)), norms.mean()
            label = f"{row['method']}, {row['mode']}, step {row['step']}" + (
                f", Q {row['Q']}" if row["Q"] != "0" else ""
            )
            axis.plot(order, norms / mean, ".", color=f"C{number % 10}", markersize=3, alpha=0.5)
            line = float(row["intercept"]) + float(row["slope"]) * order
            style = "-" if row["mode"] == "online" else "--"
            axis.plot(order, line / mean, style, color=f"C{number % 10}", label=label)
        axis.set_title(title)
        axis.set_xlabel("class, in order of arrival")
        axis.set_ylabel("norm over the mean norm")
        if shown:
            axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out, dpi=120)
    print(f"drawn: {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="learn and append; without it only --plot is done")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--modes", nargs="+", choices=["online", "offline"], default=["online", "offline"])
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--budgets", type=int, nargs="+", default=[1000, 5000, 10_000])
    parser.add_argument("--preset", choices=["short"], help="a fifth of the passes offline")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="only so many images: a smoke test")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "weight_norms.csv")
    parser.add_argument("--plot", type=Path, help="a picture of everything in --out")
    args = parser.parse_args()
    failed = 0
    if args.data_dir:
        with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(carry_out, list(runs(args))):
                if isinstance(row, str):
                    failed += 1
                    print(row, flush=True)
                    continue
                append(args.out, row)
                about = f"{row['method']:9} {row['mode']:8} step {row['step']:2} Q {row['Q']:5}"
                print(f"{about}  drift {row['drift']:>7}  {row['seconds']} s", flush=True)
    if args.plot:
        plot(args.out, args.plot)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
