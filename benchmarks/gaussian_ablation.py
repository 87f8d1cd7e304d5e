"""What each part of GaussianVoting is worth, on a fifth of the training part of CIFAR: where its settings were chosen.

    python benchmarks/gaussian_ablation.py --data-dir data   # writes results/accuracy/gaussian_ablation.csv, a table

Split CIFAR-100 (20 tasks) and Split CIFAR-10 (5), accuracy at the end. "+ candidates" adds the logits of a
discriminative head, standardised, to the log densities over the temperature: the head of CandidatesVoting (Q = 2000,
three pairs), or, as a bound, of the joint linear probe; the weight is the best of a grid on the very same images,
which favours it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import votestream as vs
from cifar import N_TASKS, Parts, held_out, load
from rows import ACCURACY, COMMAND, spread, write

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "shared covariance only": {"strength": 1e-12},
    "2 directions": {"rank": 2},
    "4 directions": {"rank": 4},
    "8 directions": {"rank": 8},
    "32 directions": {"rank": 32},
    "no square roots": {"power": 1},
    "directions believed from the first samples on": {"few": 1e-9},
    "directions believed in full": {"strength": 1.0, "few": 1e-9},
    "every row folded in at once": {"block": 1},
}
WEIGHTS = (0.1, 0.25, 0.5, 1.0, 2.0)


def learned(model: Any, parts: Parts, n_tasks: int, seed: int) -> Any:
    for task in vs.stream_from(*parts[:2], tasks=n_tasks, seed=seed):
        model.partial_fit(*task.train, task=task.number)
    return model


def accuracy(answers: np.ndarray, y: np.ndarray) -> float:
    return 100 * float((answers == y).mean())


def with_candidates(model: vs.GaussianVoting, logits: np.ndarray, parts: Parts) -> float:
    log = np.log(np.maximum(model.predict_proba(parts[2]), 1e-300))
    logits = (logits - logits.mean(1, keepdims=True)) / logits.std()
    return max(accuracy(model.classes_[(log + w * logits).argmax(1)], parts[3]) for w in WEIGHTS)


def measure(parts: Parts, n_tasks: int, seed: int) -> dict[str, float]:
    scores = {}
    for variant, params in VARIANTS.items():
        model = learned(vs.GaussianVoting(device="cpu", **params), parts, n_tasks, seed)
        scores[variant] = accuracy(model.predict(parts[2]), parts[3])
    model = learned(vs.GaussianVoting(device="cpu"), parts, n_tasks, seed)
    head = learned(vs.CandidatesVoting(device="cpu", seed=seed, pairs=3, decide="argmax"), parts, n_tasks, seed)
    joint = learned(vs.create("joint", device="cpu"), parts, n_tasks, seed)
    scores["+ candidates of CandidatesVoting's head"] = with_candidates(model, parts[2] @ head.weights_.T, parts)
    joint_logits = np.log(np.maximum(joint.predict_proba(parts[2]), 1e-30))
    scores["+ candidates of the joint probe"] = with_candidates(model, joint_logits, parts)
    scores["the joint probe alone"] = accuracy(joint.predict(parts[2]), parts[3])
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--out", type=Path, default=ACCURACY / "gaussian_ablation.csv")
    args = parser.parse_args()
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    rows = []
    for data_set, n_tasks in N_TASKS.items():
        parts = held_out(*load(args.data_dir, data_set, backbone)[:2])
        runs = {seed: measure(parts, n_tasks, seed) for seed in args.seeds}
        for variant in runs[args.seeds[0]]:
            values = [runs[seed][variant] for seed in args.seeds]
            print(f"{data_set:10} {variant:46} {spread(values)}", flush=True)
            for seed, value in zip(args.seeds, values, strict=True):
                row = {"data set": data_set, "variant": variant, "seed": seed, "Last": f"{value:.2f}"}
                row |= {"tested on": "a fifth of the training part", "backbone": backbone.digest[:12]}
                rows.append({**row, "version": vs.__version__, "command": COMMAND})
    write(args.out, rows)


if __name__ == "__main__":
    main()
