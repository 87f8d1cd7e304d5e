"""Photos a second from disk to model, as `votestream learn` goes, beside the bare network and the bare decoding.

    python benchmarks/photo_speed.py                   # on one core and on two
    python benchmarks/photo_speed.py --device cuda     # the network on the GPU, decoding on every core

A folder of 12-megapixel JPEGs and one of 500 pixels, generated, so the files are in the system's cache. In turns, round
after round: the network alone on tensors that are ready, Pillow alone in as many threads as there are cores, and a new
model that is taught the folder (opening it is not counted). Where decoding and the network share the cores, the most
that can be had is one after the other on all of them: "of both in turn". With a GPU it is the slower of the two.
The parts are shares of the time of the thread that learns: it waits for features, or learns and saves.

"by processes" is `votestream learn --on processes`, a process a core, where there is more than one; they are started
before. Beside it stands Pillow alone in the same processes, which have no lock of Python's in common.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from rows import COMMAND, SPEED, write
from votestream._version import __version__
from votestream.backbones import Backbone
from votestream.backbones.backbone import exact
from votestream.common.cores import usable_cores
from votestream.distributed.executor import Executor
from votestream.photos.parallel_training import ParallelPhotoTraining, make_executor
from votestream.photos.photo_list import list_photos
from votestream.photos.training import PhotoTraining

SHOWN = [
    *("photos", "cores", "photos_per_second", "network_per_second", "decoding_per_second", "of_the_slower"),
    *("of_both_in_turn", "waiting", "learner", "by_processes", "decoding_by_processes", "processes_of_the_slower"),
    "processes_of_both_in_turn",
]
FIELDS = [*SHOWN, "pixels", "files", "device", "rounds", "load", "version", "torch", "command"]
SETTINGS: dict[str, Any] = dict.fromkeys(("backbone", "views", "stages", "learner", "budget", "max_pixels"))
CLASSES, DIFFERENT, GROUP = 10, 6, 8


class Kind(NamedTuple):
    name: str
    size: tuple[int, int]
    files: dict[str, int]  # on a CPU, on a GPU


KINDS = (
    Kind("12 megapixels", (4032, 3024), {"cpu": 60, "cuda": 1200}),
    Kind("500 pixels", (500, 375), {"cpu": 120, "cuda": 8000}),
)


def generate(folder: Path, kind: Kind, number: int) -> None:
    """Blots of all sizes and some grain, as JPEGs of a camera's quality; a few bytes at the end tell copies apart."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(DIFFERENT):
        pixels = np.zeros((kind.size[1], kind.size[0], 3), np.float32)
        for cells in (4, 16, 64, 256):
            blots = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), np.uint8))
            pixels += np.asarray(blots.resize(kind.size, Image.Resampling.BICUBIC), np.float32) / 4
        pixels += rng.normal(0, 4, (*pixels.shape[:2], 1)).astype(np.float32)
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
        made.append(file.getvalue())
    for i in range(number):
        path = folder / f"class {i % CLASSES}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made[i % DIFFERENT] + i.to_bytes(4, "big"))


def bare_network(backbone: Backbone) -> Callable[[], int]:
    """Some batches through the network, on tensors that are where it runs; the number of images."""
    blank = np.zeros((backbone.batch_size, backbone.input_size, backbone.input_size, 3), np.uint8)
    x = backbone.preprocessing.normalise(blank, backbone.device) + torch.randn(1, device=backbone.device)
    batches = max(1, 40 // backbone.batch_size) if backbone.device.type == "cpu" else 30

    def work() -> int:
        with torch.inference_mode(), exact(backbone.device):
            for _ in range(batches):
                backbone._output(x)
        if backbone.device.type == "cuda":
            torch.cuda.synchronize()
        return batches * backbone.batch_size

    return work


def decode(path: Path, size: int) -> np.ndarray:
    """Nothing but Pillow: read, decode as small as three times the size allows, resize, cut."""
    with Image.open(path) as image:
        times = max([n for n in (2, 4, 8) if min(image.size) >= 3 * n * size], default=1)
        image.draft(None, (image.width // times, image.height // times))
        image.load()
        short = min(image.size)
        whole = image.resize((image.width * size // short, image.height * size // short), Image.Resampling.BICUBIC)
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    return np.asarray(whole.crop((left, top, left + size, top + size)))


def bare_decoding(paths: list[Path], size: int, cores: int) -> Callable[[], int]:
    def work() -> int:
        with ThreadPoolExecutor(cores) as pool:
            return sum(1 for _ in pool.map(partial(decode, size=size), paths))

    return work


def decoder(size: int) -> Callable[[list[Path]], int]:
    """For workers, who keep what they decode to themselves."""
    return lambda group: sum(len(decode(path, size)) > 0 for path in group)


def decoding_by_processes(paths: list[Path], size: int, place: Executor) -> Callable[[], int]:
    groups = [paths[start : start + GROUP] for start in range(0, len(paths), GROUP)]
    return lambda: sum(count for _, count in place.run(partial(decoder, size), groups))


def teach(folder: Path, device: str) -> tuple[float, dict[str, float]]:
    """Photos a second of a new model that learns the folder, and the parts as shares of the time."""
    with tempfile.TemporaryDirectory() as place:
        model = Path(place, "model.safetensors")
        training = PhotoTraining(model, list_photos(folder), {**SETTINGS, "device": device}, None, 0, 1000)
        spent = {"learner": 0.0}
        training.stored.learn = _timed(training.stored.learn, spent, "learner")  # type: ignore[method-assign]
        training.stored.save = _timed(training.stored.save, spent, "learner")  # type: ignore[method-assign]
        start = time.perf_counter()
        result = training.run()
        seconds = time.perf_counter() - start
    assert not result.problems, result.problems
    shares = {part: value / seconds for part, value in spent.items()}
    return sum(result.learned.values()) / seconds, {"waiting": 1 - sum(shares.values()), **shares}


def teach_by_processes(folder: Path, device: str, place: Executor) -> float:
    """The same by the executor's workers."""
    with tempfile.TemporaryDirectory() as at:
        found = list_photos(folder)
        training = ParallelPhotoTraining(
            Path(at, "model.safetensors"), found, {**SETTINGS, "device": device}, None, 0, 1000
        )
        start = time.perf_counter()
        result = training.run_on(found, place, None, None)
        seconds = time.perf_counter() - start
    assert not result.problems, result.problems
    return sum(result.learned.values()) / seconds


def _timed(work: Callable[..., Any], spent: dict[str, float], part: str) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return work(*arguments)
        finally:
            spent[part] += time.perf_counter() - start

    return timed


def rate(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    return work() / (time.perf_counter() - start)


def of_the_slower(seen: list[tuple[float, float, float]]) -> str:
    return f"{statistics.median(speed / min(others) for speed, *others in seen):.2f}" if seen else ""


def of_both_in_turn(seen: list[tuple[float, float, float]], device: str) -> str:
    """Where they share the cores."""
    together = [speed * (1 / looking + 1 / decoded) for speed, looking, decoded in seen]
    return f"{statistics.median(together):.2f}" if together and device == "cpu" else ""


def measure(kind: Kind, folder: Path, device: str, cores: int, rounds: int) -> dict[str, Any]:
    torch.set_num_threads(cores)
    backbone = PhotoTraining(folder / "none", list_photos(folder), {**SETTINGS, "device": device}, None, 0, 0).backbone
    paths = sorted(folder.glob("*/*.jpg"))
    network, decoding = bare_network(backbone), bare_decoding(paths, backbone.input_size, cores)
    network()  # the first call chooses kernels
    seen: list[tuple[float, float, float]] = []
    by_processes: list[tuple[float, float, float]] = []
    parts: list[dict[str, float]] = []
    workers = make_executor("processes", cores, device) if cores > 1 else None
    if workers is not None:
        teach_by_processes(folder, device, workers)
    for _ in range(rounds):
        looking, decoded = rate(network), rate(decoding)
        speed, shares = teach(folder, device)
        seen.append((speed, looking, decoded))
        parts.append(shares)
        if workers is not None:
            decoded = rate(decoding_by_processes(paths, backbone.input_size, workers))
            by_processes.append((teach_by_processes(folder, device, workers), looking, decoded))
    if workers is not None:
        workers.close()
    speeds, networks, decodings = zip(*seen, strict=True)
    return {
        "photos": kind.name,
        "cores": cores,
        "photos_per_second": f"{statistics.median(speeds):.1f}",
        "network_per_second": f"{statistics.median(networks):.1f}",
        "decoding_per_second": f"{statistics.median(decodings):.1f}",
        "of_the_slower": of_the_slower(seen),
        "of_both_in_turn": of_both_in_turn(seen, device),
        **{part: f"{statistics.median(each[part] for each in parts):.2f}" for part in parts[0]},
        "by_processes": f"{statistics.median(one[0] for one in by_processes):.1f}" if by_processes else "",
        "decoding_by_processes": f"{statistics.median(one[2] for one in by_processes):.1f}" if by_processes else "",
        "processes_of_the_slower": of_the_slower(by_processes),
        "processes_of_both_in_turn": of_both_in_turn(by_processes, device),
        "pixels": f"{kind.size[0]} x {kind.size[1]}",
        "files": len(paths),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "rounds": rounds,
        "load": f"{os.getloadavg()[0]:.1f}",
        "version": __version__,
        "torch": torch.__version__,
        "command": COMMAND,
    }


@contextmanager
def only(cores: int) -> Iterator[None]:
    """Processes that are started meanwhile have so many cores."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:cores])
    os.environ["OMP_NUM_THREADS"] = str(cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--cores", type=int, nargs="+", help="1 and 2 on a CPU, all beside a GPU, unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=float, default=1.0, help="times as many photos as usual")
    parser.add_argument("--out", type=Path, default=SPEED / "photo_speed.csv")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for kind in KINDS:
            generate(Path(place, kind.name), kind, int(args.files * kind.files[args.device]))
            os.sync()  # so that nothing waits for a disk that is still writing these
            for cores in args.cores or ([1, 2] if args.device == "cpu" else [usable_cores()]):
                fresh = multiprocessing.get_context("spawn")
                with only(cores), ProcessPoolExecutor(1, fresh) as process:
                    job = (kind, Path(place, kind.name), args.device, cores, args.rounds)
                    rows.append(process.submit(measure, *job).result())
    table = Table(*SHOWN)
    for row in rows:
        table.add_row(*(str(row[field]) for field in SHOWN))
    Console(width=170).print(table)
    write(args.out, rows, FIELDS)


if __name__ == "__main__":
    main()
