"""How near extraction comes to what the machine can do: the network's arithmetic at the measured GEMM rate.

    python benchmarks/extract_speed.py                  # on the CPU, ratios
    python benchmarks/extract_speed.py --device cuda    # images a second too

Everything is timed in turns, round after round, and a ratio is taken within each round, so that a machine
that is busy for a while slows both sides of it; the median round is reported. Speed does not depend on what
the weights are, so the built-in network runs with random ones.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from rows import COMMAND, SPEED, write
from votestream._version import __version__
from votestream.backbones import Backbone, create_backbone, from_module
from votestream.backbones.networks.efficientnet_lite import EfficientNetLite
from votestream.backbones.networks.resnet import ReducedResNet18

SHOWN = [
    "backbone",
    "variant",
    "batch",
    "gflop_per_image",
    "share_of_gemm_rate",
    "times_plain",
    "images_per_second",
]
FIELDS = [*SHOWN, "default", "device", "threads", "rounds", "load", "version", "torch", "command"]


def flops(network: nn.Module, size: int) -> int:
    """Multiplications and additions of all convolutions and linear layers for one image."""
    total = 0

    def count(module: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal total
        assert isinstance(module, (nn.Conv2d, nn.Linear))
        total += 2 * output.numel() * module.weight[0].numel()

    layers = [module for module in network.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    parameter = next(network.parameters())
    with torch.inference_mode():
        network(torch.zeros(1, 3, size, size, device=parameter.device))
    for hook in hooks:
        hook.remove()
    return total


def rate(work: Callable[[], object], units: float, seconds: float, device: torch.device) -> float:
    """Units of work a second."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        work()
        calls += 1
        if device.type == "cuda":
            torch.cuda.synchronize()
    return units * calls / (time.perf_counter() - start)


def gemm(device: torch.device) -> tuple[Callable[[], object], float]:
    """A matrix product large enough to run at full speed, and its operations."""
    n = 2048 if device.type == "cpu" else 8192
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    return lambda: a @ b, 2.0 * n**3


def plain(network: nn.Module, size: int, batch: int, device: torch.device) -> Callable[[], object]:
    """The network as it was written: batch norms apart, channels first, floats ready."""
    network = network.eval().to(device)
    x = torch.randn(batch, 3, size, size, device=device)

    def work() -> None:
        with torch.inference_mode():
            network(x)

    return work


def whole(backbone: Backbone, batch: int) -> Callable[[], object]:
    """What a user calls: uint8 images in, NumPy features out."""
    size = backbone.input_size
    images = np.random.default_rng(0).integers(0, 256, (batch, size, size, 3)).astype(np.uint8)

    def work() -> None:
        backbone.batch_size = batch
        backbone(images)

    return work


def networks(device: str) -> list[tuple[Backbone, nn.Module]]:
    """Each backbone beside the bare network it is made of."""
    torch.manual_seed(0)
    bare: nn.Module = ReducedResNet18()
    pairs = [(from_module(bare, input_size=32, name="reduced_resnet18", device=device), bare)]
    return [*pairs, (create_backbone("efficientnet_lite0", device=device), EfficientNetLite("efficientnet_lite0"))]


def measure(device: str, rounds: int, seconds: float) -> list[dict[str, object]]:
    where = torch.device(device)
    product, operations = gemm(where)
    rows: list[dict[str, object]] = []
    for backbone, bare in networks(device):
        size, default = backbone.input_size, backbone.batch_size
        around = sorted({max(1, default // 4), default // 2, default, default * 2, default * 4})
        works = {("plain", default): plain(bare, size, default, where)}
        works |= {("backbone", batch): whole(backbone, batch) for batch in around}
        per_image = flops(bare, size)
        speeds: dict[tuple[str, int], list[float]] = {key: [] for key in works}
        ceilings: list[float] = []
        for work in (product, *works.values()):
            work()  # the first call chooses kernels
        for _ in range(rounds):
            ceilings.append(rate(product, operations, seconds, where) / per_image)
            for key, work in works.items():
                speeds[key].append(rate(work, key[1], seconds, where))
        for (variant, batch), values in speeds.items():
            share = statistics.median(v / c for v, c in zip(values, ceilings, strict=True))
            times = statistics.median(v / p for v, p in zip(values, speeds["plain", default], strict=True))
            rows.append(
                {
                    "backbone": backbone.name,
                    "variant": variant,
                    "batch": batch,
                    "default": int(batch == default),
                    "device": torch.cuda.get_device_name() if where.type == "cuda" else "cpu",
                    "threads": torch.get_num_threads(),
                    "gflop_per_image": f"{per_image / 1e9:.4f}",
                    "share_of_gemm_rate": f"{share:.3f}",
                    "times_plain": f"{times:.2f}",
                    # A CPU's absolute speed says more about the machine than about this library.
                    "images_per_second": f"{max(values):.0f}" if where.type == "cuda" else "",
                    "rounds": rounds,
                    "load": f"{os.getloadavg()[0]:.1f}",
                    "version": __version__,
                    "torch": torch.__version__,
                    "command": COMMAND,
                }
            )
            print(f"{backbone.name} {variant} {batch}: {max(values):.0f} images/s", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each timing")
    parser.add_argument("--out", type=Path, default=SPEED / "extract_speed.csv")
    args = parser.parse_args()
    rows = measure(args.device, args.rounds, args.seconds)
    table = Table(*SHOWN)
    for row in rows:
        table.add_row(*(str(row[field]) for field in SHOWN))
    Console(width=110).print(table)
    write(args.out, rows, FIELDS)


if __name__ == "__main__":
    main()
