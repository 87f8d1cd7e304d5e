"""What GSS keeps: the share of each task in its memory as Split CIFAR-10 goes by, for memories small and large.

    python benchmarks/gss_memory.py --data-dir FOLDER       # prints a table, writes results/gss_memory.csv

A fifth of the stream arrives, 2,000 images a task, with the learning rate of the suite `online`.
"""

from __future__ import annotations

import argparse

import numpy as np

import votestream as vs
from rows import COMMAND, RESULTS, write
from votestream.bench.methods import ONLINE_RATES

ARRIVE = 2000  # images of each task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    stream = vs.stream("split-cifar10", tasks=5, seed=args.seed, data_dir=args.data_dir)
    rows = []
    for budget in args.budgets:
        model = vs.create("gss", budget=budget, lr=ONLINE_RATES["split-cifar10"]["gss"], seed=args.seed)
        for task in stream:
            X, y = task.train
            model.partial_fit(X[:ARRIVE], y[:ARRIVE], task=task.name)
            kept = np.bincount(model.exemplars_.tasks, minlength=len(stream)) / budget
            shares = {f"task {number + 1}": round(share, 3) for number, share in enumerate(kept.tolist())}
            about = {"budget": budget, "seed": args.seed, "after task": task.number + 1}
            rows.append({**about, **shares, "version": vs.__version__, "command": COMMAND})
            print(rows[-1], flush=True)
    write(RESULTS / "gss_memory.csv", rows)


if __name__ == "__main__":
    main()
