"""How far stated confidence is from how often it is right, with a track record and without; and what it costs.

    python benchmarks/calibration.py --data-dir data       # appends to results/accuracy/calibration.csv
    python benchmarks/calibration.py --backbone efficientnet_lite0 --features FOLDER      # features made elsewhere
    python benchmarks/calibration.py --show

Split CIFAR-100, 20 tasks, one pass, mini-batches of ten as a stream gives them. After each task: the expected
calibration error (15 bins of equal width, in per cent) on all classes so far, of the model with `track=True` and of
its twin without. Settings were chosen with `--validation --seeds 100 101`; the seeds of the test part are 0 to 4.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import votestream as vs
from cifar import Parts
from features import arguments, cifar100, tested_on
from rows import ACCURACY, COMMAND, append, rows_of, spread

LEARNERS = ("gaussian_voting", "slda", "ncm", "candidates_voting", "rls", "knn", "er_features")
FIELDS = (
    *("learner", "backbone", "seed", "ECE after each task, track", "ECE after each task", "from the fourth task: mean"),
    *("worst", "mean without track", "Last", "samples a second, track", "samples a second"),
    *("bytes of the record", "tested on", "version", "command"),
)
BINS = 15
FOURTH = 3


def calibration_error(shares: np.ndarray, right: np.ndarray) -> float:
    stated = shares.max(1)
    bins = np.minimum((stated * BINS).astype(int), BINS - 1)
    gaps = [abs(float((stated - right)[bins == i].sum())) for i in range(BINS)]
    return 100 * sum(gaps) / len(stated)


def taught(model: Any, task: vs.Task) -> float:
    start = time.perf_counter()
    for x, y in task:
        model.partial_fit(x, y, task=task.number)
    return time.perf_counter() - start


def run(name: str, parts: Parts, seed: int) -> dict[str, Any]:
    X_test, y_test = parts[2:]
    models = {track: vs.create(name, device="cpu", seed=seed, track=track) for track in (True, False)}
    errors: dict[bool, list[float]] = {True: [], False: []}
    seconds, samples, last = {True: 0.0, False: 0.0}, 0, 0.0
    for task in vs.stream_from(*parts[:2], tasks=20, seed=seed):
        samples += len(task.train[1])
        for track, model in models.items():
            seconds[track] += taught(model, task)
            rows = np.isin(y_test, model.classes_)
            shares = model.predict_proba(X_test[rows])
            right = model.classes_[shares.argmax(1)] == y_test[rows]
            errors[track].append(calibration_error(shares, right))
            last = 100 * float(right.mean())
    return {
        "ECE after each task, track": " ".join(f"{error:.2f}" for error in errors[True]),
        "ECE after each task": " ".join(f"{error:.2f}" for error in errors[False]),
        "from the fourth task: mean": round(statistics.fmean(errors[True][FOURTH:]), 2),
        "worst": round(max(errors[True][FOURTH:]), 2),
        "mean without track": round(statistics.fmean(errors[False][FOURTH:]), 2),
        "Last": round(last, 2),
        "samples a second, track": round(samples / seconds[True]),
        "samples a second": round(samples / seconds[False]),
        "bytes of the record": models[True].memory_bytes() - models[False].memory_bytes(),
    }


def show(rows: list[dict[str, str]]) -> None:
    """The worst is of the mean over seeds, task by task."""
    print("| learner | backbone | tested on | without track | with track | worst task | speed |")
    print("|---|---|---|---|---|---|---|")
    for key in dict.fromkeys((row["learner"], row["backbone"], row["tested on"]) for row in rows):
        own = [row for row in rows if (row["learner"], row["backbone"], row["tested on"]) == key]
        by_task = [[float(error) for error in row["ECE after each task, track"].split()] for row in own]
        worst = max(statistics.fmean(errors) for errors in list(zip(*by_task, strict=True))[FOURTH:])
        before, after = ([float(row[c]) for row in own] for c in ("mean without track", "from the fourth task: mean"))
        slower = statistics.fmean(float(r["samples a second, track"]) / float(r["samples a second"]) for r in own)
        print(f"| {' | '.join(key)} | {spread(before)} | {spread(after)} | {worst:.1f} | {slower:.2f} |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--learners", nargs="+", default=LEARNERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=range(5))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    path = ACCURACY / "calibration.csv"
    if not given.show:
        parts = cifar100(given)
        for name in given.learners:
            for seed in given.seeds:
                row = {"learner": name, "backbone": given.backbone, "seed": seed, **run(name, parts, seed)}
                row |= {"tested on": tested_on(given), "version": vs.__version__, "command": COMMAND}
                append(path, row, FIELDS)
                print(name, seed, row["mean without track"], "->", row["from the fourth task: mean"], row["worst"])
    show(rows_of(path))


if __name__ == "__main__":
    main()
