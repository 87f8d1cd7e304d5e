"""What `track=True` costs: samples a second learned in calls of ten, with it and without, and in one call of all.

    python benchmarks/track_speed.py          # writes results/speed/track_speed.csv

100 synthetic classes, 160 features, mixed; speeds are taken after 5,000 samples, since what testing needs is prepared
anew the less often the longer the stream is.
"""

from __future__ import annotations

import time

import numpy as np

import votestream as vs
from rows import COMMAND, SPEED, write

LEARNERS = ("gaussian_voting", "slda", "ncm", "rls", "candidates_voting", "knn")
BEFORE, TIMED = 5000, 2000


def speed(name: str, track: bool, X: np.ndarray, y: np.ndarray, call: int = 10) -> float:
    model = vs.create(name, device="cpu", track=track).partial_fit(X[:BEFORE], y[:BEFORE])
    model.predict(X[:1])
    begin = time.perf_counter()
    for start in range(BEFORE, BEFORE + TIMED, call):
        model.partial_fit(X[start : start + call], y[start : start + call])
    return TIMED / (time.perf_counter() - begin)


def main() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, BEFORE + TIMED)
    X = np.abs(rng.normal(size=(100, 160))[y] + rng.normal(size=(len(y), 160))).astype(np.float32)
    rows = []
    for name in LEARNERS:
        tracked, plain = (speed(name, track, X, y) for track in (True, False))
        at_once = speed(name, True, X, y, TIMED)
        rows.append(
            {
                "learner": name,
                "samples a second, track": round(tracked),
                "in one call, track": round(at_once),
                "samples a second": round(plain),
                "share": round(tracked / plain, 3),
                "version": vs.__version__,
                "command": COMMAND,
            }
        )
        print(*rows[-1].values(), sep="\t", flush=True)
    write(SPEED / "track_speed.csv", rows)


if __name__ == "__main__":
    main()
