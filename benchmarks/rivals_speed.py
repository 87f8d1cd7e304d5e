"""Steps a second of the online rivals, relative to plain experience replay in the same run, on the CPU and a GPU.

    python benchmarks/rivals_speed.py            # prints a table, writes results/speed/rivals_speed.csv

Random images of 32 x 32 pixels, the built-in network, mini-batches of 10, 10 replayed. Each learner first fills its
memory in one task and enters a second; then all take turns, round by round, and medians are compared. What a step sends
through the network is counted in steps of their own: images forward and back (for a gradient), and forward only.
GDumb has no steps: it trains when asked.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

import votestream as vs
from rows import COMMAND, SPEED, write
from votestream.compute.graph_cache import PLAIN
from votestream.learners.network.classifier import LAYOUT
from votestream.learners.network.network_learner import NetworkLearner

METHODS = [m for m in ("er", "agem", "mir", "gss", "aser") if m in vs.list_learners()]
BATCH = 10


def made_ready(method: str, device: str, budget: int) -> NetworkLearner:
    """A learner whose memory is full, a few steps into its second task."""
    model = vs.create(method, budget=budget, device=device)
    assert isinstance(model, NetworkLearner)
    rng = np.random.default_rng(0)
    model.partial_fit(*images(rng, 2 * budget, 0), task=1)
    model.partial_fit(*images(rng, 5 * BATCH, 2), task=2)
    return model


def images(rng: np.random.Generator, n: int, first_class: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 256, (n, 32, 32, 3), np.uint8), rng.integers(first_class, first_class + 2, n)


def seconds(model: NetworkLearner, X: np.ndarray, y: np.ndarray) -> float:
    """For one step, the mini-batches given in one call."""
    wait = torch.cuda.synchronize if model.memory_.device.type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    model.partial_fit(X, y, task=2)
    wait()
    return (time.perf_counter() - start) * BATCH / len(X)


def counted(model: NetworkLearner, X: np.ndarray, y: np.ndarray) -> Counter[str]:
    """Passes through the network, and images in them, of one step on average; of steps that are not replayed."""
    model.memory_.captured.clear()
    seen: Counter[str] = Counter()

    def count(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        kind = "gradient" if torch.is_grad_enabled() else "forward"
        seen[f"{kind} passes"] += 1
        seen[f"{kind} images"] += len(inputs[0])

    hook = model.memory_.network.body.register_forward_pre_hook(count)
    model.partial_fit(X, y, task=2)
    hook.remove()
    return Counter({what: round(n * BATCH / len(X)) for what, n in seen.items()})


def measure(device: str, methods: list[str], budget: int, steps: int, rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    models = {method: made_ready(method, device, budget) for method in methods}
    passes = {method: counted(model, *images(rng, PLAIN * BATCH, 2)) for method, model in models.items()}
    times: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(rounds):
        batches = images(rng, steps * BATCH, 2)
        for method, model in models.items():
            times[method].append(seconds(model, *batches))
    rows = []
    for method in methods:
        median = statistics.median(times[method])
        row: dict[str, Any] = {"device": device, "method": method, "steps a second": round(1 / median, 1)}
        row["best round"] = round(1 / min(times[method]), 1)
        row["times er's"] = round(median / statistics.median(times["er"]), 2)
        for what in ("gradient passes", "gradient images", "forward passes", "forward images"):
            row[what] = passes[method][what]
        rows.append(row)
        print(
            f"{device:5} {method:5} {row['steps a second']:>8} steps/s  {row['times er' + chr(39) + 's']:>5} x er   "
            f"{row['gradient images']:>3} images forward and back in {row['gradient passes']} passes, "
            f"{row['forward images']:>3} forward only in {row['forward passes']}",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, help=f"of {', '.join(METHODS)}; er is always there")
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"][: 1 + torch.cuda.is_available()])
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--steps", type=int, help="in a round; 10 on the CPU, 200 on a GPU unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layout", choices=["last", "first"], default="last", help="where the channels lie in memory")
    parser.add_argument("--out", type=Path, default=SPEED / "rivals_speed.csv")
    args = parser.parse_args()
    if args.layout == "first":
        LAYOUT.update(cpu=torch.contiguous_format, cuda=torch.contiguous_format)
    methods = ["er", *(method for method in args.methods if method != "er")]
    rows = []
    for device in args.devices:
        steps = args.steps or (10 if device == "cpu" else 200)
        machine = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
        about = {
            "channels": args.layout,
            "budget": args.budget,
            "steps a round": steps,
            "rounds": args.rounds,
            "machine": machine,
        }
        about |= {"threads": torch.get_num_threads(), "torch": torch.__version__, "version": vs.__version__}
        about["command"] = COMMAND
        rows += [{**row, **about} for row in measure(device, methods, args.budget, steps, args.rounds)]
    write(args.out, rows)


if __name__ == "__main__":
    main()
