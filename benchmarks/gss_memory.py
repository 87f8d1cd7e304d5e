"""What GSS keeps: the share of each task in its memory as Split CIFAR-10 goes by, for memories small and large.

    python benchmarks/gss_memory.py --data-dir FOLDER       # prints a table, writes results/accuracy/gss_memory.csv

By the rule of the authors' code, which is the default, and by the paper's Algorithm 2 to the letter. A fifth of the
stream arrives, 2,000 images a task, with one learning rate, so that nothing but the rule differs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import votestream as vs
from rows import ACCURACY, COMMAND, write

ARRIVE = 2000  # images of each task
RULES = {"the authors' code": None, "to the letter": "paper"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ACCURACY / "gss_memory.csv")
    args = parser.parse_args()
    stream = vs.stream("split-cifar10", tasks=5, seed=args.seed, data_dir=args.data_dir)
    rows = []
    for rule, preset in RULES.items():
        for budget in args.budgets:
            model = vs.create("gss", budget=budget, lr=args.lr, preset=preset, seed=args.seed)
            for task in stream:
                X, y = task.train
                model.partial_fit(X[:ARRIVE], y[:ARRIVE], task=task.name)
                kept = np.bincount(model.exemplars_.tasks, minlength=len(stream)) / budget
                shares = {f"task {number + 1}": round(share, 3) for number, share in enumerate(kept.tolist())}
                about = {
                    "rule": rule,
                    "budget": budget,
                    "lr": args.lr,
                    "seed": args.seed,
                    "after task": task.number + 1,
                }
                rows.append({**about, **shares, "version": vs.__version__, "command": COMMAND})
                print(rows[-1], flush=True)
            write(args.out, rows)


if __name__ == "__main__":
    main()
