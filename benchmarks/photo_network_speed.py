"""How fast photos become features: the bare photo network, against the machine's matrix products.

    python benchmarks/photo_network_speed.py                  # one thread, ratios
    python benchmarks/photo_network_speed.py --device cuda    # images a second too

EfficientNet-Lite0 on float tensors that are ready, in several engines and layouts, one image alone and a batch; then
the backbone as people call it, in its plain, quick and careful look. Everything is timed in turns, as in
`extract_speed.py`: a ratio is taken within each round, and the median round is reported. Rows "of which" tell where the
network's time goes on a CPU: to each kind of layer, beside its share of the arithmetic.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from extract_speed import flops, gemm, rate, whole
from rows import COMMAND, SPEED, write
from votestream._version import __version__
from votestream.backbones import create_backbone
from votestream.backbones.networks.efficientnet_lite import EfficientNetLite
from votestream.backbones.networks.folding import fold_batch_norms
from votestream.export.tracing import WholeModule, traced

NAME, SIZE = "efficientnet_lite0", 224
SHOWN = [
    *("what", "batch", "share_of_gemm_rate", "times_the_backbone_s_network", "images_per_second"),
    *("share_of_time", "share_of_arithmetic"),
]
FIELDS = [*SHOWN, "gflop_per_image", "device", "threads", "rounds", "load", "version", "torch", "command"]
NETWORK = "network: folded, channels last"  # what the backbone runs


def eager(network: nn.Module, x: Tensor, mkldnn: bool = True) -> Callable[[], object]:
    def work() -> None:
        with torch.inference_mode(), torch.backends.mkldnn.flags(enabled=mkldnn):
            network(x)

    return work


def in_onnx_runtime(network: nn.Module, x: Tensor) -> Callable[[], object] | None:
    """The same network in ONNX Runtime, on as many threads; None where that is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")):
        return None
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    graph = traced(WholeModule(network, None), {"x": tuple(x.shape[1:])}, x.dtype)
    session = runtime.InferenceSession(graph.SerializeToString(), options, ["CPUExecutionProvider"])
    pixels = x.numpy()
    return lambda: session.run(None, {"x": pixels})


def works(batch: int, device: torch.device) -> dict[tuple[str, int], Callable[[], object]]:
    torch.manual_seed(0)
    written = EfficientNetLite(NAME).eval()
    folded = fold_batch_norms(written, SIZE).to(device)
    last = fold_batch_norms(written, SIZE).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    made: dict[tuple[str, int], Callable[[], object]] = {}
    for n in (batch, 1):
        x = torch.randn(n, 3, SIZE, SIZE, device=device)
        pixels_last = x.to(memory_format=torch.channels_last)
        made[NETWORK, n] = eager(last, pixels_last)
        made["network: folded, channels first", n] = eager(folded, x)
        if device.type == "cpu":
            made[f"{NETWORK}, without oneDNN", n] = eager(last, pixels_last, mkldnn=False)
            if runtime := in_onnx_runtime(folded, x):
                made["network: ONNX Runtime", n] = runtime
    made["network: as written", batch] = eager(written.to(device), torch.randn(batch, 3, SIZE, SIZE, device=device))
    for look in (None, "quick", "careful"):
        backbone = create_backbone(NAME, views=look, stages=look, device=device.type)
        for n in (batch, 1):
            made[f"backbone: {look or 'plain'}", n] = whole(backbone, n)
    return made


def kind_of(layer: nn.Module) -> str | None:
    if isinstance(layer, nn.Conv2d):
        return "depthwise convolutions" if layer.groups > 1 else "other convolutions"
    return "ReLU6" if isinstance(layer, nn.ReLU6) else None


def by_kind(batch: int, rounds: int) -> list[dict[str, object]]:
    """Where the time of the network goes; the median round of each layer, and of the whole."""
    network = fold_batch_norms(EfficientNetLite(NAME).eval(), SIZE).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(batch, 3, SIZE, SIZE).to(memory_format=torch.channels_last)
    spent: dict[nn.Module, list[float]] = {}
    arithmetic: dict[nn.Module, float] = {}

    def before(layer: nn.Module, _: object) -> None:
        spent.setdefault(layer, []).append(-time.perf_counter())

    def after(layer: nn.Module, _: object, output: Tensor) -> None:
        spent[layer][-1] += time.perf_counter()
        arithmetic[layer] = 2.0 * output.numel() * layer.weight[0].numel() if isinstance(layer, nn.Conv2d) else 0.0

    for layer in network.modules():
        if kind_of(layer):
            layer.register_forward_pre_hook(before)
            layer.register_forward_hook(after)
    whole, product, ceiling = [], *gemm(torch.device("cpu"))
    rates = []
    for _ in range(rounds):
        start = time.perf_counter()
        with torch.inference_mode():
            network(x)
        whole.append(time.perf_counter() - start)
        rates.append(rate(product, ceiling, 0.1, torch.device("cpu")))
    total, flop = statistics.median(whole), sum(arithmetic.values())
    rows: list[dict[str, object]] = []
    for kind in ("depthwise convolutions", "other convolutions", "ReLU6"):
        layers = [layer for layer in spent if kind_of(layer) == kind]
        seconds = sum(statistics.median(spent[layer]) for layer in layers)
        own = sum(arithmetic[layer] for layer in layers)
        rows.append(
            {
                "what": f"of which {kind}",
                "batch": batch,
                "share_of_gemm_rate": f"{own / seconds / statistics.median(rates):.3f}" if own else "",
                "share_of_time": f"{seconds / total:.2f}",
                "share_of_arithmetic": f"{own / flop:.2f}",
            }
        )
    return rows


def measure(device: str, batch: int, rounds: int, seconds: float) -> list[dict[str, object]]:
    where = torch.device(device)
    product, operations = gemm(where)
    per_image = flops(EfficientNetLite(NAME).eval(), SIZE)
    timed = works(batch, where)
    speeds: dict[tuple[str, int], list[float]] = {key: [] for key in timed}
    ceilings: list[float] = []
    for work in (product, *timed.values()):
        work()  # the first call chooses kernels
    for _ in range(rounds):
        ceilings.append(rate(product, operations, seconds, where) / per_image)
        for key, work in timed.items():
            speeds[key].append(rate(work, key[1], seconds, where))
    about = {
        "gflop_per_image": f"{per_image / 1e9:.4f}",
        "device": torch.cuda.get_device_name() if where.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "rounds": rounds,
        "load": f"{os.getloadavg()[0]:.1f}",
        "version": __version__,
        "torch": torch.__version__,
        "command": COMMAND,
    }
    rows: list[dict[str, object]] = [
        {
            "what": what,
            "batch": n,
            "share_of_gemm_rate": f"{np.median(np.divide(values, ceilings)):.3f}",
            "times_the_backbone_s_network": f"{np.median(np.divide(values, speeds[NETWORK, batch])):.2f}",
            # A CPU's absolute speed says more about the machine than about this library.
            "images_per_second": f"{statistics.median(values):.0f}" if where.type == "cuda" else "",
        }
        for (what, n), values in speeds.items()
    ]
    rows += by_kind(batch, 10 * rounds) if where.type == "cpu" else []
    return [row | about for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4, help="images at once; 4 is the backbone's own on a CPU")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each timing")
    parser.add_argument("--out", type=Path, default=SPEED / "photo_network_speed.csv")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = measure(args.device, args.batch, args.rounds, args.seconds)
    table = Table(*SHOWN)
    for row in rows:
        table.add_row(*(str(row.get(field, "")) for field in SHOWN))
    Console(width=130).print(table)
    write(args.out, rows, FIELDS)


if __name__ == "__main__":
    main()
