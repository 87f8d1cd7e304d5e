"""What followers of `votestream serve` bring and cost, over real connections on one computer.

    python benchmarks/serve_followers.py     # adds rows to results/speed/serve_followers.csv

Predictions: clients ask the writer, or the writer and one or two followers at once, each with two connections, images
and rows of features in turn; all services share the cores of this computer, so that three of them need three.
Delay: one client teaches the writer at a steady rate, another asks a follower without a pause. The delay of a lesson is
the time from the writer's answer to the follower's first answer that knows the lesson.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

import votestream as vs
from rows import COMMAND, SPEED, append
from serving import TOKEN, sample_pngs, served

FILE = SPEED / "serve_followers.csv"
FIELDS = [
    "what",
    "followers",
    "predictions a second",
    "lessons a second",
    "lessons",
    "median ms",
    "p99 ms",
    "model bytes",
]
FIELDS += ["cores", "version", "command"]
KEY = {"Authorization": f"Bearer {TOKEN}"}
CONNECTIONS = 2  # to each service
IMAGES, ROWS = 64, 1024  # of one request


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="that each rate of predictions is measured for")
    parser.add_argument("--lessons", type=int, default=200, help="that each delay is measured with")
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    os.environ["VOTESTREAM_FOLLOW_TOKEN"] = TOKEN
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_now:
        writer = open_now.enter_context(served(Path(folder, "writer.safetensors"), "--sample"))
        while not writer.get("/v1/model").json()["classes"]:
            time.sleep(0.1)
        services = [writer]
        for number in range(3):
            if number:
                copy = Path(folder, f"copy {number}.safetensors")
                services.append(open_now.enter_context(served(copy, "--follow", str(writer.base_url).rstrip("/"))))
            for what, (path, body, kind, size) in requests(writer).items():
                rate = predictions_a_second(services, path, body, kind, size, given.seconds)
                note(given.out, writer, what=what, followers=number, **{"predictions a second": round(rate, 1)})
        for rate in (5, 20):
            delays = delays_of(writer, services[1], given.lessons, rate)
            told = {"lessons a second": rate, "lessons": len(delays), "median ms": round(statistics.median(delays), 1)}
            note(
                given.out,
                writer,
                what="delay",
                followers=2,
                **told,
                **{"p99 ms": round(float(np.quantile(delays, 0.99)), 1)},
            )


def note(out: Path, writer: httpx.Client, **about: Any) -> None:
    size = len(writer.get("/v1/model/file").content)
    row = {**about, "model bytes": size, "cores": os.cpu_count(), "version": vs.__version__, "command": COMMAND}
    append(out, {name: row.get(name, "") for name in FIELDS}, FIELDS)
    print({name: value for name, value in row.items() if name not in ("version", "command")}, flush=True)


def requests(writer: httpx.Client) -> dict[str, tuple[str, bytes, str, int]]:
    """Path, body, content type and number of predictions of each kind of request."""
    files = [("file", (f"{number}.png", data)) for number, (_, data) in enumerate(sample_pngs("test")[:IMAGES])]
    form = httpx.Request("POST", "http://a", files=files)
    width = width_of(writer)
    rows = np.abs(np.random.default_rng(0).normal(size=(ROWS, width))).astype("<f4").tobytes()
    floats = f"/v1/predict-features?width={width}&columns=true"
    return {
        "images": ("/v1/predict", form.read(), form.headers["content-type"], len(files)),
        "rows": (floats, rows, "application/octet-stream", ROWS),
    }


def width_of(writer: httpx.Client) -> int:
    """Numbers in a row of the model's features."""
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(writer.get("/v1/model/file").content)
        file.flush()
        return int(vs.load(file.name, device="cpu").learner_.n_features_in_)


def predictions_a_second(
    services: list[httpx.Client], path: str, body: bytes, kind: str, size: int, seconds: float
) -> float:
    """Of all services together."""
    done, stop = [0] * (CONNECTIONS * len(services)), threading.Event()

    def ask(number: int, service: httpx.Client) -> None:
        connection = connected(service)
        while not stop.is_set():
            connection.request("POST", path, body, {**KEY, "Content-Type": kind})
            answer = connection.getresponse()
            told = answer.read()
            if answer.status != 200:
                raise SystemExit(f"A prediction was answered with {answer.status}: {told[:200]!r}")
            done[number] += size
        connection.close()

    targets = [service for service in services for _ in range(CONNECTIONS)]
    clients = [threading.Thread(target=ask, args=pair) for pair in enumerate(targets)]
    for client in clients:
        client.start()
    time.sleep(min(2.0, seconds))  # until all are warm
    before, began = sum(done), time.perf_counter()
    time.sleep(seconds)
    rate = (sum(done) - before) / (time.perf_counter() - began)
    stop.set()
    for client in clients:
        client.join()
    return rate


def delays_of(writer: httpx.Client, follower: httpx.Client, lessons: int, rate: float) -> list[float]:
    """Milliseconds from each lesson's answer to the follower's first answer that knows it; 0 where it was earlier."""
    width, rng = width_of(writer), np.random.default_rng(1)
    taught: list[tuple[int, float]] = []
    seen: list[tuple[int, float]] = [(0, 0.0)]  # each number that the follower answered with first, and when
    row = np.abs(rng.normal(size=(1, width))).astype("<f4").tobytes()

    def teach() -> None:
        label = writer.get("/v1/model").json()["classes"][0]["label"]
        connection, began = connected(writer), time.perf_counter()
        for number in range(lessons):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            body = np.abs(rng.normal(size=(1, width))).astype("<f4").tobytes()
            path = f"/v1/learn-features?width={width}&label={label}"
            lesson = asked(connection, path, body)["lesson"]
            taught.append((lesson, time.perf_counter()))
        connection.close()

    teaching, connection = threading.Thread(target=teach), connected(follower)
    teaching.start()
    while teaching.is_alive() or seen[-1][0] < taught[-1][0]:
        lesson = asked(connection, f"/v1/predict-features?width={width}&columns=true", row)["lesson"]
        if lesson > seen[-1][0]:
            seen.append((lesson, time.perf_counter()))
    connection.close()
    return [
        1000 * max(0.0, next(when for number, when in seen if number >= lesson) - answered)
        for lesson, answered in taught
    ]


def asked(connection: http.client.HTTPConnection, path: str, body: bytes) -> Any:
    connection.request("POST", path, body, {**KEY, "Content-Type": "application/octet-stream"})
    answer = connection.getresponse()
    told = json.loads(answer.read())
    if answer.status != 200:
        raise SystemExit(f"The service answered with {answer.status}: {told}")
    return told


def connected(service: httpx.Client) -> http.client.HTTPConnection:
    parts = urlsplit(str(service.base_url))
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)


if __name__ == "__main__":
    main()
