"""Learning and predicting over HTTP beside the same calls in Python, in one run.

    python benchmarks/serve_speed.py                    # writes results/speed/serve_speed.csv
    python benchmarks/serve_speed.py --rounds 3 --seconds 3 --out speed.csv

`votestream serve` runs in a process of its own; this one sends requests and makes the same calls itself, in turns: a
ratio is taken within each round, and the median round is reported. In Python, an image is decoded and looked at, and an
answer is its probabilities, unknown score and vote; a lesson is `partial_fit`, which puts nothing on disk.

- throughput: images in a multipart request, or rows of features as float32, a second over HTTP, over those in Python;
  of features predicted, the labels, confidences and unknown scores (`columns=true`)
- overhead: one image in one request, HTTP less Python, in milliseconds
- p99: of predictions of one image, while another process teaches one image after another, over that without
"""

from __future__ import annotations

import argparse
import http.client
import io
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import torch
from PIL import Image

import votestream as vs
from rows import COMMAND, SPEED, write
from serving import TOKEN, sample_pngs, served
from votestream.pipeline import ImageClassifier

FIELDS = ["what", "images", "batch", "over_http", "in_python", "ratio", "overhead_ms", "goal", "met", "rounds"]
FIELDS += ["cores", "load", "version", "torch", "command"]
BATCH, ROWS = 64, 1024
Files = list[tuple[str, bytes]]


def photos(files: Files, side: int) -> Files:
    """The same images as JPEG photos of a size."""
    found = []
    for label, data in files:
        image, file = Image.open(io.BytesIO(data)).resize((side, side), Image.Resampling.BICUBIC), io.BytesIO()
        image.save(file, "jpeg", quality=90)
        found.append((label, file.getvalue()))
    return found


class InPython:
    """The model that the service serves, and the calls that a request stands for."""

    def __init__(self, client: httpx.Client, folder: Path) -> None:
        path = folder / "copy.safetensors"
        path.write_bytes(client.get("/v1/model/file").content)
        model = vs.load(path)
        assert isinstance(model, ImageClassifier)
        self.backbone, self.learner = model.backbone_, model.learner_

    def look(self, files: Files) -> np.ndarray:
        return self.backbone([Image.open(io.BytesIO(data)) for _, data in files])

    def answer(self, rows: np.ndarray) -> None:
        snapshot = self.learner.snapshot()
        snapshot.predict_proba(rows)
        snapshot.unknown_score(rows)
        snapshot.vote(rows)

    def columns(self, rows: np.ndarray) -> None:
        snapshot = self.learner.snapshot()
        snapshot.predict_proba(rows)
        snapshot.unknown_score(rows)

    def predict(self, files: Files) -> None:
        self.answer(self.look(files))

    def learn(self, files: Files) -> None:
        self.learner.partial_fit(self.look(files), [label for label, _ in files])


class Plain:
    """A client that adds as little of its own as Python allows, on one connection."""

    def __init__(self, address: httpx.URL | str) -> None:
        address = httpx.URL(address)
        self._connection = http.client.HTTPConnection(address.host, address.port or 80, timeout=60)

    def post(self, path: str, body: bytes, kind: str = "application/octet-stream", **query: Any) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        self._connection.request("POST", f"{path}?{urlencode(query, doseq=True)}", body, headers)
        answer = self._connection.getresponse()
        told = answer.read()
        assert answer.status == 200, told


def as_form(files: Files) -> tuple[bytes, str]:
    """The body of a form with these files, and its type."""
    head = '--b\r\nContent-Disposition: form-data; name="file"; filename="{}.png"\r\n\r\n'
    parts = [head.format(n).encode() + data + b"\r\n" for n, (_, data) in enumerate(files)]
    return b"".join(parts) + b"--b--\r\n", "multipart/form-data; boundary=b"


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(
    over_http: Callable[[], object], in_python: Callable[[], object], rounds: int
) -> list[tuple[float, float]]:
    """Seconds of both in each round, the order changing; the first round only warms up."""
    pairs = []
    for n in range(rounds + 1):
        if n % 2:
            mine = seconds(in_python)
            pairs.append((seconds(over_http), mine))
        else:
            theirs = seconds(over_http)
            pairs.append((theirs, seconds(in_python)))
    return pairs[1:]


def throughput(what: str, images: str, batch: int, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratio = statistics.median(python / http for http, python in pairs)
    rates = [batch / statistics.median(side) for side in zip(*pairs, strict=True)]
    told = {"over_http": f"{rates[0]:.0f} a second", "in_python": f"{rates[1]:.0f} a second"}
    return {"what": what, "images": images, "batch": batch, **told, "ratio": f"{ratio:.2f}"} | goal(
        ratio, 0.6, "at least"
    )


def overhead(what: str, images: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    more = 1000 * statistics.median(http - python for http, python in pairs)
    medians = [1000 * statistics.median(side) for side in zip(*pairs, strict=True)]
    told = {"over_http": f"{medians[0]:.1f} ms", "in_python": f"{medians[1]:.1f} ms", "overhead_ms": f"{more:.1f}"}
    return {"what": what, "images": images, "batch": 1, **told} | goal(more, 5.0, "at most")


def goal(value: float, bound: float, which: str) -> dict[str, Any]:
    return {"goal": f"{which} {bound}", "met": value >= bound if which == "at least" else value <= bound}


def compare(client: Plain, python: InPython, files: Files, images: str, rounds: int) -> Iterator[dict[str, Any]]:
    many, one, label = files[:BATCH], files[:1], files[0][0]
    same = [(label, data) for _, data in many]  # a request teaches one class
    form = as_form(many)
    pairs = in_turns(lambda: client.post("/v1/predict", *form), lambda: python.predict(many), rounds)
    yield throughput("predict images", images, BATCH, pairs)
    pairs = in_turns(lambda: client.post("/v1/learn", *form, label=label), lambda: python.learn(same), rounds)
    yield throughput("learn images", images, BATCH, pairs)
    rows = np.tile(python.look(many), (ROWS // BATCH, 1))
    raw, width = rows.astype("<f4").tobytes(), rows.shape[1]
    pairs = in_turns(
        lambda: client.post("/v1/predict-features", raw, width=width, columns=True),
        lambda: python.columns(rows),
        rounds,
    )
    yield throughput("predict features", images, len(rows), pairs)
    some, names = rows[:BATCH], [label for label, _ in many]
    raw_some = some.astype("<f4").tobytes()
    pairs = in_turns(
        lambda: client.post("/v1/learn-features", raw_some, width=width, label=names),
        lambda: python.learner.partial_fit(some, names),
        rounds,
    )
    yield throughput("learn features", images, BATCH, pairs)
    data = one[0][1]
    pairs = in_turns(lambda: client.post("/v1/predict", data), lambda: python.predict(one), 10 * rounds)
    yield overhead("predict one image", images, pairs)
    pairs = in_turns(lambda: client.post("/v1/learn", data, label=label), lambda: python.learn(one), 10 * rounds)
    yield overhead("learn one image", images, pairs)


def teach_without_end(address: str, files: Files) -> None:
    client = Plain(address)
    while True:
        for label, data in files:
            client.post("/v1/learn", data, label=label)


@contextmanager
def taught_meanwhile(address: str, files: Files) -> Iterator[None]:
    teacher = multiprocessing.get_context("spawn").Process(target=teach_without_end, args=(address, files), daemon=True)
    teacher.start()
    try:
        yield
    finally:
        teacher.terminate()
        teacher.join()


def p99(client: Plain, files: Files, how_long: float) -> float:
    taken: list[float] = []
    end = time.perf_counter() + how_long
    while time.perf_counter() < end:
        taken.append(seconds(partial(client.post, "/v1/predict", files[len(taken) % len(files)][1])))
    return float(np.percentile(taken, 99))


def while_learning(client: httpx.Client, files: Files, images: str, rounds: int, how_long: float) -> dict[str, Any]:
    pairs = []
    for _ in range(rounds):
        quiet = p99(Plain(client.base_url), files, how_long)
        with taught_meanwhile(str(client.base_url), files):
            before = client.get("/v1/model").json()["lesson"]
            while client.get("/v1/model").json()["lesson"] < before + 3:
                time.sleep(0.05)  # the teacher starts
            pairs.append((p99(Plain(client.base_url), files, how_long), quiet))
    ratio = statistics.median(busy / quiet for busy, quiet in pairs)
    medians = [1000 * statistics.median(side) for side in zip(*pairs, strict=True)]
    told = {"over_http": f"{medians[0]:.1f} ms while learning", "in_python": f"{medians[1]:.1f} ms without (over HTTP)"}
    about = {"what": "p99 of predictions", "images": images, "batch": 1, **told, "ratio": f"{ratio:.2f}"}
    return about | goal(ratio, 3.0, "at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each p99")
    parser.add_argument("--out", type=Path, default=SPEED / "serve_speed.csv")
    args = parser.parse_args()
    small = sample_pngs()[::5]
    rows = []
    for images, files in (("32 x 32 PNG", small), ("320 x 320 JPEG", photos(small, 320))):
        with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "m.safetensors") as client:
            plain = Plain(client.base_url)
            for label in dict.fromkeys(label for label, _ in files):
                plain.post("/v1/learn", *as_form([file for file in files if file[0] == label]), label=label)
            python = InPython(client, Path(folder))
            found = [*compare(plain, python, files, images, args.rounds)]
            found.append(while_learning(client, files, images, max(3, args.rounds // 3), args.seconds))
        for row in found:
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        rows += found
    about = {"rounds": args.rounds, "cores": os.cpu_count(), "load": f"{os.getloadavg()[0]:.1f}"}
    about |= {"version": vs.__version__, "torch": torch.__version__, "command": COMMAND}
    write(args.out, [{**row, **about} for row in rows], FIELDS)


if __name__ == "__main__":
    main()
