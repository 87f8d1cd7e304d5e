"""How fast learning goes with more workers, what travels, and how long merging takes.

    python benchmarks/scale_out.py                                  # here, processes and Ray, 1 and 2 workers
    python benchmarks/scale_out.py --workers 1,2,4,8,16 --device cuda

Image files are read, decoded, looked at and learned by `vs.learn`, rows learned, and empty items passed to workers and
back. Each place does so many images or rows *a worker*, all places in turn, round after round. A ratio is to `here`,
one process without Ray, within a round; the median round is reported. Before that every place works once, so that
processes are started and networks prepared: the seconds of that first call are in the rows `start`.

"alone" is what as many processes do that know nothing of each other, each teaching a model of its own `here`: no more
can be had of these cores.

"bytes back" is what a worker returns for an image, "bytes sent" what it is told: names of files, or rows. "merge"
reads and merges parts as the driver does. "driver" is processor time of this process, of which `here` has all.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import votestream as vs
from rows import COMMAND, SPEED, append
from votestream._version import __version__
from votestream.core.merge import begun_like
from votestream.distributed.chunk_work import ChunkWork
from votestream.distributed.chunks import RowExtractor, chunks_of
from votestream.distributed.executor import Executor, executor, single_threaded
from votestream.distributed.merge_tree import MergeTree
from votestream.distributed.parts import Part, merged

FIELDS = (
    *(
        "what",
        "detail",
        "on",
        "workers",
        "count",
        "chunk",
        "per second",
        "times here",
        "seconds",
        "driver",
        "bytes back",
    ),
    *("bytes sent", "device", "cores", "load", "rounds", "version", "torch", "ray", "command"),
)
PARTS = 2, 8, 32, 128
MERGED, GROUPS = 512, (2, 4, 8, 16)  # rows of a chunk, and chunks of which one part is made


class Counted(Executor):
    """An executor, and how many bytes went to its workers and came back."""

    def __init__(self, place: Executor) -> None:
        self._place, self.name, self.workers, self.sent, self.back = place, place.name, place.workers, 0, 0

    def run(self, make: Callable[[], Callable[[Any], Any]], items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for number, result in self._place.run(make, map(self._count, items)):
            self.back += len(result)
            yield number, result

    def _count(self, item: Any) -> Any:
        self.sent += len(pickle.dumps(item))
        return item

    def close(self) -> None:
        self._place.close()


def echo() -> Callable[[int], int]:
    return lambda item: item


def write_images(folder: Path, size: tuple[int, int], kind: str, count: int) -> list[str]:
    """Smooth noise, which takes about as many bytes as a photo does."""
    rng, names = np.random.default_rng(0), []
    for number in range(count):
        coarse = rng.integers(0, 256, (size[1] // 8, size[0] // 8, 3)).astype(np.uint8)
        names.append(str(folder / f"{number}.{kind}"))
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(names[-1])
    return names


class Work:
    """One thing to be timed: `run(place, count)` does it for so many."""

    def __init__(self, what: str, detail: str, count: int, chunk: int, device: str = "cpu") -> None:
        self.what, self.detail, self.count, self.chunk, self.device = what, detail, count, chunk, device

    def run(self, place: Executor, count: int) -> None:
        raise NotImplementedError


class Extraction(Work):
    def __init__(self, files: list[str], backbone: str, count: int, chunk: int, device: str) -> None:
        super().__init__("images", f"{backbone}, NCM, 10 classes", count, chunk, device)
        self._files, self._backbone = files, vs.create_backbone(backbone, device=device)

    def run(self, place: Executor, count: int) -> None:
        names = [self._files[i % len(self._files)] for i in range(count)]
        model = vs.ImageClassifier(self._backbone, vs.NearestClassMean(device="cpu"))
        vs.learn(names, np.arange(count) % 10, model, on=place, chunk=self.chunk)


class Rows(Work):
    def __init__(self, width: int, count: int, chunk: int) -> None:
        super().__init__("rows", f"GaussianVoting, {width} features, 100 classes mixed", count, chunk)
        rng = np.random.default_rng(0)
        self._X = rng.normal(size=(4 * chunk, width)).astype(np.float32)

    def run(self, place: Executor, count: int) -> None:
        X = self._X[np.arange(count) % len(self._X)]
        vs.learn(X, np.arange(count) % 100, vs.GaussianVoting(device="cpu"), on=place, chunk=self.chunk)


class Nothing(Work):
    def __init__(self, count: int) -> None:
        super().__init__("items", "nothing done", count, 1)

    def run(self, place: Executor, count: int) -> None:
        for _ in place.run(echo, range(count)):
            pass


def about(rounds: int) -> dict[str, Any]:
    try:
        ray = version("ray")
    except PackageNotFoundError:
        ray = ""
    load = f"{os.getloadavg()[0]:.1f}"
    made = {"cores": os.cpu_count(), "load": load, "rounds": rounds, "version": __version__}
    return {**made, "torch": torch.__version__, "ray": ray, "command": COMMAND}


def places(ons: list[str], workers: list[int], cuda: bool, open_: contextlib.ExitStack) -> Iterator[Executor]:
    """`here` first, then every place with every number of workers, started as they are asked for."""
    yield executor("here")
    for on in ons:
        if on == "ray":
            from votestream.distributed.ray_cluster import RayCluster

            try:  # room for the workers of all places at once; those that have nothing to do use no core
                open_.callback(RayCluster(on, sum(workers)).close)
            except ModuleNotFoundError as error:
                print(f"Left out: {error}", file=sys.stderr)
                continue
        for number in workers if on != "here" else []:
            yield open_.enter_context(executor(on, number, cuda))


def measure(works: list[Work], there: list[Executor], rounds: int, write: Callable[..., None]) -> None:
    for work in works:
        moved: dict[Executor, dict[str, int]] = {}
        speeds: dict[Executor, list[float]] = {place: [] for place in there}
        used: dict[Executor, list[float]] = {place: [] for place in there}
        for place in there:
            counted, start = Counted(place) if work.what != "items" else place, time.perf_counter()
            work.run(counted, work.chunk * place.workers)
            row = {"on": place.name, "workers": place.workers, "detail": work.detail, "device": work.device}
            write(what="start", **row, seconds=time.perf_counter() - start)
            if isinstance(counted, Counted):
                images = work.chunk * place.workers
                if work.what == "rows":  # as many as are timed later: workers merge once they see how large parts are
                    counted.sent, counted.back, images = 0, 0, work.count * place.workers
                    work.run(counted, images)
                moved[place] = {"bytes back": counted.back // images, "bytes sent": counted.sent // images}
        for _ in range(rounds):
            for place in there:
                start, used_before, count = time.perf_counter(), time.process_time(), work.count * place.workers
                work.run(place, count)
                speeds[place].append(count / (time.perf_counter() - start))
                used[place].append(time.process_time() - used_before)
        for place, rates in speeds.items():
            ratio = statistics.median(a / b for a, b in zip(rates, speeds[there[0]], strict=True))
            row = {"on": place.name, "workers": place.workers, "detail": work.detail, "device": work.device}
            row |= {
                "count": work.count * place.workers,
                "chunk": work.chunk,
                **moved.get(place, {}),
                "driver": statistics.median(used[place]),
            }
            write(what=work.what, **row, **{"per second": statistics.median(rates), "times here": ratio})


def measure_alone(works: list[Work], workers: list[int], rounds: int, write: Callable[..., None]) -> None:
    """What images a second the machine allows; a ratio is to one process, the median round of each."""
    fresh = multiprocessing.get_context("spawn")
    for work in works:
        one = None
        for number in sorted({1, *workers}):
            start, end = fresh.Barrier(number + 1), fresh.Barrier(number + 1)
            processes = [fresh.Process(target=_alone, args=(work, rounds, start, end)) for _ in range(number)]
            for process in processes:
                process.start()
            seconds = []
            for _ in range(rounds):
                start.wait()
                began = time.perf_counter()
                end.wait()
                seconds.append(time.perf_counter() - began)
            for process in processes:
                process.join()
            rate = number * work.count / statistics.median(seconds)
            one = one or rate
            row = {"on": "alone", "workers": number, "detail": work.detail, "device": work.device}
            row |= {"count": number * work.count, "chunk": work.chunk}
            write(what=work.what, **row, **{"per second": rate, "times here": rate / one})


def _alone(work: Work, rounds: int, start: Any, end: Any) -> None:
    with executor("here") as place:
        work.run(place, work.chunk)
        for _ in range(rounds):
            start.wait()
            work.run(place, work.count)
            end.wait()


def measure_merging(
    width: int, mixed: bool, group: int, counts: Sequence[int], rounds: int, write: Callable[..., None]
) -> None:
    """Parts of so many chunks of rows of one class each, or of 100 classes, made from 8 that differ."""
    rng, rows = np.random.default_rng(0), MERGED * group
    X = rng.normal(size=(8 * rows, width)).astype(np.float32)
    y = (np.arange(8 * rows) if mixed else np.arange(8 * rows) // rows) % 100
    with single_threaded():
        make = ChunkWork(RowExtractor(), begun_like(vs.GaussianVoting(device="cpu"), X[:10]), "a task")()
        chunks = list(chunks_of(X, y.tolist(), MERGED))
        blobs = [make(chunks[first : first + group]) for first in range(0, len(chunks), group)]
        for count in counts:
            seconds, used = [], []
            for _ in range(rounds):
                start, used_before, tree = time.perf_counter(), time.process_time(), MergeTree(merged)
                for number in range(count):
                    tree.add(number, Part.from_bytes(blobs[number % len(blobs)]).learner)
                tree.result()
                seconds.append(time.perf_counter() - start)
                used.append(time.process_time() - used_before)
            detail = f"GaussianVoting, {width} features, {'100 classes mixed' if mixed else 'sorted by class'}"
            moved = {"driver": statistics.median(used), "bytes back": len(blobs[0]) // rows}
            write(what="merge", detail=detail, count=count, chunk=rows, seconds=statistics.median(seconds), **moved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="here,processes,ray")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--device", default="cpu", help="of the backbones")
    parser.add_argument("--images", type=int, default=256, help="a worker, of the large backbone")
    parser.add_argument("--small-images", type=int, default=4096, help="a worker, of the built-in backbone")
    parser.add_argument("--rows", type=int, default=32_768, help="a worker")
    parser.add_argument("--items", type=int, default=2000, help="a worker, with which nothing is done")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="alone,images,rows,items,merge")
    parser.add_argument("--out", type=Path, default=SPEED / "scale_out.csv")
    args = parser.parse_args()
    only, described = args.only.split(","), about(args.rounds)
    args.out.unlink(missing_ok=True)

    def write(**row: Any) -> None:
        row = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()}
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        append(args.out, {**row, **described}, FIELDS)

    with tempfile.TemporaryDirectory() as folder:
        works: list[Work] = []
        if "images" in only:
            small = write_images(Path(folder), (32, 32), "png", 512)
            large = write_images(Path(folder), (480, 360), "jpg", 128)
            works.append(Extraction(small, "reduced_resnet18", args.small_images, 512, args.device))
            try:
                works.append(Extraction(large, "efficientnet_lite0", args.images, 64, args.device))
            except ImportError as error:  # a machine without the package of its weights
                print(f"Left out: {error}", file=sys.stderr)
        if "rows" in only:
            works += [Rows(160, args.rows, 512), Rows(1280, args.rows // 8, 512)]
        if "items" in only:
            works.append(Nothing(args.items))
        with contextlib.ExitStack() as open_:
            workers = [int(number) for number in args.workers.split(",")]
            if "alone" in only:
                measure_alone([work for work in works if work.what == "images"], workers, args.rounds, write)
            measure(works, list(places(args.on.split(","), workers, args.device != "cpu", open_)), args.rounds, write)
    for width in (160, 1280) if "merge" in only else ():
        for mixed in (True, False):
            measure_merging(width, mixed, 1, PARTS, args.rounds, write)
        for group in GROUPS:
            measure_merging(width, True, group, PARTS[-1:], args.rounds, write)


if __name__ == "__main__":
    main()
