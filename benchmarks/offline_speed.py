"""Seconds for one task of an offline rival: 2,500 images of 32 x 32 in 70 passes, with exemplars and a teacher.

    python benchmarks/offline_speed.py                     # writes results/speed/offline_speed.csv, prints a table
    python benchmarks/offline_speed.py wa --epochs 250     # as the paper trains it

A first task, learned in one pass, fills the memory of 2,000 and makes the teacher; the second is timed. So a pass of
the methods with exemplars goes over 4,500 images, in EEIL's second stage over fewer. Images are random: time does
not depend on what they show.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import votestream as vs
from rows import COMMAND, SPEED, write

METHODS = ("finetune", "kd", "lwf", "icarl", "eeil", "wa", "bic")


def task(rng: np.random.Generator, images: int, first_class: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 256, (images, 32, 32, 3), np.uint8), first_class + np.arange(images) % 5


def measure(method: str, args: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    plain = vs.create(method)
    budget = 0 if plain.get_params()["budget"] == 0 else args.budget
    model: Any = vs.create(method, epochs=1, budget=budget, device=args.device)
    model.fit_task(*task(rng, args.images, 0))
    cuda = model.memory_.device.type == "cuda"
    if cuda:  # kernels are chosen and loaded for every shape of mini-batch
        model.predict_proba(task(rng, 10, 0)[0])
        torch.cuda.synchronize()
    model.set_params(epochs=args.epochs)
    exemplars = len(model.exemplars_.labels)
    start = time.perf_counter()
    model.fit_task(*task(rng, args.images, 5))
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    seen = args.epochs * (args.images + exemplars)
    return {
        "method": method,
        "device": args.device,
        "images": args.images,
        "exemplars": exemplars,
        "epochs": args.epochs,
        "batch": model.batch_size,
        "seconds": round(seconds, 2),
        "milliseconds a step": round(
            1000 * seconds / (args.epochs * math.ceil(seen / args.epochs / model.batch_size)), 3
        ),
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "version": vs.__version__,
        "command": COMMAND,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, help=f"of {', '.join(METHODS)}")
    parser.add_argument("--images", type=int, default=2500)
    parser.add_argument("--epochs", type=int, default=70)
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=SPEED / "offline_speed.csv")
    args = parser.parse_args()
    rows = []
    for method in args.methods:
        rows.append(measure(method, args))
        row = rows[-1]
        print(f"{method:9} {row['seconds']:8.1f} s   {row['milliseconds a step']:7.2f} ms a step", flush=True)
    write(args.out, rows)


if __name__ == "__main__":
    main()
