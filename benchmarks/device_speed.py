"""Where CandidatesVoting is faster: learning and answering on the CPU and on a GPU, for models small and large.

    python benchmarks/device_speed.py --out results/speed/device_speed.csv

Learning is fed ten rows a call. Absolute speeds, so they speak of the machine they were taken on.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

import votestream as vs
from rows import COMMAND, write

SIZES = (
    (160, 2000, 100),
    (160, 10000, 100),
    (512, 5000, 100),
    (1280, 2000, 100),
    (1280, 10000, 100),
    (2048, 20000, 1000),
)


def make_stream(width: int, budget: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tasks of ten classes with enough samples to fill the budget; 10,000 queries."""
    rng = np.random.default_rng(0)
    per_class = max(60, 2 * budget // n_classes)
    tasks = [rng.permutation(np.repeat(np.arange(t, t + 10), per_class)) for t in range(0, n_classes, 10)]
    y = np.concatenate(tasks)[:40_000]
    X = rng.standard_normal((len(y), width), dtype=np.float32) + np.float32(0.1) * (y[:, None] % 7)
    return X.astype(np.float32), y, rng.standard_normal((10_000, width), dtype=np.float32)


def rates(device: str, X: np.ndarray, y: np.ndarray, queries: np.ndarray, budget: int) -> dict[str, float]:
    """Rows a second: the last 3,000 learned, 10,000 answered at once, 200 answered one by one."""
    model = vs.CandidatesVoting(budget=budget, device=device, beta=0.5)
    model.partial_fit(X[:-3000], y[:-3000])
    start = time.perf_counter()
    for i in range(len(X) - 3000, len(X), 10):
        model.partial_fit(X[i : i + 10], y[i : i + 10])
    if device == "cuda":
        torch.cuda.synchronize()
    learned = time.perf_counter()
    model.predict(queries)
    began = time.perf_counter()
    model.predict(queries)
    answered = time.perf_counter()
    for i in range(200):
        model.predict(queries[i : i + 1])
    singly = time.perf_counter() - answered
    return {"learn": 3000 / (learned - start), "predict": 10_000 / (answered - began), "predict_singly": 200 / singly}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for width, budget, n_classes in SIZES:
        stream = make_stream(width, budget, n_classes)
        for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
            measured = {name: round(rate) for name, rate in rates(device, *stream, budget).items()}
            where = torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} cores"
            about = {"features": width, "budget": budget, "classes": n_classes, "device": device, "machine": where}
            rows.append({**about, **measured, "version": vs.__version__, "command": COMMAND})
            print(rows[-1], flush=True)
    if args.out:
        write(args.out, rows)


if __name__ == "__main__":
    main()
