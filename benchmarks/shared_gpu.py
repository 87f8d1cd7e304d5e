"""Steps a second of many processes on one GPU together, by the share of it that each may take.

    nvidia-cuda-mps-control -d && python benchmarks/shared_gpu.py --out results/speed/shared_gpu.csv

Each process runs experience replay, mini-batches of 10 and 10 replayed. The share is NVIDIA's
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, which tells only where its MPS is running.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import votestream as vs
from rows import COMMAND, write

STEPS = 50


def steps_a_second(folder: Path, processes: int, seconds: float) -> float:
    """Of this process, from the moment that all are ready."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (1000, 32, 32, 3), np.uint8), rng.integers(0, 10, 1000)
    model = vs.create("er", budget=1000).partial_fit(X, y)
    (folder / str(os.getpid())).touch()
    limit = time.monotonic() + 120
    while len(list(folder.iterdir())) < processes:
        if time.monotonic() > limit:
            raise TimeoutError("not all processes got ready")
        time.sleep(0.05)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        model.partial_fit(X[: 10 * STEPS], y[: 10 * STEPS])
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        steps += STEPS
    return steps / (time.perf_counter() - start)


def together(processes: int, share: int, seconds: float) -> float:
    """Of all of them."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--in", folder, "--processes", str(processes), "--seconds", str(seconds)]
        running = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(processes)
        ]
        return sum(float(process.communicate()[0]) for process in running)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--shares", type=int, nargs="+", default=[100, 25, 10], help="per cent of the GPU")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.folder:
        print(steps_a_second(args.folder, args.processes, args.seconds))
        return
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores"
    rows = []
    for share in args.shares:
        about = {"machine": machine, "processes": args.processes, "share": share}
        rate = round(together(args.processes, share, args.seconds))
        rows.append({**about, "steps_a_second": rate, "version": vs.__version__, "command": COMMAND})
        print(rows[-1], flush=True)
    if args.out:
        write(args.out, rows)


if __name__ == "__main__":
    main()
