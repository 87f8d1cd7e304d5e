"""Alarms of `track_record().drift`: how often for nothing, and how soon where a class has changed.

    python benchmarks/drift.py --data-dir data          # appends to results/accuracy/drift.csv
    python benchmarks/drift.py --show

Streams of 20 classes of CIFAR-100's training part, 300 samples each. "mixed": in random order. "returning": 4 tasks of
5 classes, of which 30 % of the samples come later. "changed": mixed, and from the middle on the images of one class are
another's that was never taught. Counted are the classes with an alarm, be it over or not. An alarm that never fires has
0 % of both, one that always fires 100 % of both.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import votestream as vs
from cifar import Parts
from features import arguments, cifar100
from rows import ACCURACY, COMMAND, append, rows_of

FIELDS = (
    *("stream", "learner", "backbone", "seed", "classes", "false alarms", "changed classes", "found"),
    *("by accuracy", "by distance", "since: samples off", "own samples until the alarm"),
    *("version", "command"),
)
CLASSES, SAMPLES = 20, 300


def mixed(parts: Parts, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and labels, in order; and samples of a class that is none of them."""
    rng = np.random.default_rng(seed)
    X, y = parts[:2]
    *taught, other = rng.permutation(np.unique(y))[: CLASSES + 1]
    rows = rng.permutation(np.concatenate([np.flatnonzero(y == label)[:SAMPLES] for label in taught]))
    return X[rows], y[rows], X[y == other]


def returning(parts: Parts, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = mixed(parts, seed)
    stream = vs.repeated(vs.stream_from(X, y, tasks=4, seed=seed), 0.3)
    batches = [batch for task in stream for batch in task]
    return np.concatenate([x for x, _ in batches]), np.concatenate([label for _, label in batches])


def run(kind: str, name: str, parts: Parts, seed: int) -> dict[str, Any]:
    model, changed, first = vs.create(name, device="cpu", seed=seed, track=True), None, None
    X, y, other = mixed(parts, seed)
    if kind == "returning":
        X, y = returning(parts, seed)
    middle = len(y) // 2
    if kind == "changed":
        changed = y[0]
        late = np.flatnonzero((y == changed) & (np.arange(len(y)) >= middle))
        X = X.copy()
        X[late] = other[: len(late)]
    for start in range(0, len(y), 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
        if changed is not None and start >= middle and first is None:
            alarmed = any(alarm.label == changed for alarm in model.track_record().drift)
            first = int((y[middle : start + 10] == changed).sum()) if alarmed else None
    drift = model.track_record().drift
    own = [alarm for alarm in drift if alarm.label == changed]
    begin = middle + int(np.argmax(y[middle:] == changed)) + 1 if changed is not None else 0
    return {
        "classes": CLASSES,
        "false alarms": len({alarm.label for alarm in drift} - {changed}),
        "changed classes": int(changed is not None),
        "found": int(bool(own)),
        **{f"by {sign}": sum(alarm.sign == sign for alarm in own) for sign in ("accuracy", "distance")},
        "since: samples off": min((abs(alarm.since - begin) for alarm in own), default=""),
        "own samples until the alarm": "" if first is None else first,
    }


def show(rows: list[dict[str, str]]) -> None:
    print("| stream | learner | false alarms, % of classes | found, % | own samples until the alarm |")
    print("|---" * 5 + "|")
    for key in dict.fromkeys((row["stream"], row["learner"]) for row in rows):
        own = [row for row in rows if (row["stream"], row["learner"]) == key]
        unchanged = sum(int(row["classes"]) - int(row["changed classes"]) for row in own)
        alarms = 100 * sum(int(row["false alarms"]) for row in own) / unchanged
        changed = sum(int(row["changed classes"]) for row in own)
        found = f"{100 * sum(int(row['found']) for row in own) / changed:.0f}" if changed else ""
        delays = [int(row["own samples until the alarm"]) for row in own if row["own samples until the alarm"]]
        print(f"| {' | '.join(key)} | {alarms:.1f} | {found} | {statistics.median(delays) if delays else ''} |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--learner", default="ncm")
    parser.add_argument("--seeds", nargs="+", type=int, default=range(10))
    parser.add_argument("--streams", nargs="+", default=["mixed", "returning", "changed"])
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    path = ACCURACY / "drift.csv"
    if not given.show:
        parts = cifar100(given)
        for kind in given.streams:
            for seed in given.seeds:
                row = {"stream": kind, "learner": given.learner, "backbone": given.backbone, "seed": seed}
                row |= run(kind, given.learner, parts, seed)
                row |= {"version": vs.__version__, "command": COMMAND}
                append(path, row, FIELDS)
    show(rows_of(path))


if __name__ == "__main__":
    main()
