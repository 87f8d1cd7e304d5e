"""How far corrected models are from what they stand for: CIFAR-100 through the built-in backbone.

    python benchmarks/corrections.py --data-dir data          # writes results/accuracy/corrections.csv

"merge": the training samples cut into shards by chance, one model each, merged, beside one model that learned all
shards in sequence; for scale, beside that model on the same samples in another order. "forget": ten classes learned
among the hundred and forgotten, beside a model that never learned them. Accuracy is on the test part, of the classes
that are left; "same answers" is the share of those images on which the two models agree. Five seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import votestream as vs
from cifar import load
from rows import ACCURACY, COMMAND, write

MERGED = ("ncm", "slda", "rls", "fecam", "gaussian_voting")
FORGOTTEN = ("ncm", "slda", "rls", "fecam", "gaussian_voting", "knn", "candidates_voting", "er_features")
SHARDS = (2, 8, 32)


def taught(name: str, X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> vs.Learner:
    model = vs.create(name, device="cpu", seed=seed)
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        model.partial_fit(X[some], y[some])
    return model


def compared(one: vs.Learner, other: vs.Learner, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    answers, wanted = one.predict(X), other.predict(X)
    return {
        "accuracy": round(100 * float((answers == y).mean()), 2),
        "reference accuracy": round(100 * float((wanted == y).mean()), 2),
        "same answers": round(100 * float((answers == wanted).mean()), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    backbone = vs.create_backbone("reduced_resnet18")
    X, y, X_test, y_test = load(options.data_dir, "CIFAR-100", backbone)
    rows = []

    def note(what: str, name: str, seed: int, found: dict[str, float]) -> None:
        rows.append({"what": what, "learner": name, "seed": seed, **found, "command": COMMAND})
        print(*rows[-1].values(), sep="\t", flush=True)

    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        for name in MERGED:
            whole = taught(name, X, y, order, seed)
            another = taught(name, X, y, rng.permutation(len(y)), seed)
            note("another order", name, seed, compared(another, whole, X_test, y_test))
            for n in SHARDS:
                parts = [taught(name, X, y, part, seed) for part in np.array_split(order, n)]
                note(f"merge {n} shards", name, seed, compared(vs.merge(parts), whole, X_test, y_test))
        gone = rng.permutation(np.unique(y))[:10]
        left, asked = order[~np.isin(y[order], gone)], ~np.isin(y_test, gone)
        for name in FORGOTTEN:
            model, never = taught(name, X, y, order, seed), taught(name, X, y, left, seed)
            for label in gone.tolist():
                model.forget(label)
            note("forget 10 classes", name, seed, compared(model, never, X_test[asked], y_test[asked]))
    write(ACCURACY / "corrections.csv", rows)


if __name__ == "__main__":
    main()
