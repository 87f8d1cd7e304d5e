"""Malformed requests against a real service, over sockets: each is refused with 4xx, and the model stays as it is.

    python benchmarks/serve_fuzz.py                     # 5,000 requests, then slow and oversized ones
    python benchmarks/serve_fuzz.py --requests 200

The requests are those of tests/serve/malformed.py (wrong paths, names, methods, queries, JSON, types, rows, images and
bombs, forms, hosts, origins, tokens, lengths, keys) by a seed, and bytes that are no HTTP at all. Then: bodies beyond
the limit, sent whole and in chunks; clients that send a byte a second, while others are served. A dropped connection
counts as a refusal only where what was sent is no HTTP request, or the sender was too slow.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx

from rows import COMMAND, FAULTS, write
from serving import TOKEN, sample_pngs, served
from votestream._version import __version__

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from serve.malformed import wrong_request  # type: ignore[import-not-found]

FIELDS = [
    "kind",
    "requests",
    "refused_4xx",
    "dropped",
    "not_refused",
    "errors_5xx",
    "statuses",
    "slowest_s",
    "model_changed",
]
FIELDS += ["seed", "version", "load", "command"]
DROPPED = 0  # the status of a connection that was closed without an answer
HEAD = f"POST /v1/learn?label=fuzz HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"


def ask(port: int, pieces: Iterable[bytes], pause: float = 0.0) -> tuple[int, float]:
    """The status that comes back for bytes sent as they are, and the seconds that it took."""
    began, got = time.perf_counter(), b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        except ConnectionError:
            pass  # refused before all was sent; the answer may be there
        try:
            while b"\r\n" not in got and (chunk := connection.recv(4096)):
                got += chunk
        except ConnectionError:
            pass
    seconds = time.perf_counter() - began
    return (int(got.split()[1]) if got.startswith(b"HTTP/1.") else DROPPED), seconds


def no_http(rng: Random) -> bytes:
    """Bytes that no HTTP server can read as a request, or that could be read in two ways."""
    return rng.choice(
        [
            rng.randbytes(rng.randint(1, 2000)) + b"\r\n\r\n",
            b"\x16\x03\x01" + rng.randbytes(200) + b"\r\n\r\n",
            HEAD.encode() + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
            HEAD.encode() + b"Transfer-Encoding: gzip\r\n\r\n",
            HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc",
            HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n0\r\n\r\n",
            HEAD.encode() + b"No header at all\r\n\r\n",
            HEAD.encode() + b"X: " + b"a" * rng.randint(70_000, 200_000),
            HEAD.encode() + b"X: a\r\n" * rng.randint(20_000, 40_000) + b"\r\n",
            b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET http://[ HTTP/1.1\r\n\r\n",
        ]
    )


def oversized(port: int, how: str) -> tuple[int, float]:
    """A body beyond the limit of 64 MiB."""
    piece = bytes(1 << 20)
    if how == "announced":
        return ask(port, [HEAD.encode() + b"Content-Length: 99999999999\r\n\r\n"])
    if how == "whole":
        return ask(port, [HEAD.encode() + f"Content-Length: {80 << 20}\r\n\r\n".encode(), *[piece] * 80])
    chunk = b"%x\r\n" % len(piece) + piece + b"\r\n"
    return ask(port, [HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 80, b"0\r\n\r\n"])


def slow(port: int, how: str) -> tuple[int, float]:
    """A byte a second, of the headers or of the body."""
    start = HEAD.encode() if how == "headers" else HEAD.encode() + b"Content-Length: 100000\r\n\r\n"
    return ask(port, [start, *[b"a"] * 40], pause=1.0)


class Tally:
    """What became of the requests of each kind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)
        self.slowest: dict[str, float] = defaultdict(float)

    def add(self, kind: str, outcome: tuple[int, float]) -> None:
        with self._lock:
            self.statuses[kind][outcome[0]] += 1
            self.slowest[kind] = max(self.slowest[kind], outcome[1])

    def measure(self, kind: str, attack: Callable[[], tuple[int, float]]) -> None:
        self.add(kind, attack())

    def row(self, kind: str) -> dict[str, Any]:
        statuses = self.statuses[kind]
        refused = sum(n for status, n in statuses.items() if 400 <= status < 500)
        dropped = statuses[DROPPED]
        may_drop = kind == "no HTTP" or kind.startswith("slow")
        failed = sum(n for status, n in statuses.items() if status >= 500)
        return {
            "kind": kind,
            "requests": statuses.total(),
            "refused_4xx": refused,
            "dropped": dropped,
            "not_refused": statuses.total() - refused - failed - (dropped if may_drop else 0),
            "errors_5xx": failed,
            "statuses": " ".join(f"{status}:{n}" for status, n in sorted(statuses.items()) if n),
            "slowest_s": f"{self.slowest[kind]:.2f}",
        }


def fuzz(port: int, requests: int, seed: int, tally: Tally) -> None:
    rng = Random(seed)
    jobs: list[tuple[str, bytes]] = []
    while len(jobs) < requests:
        if rng.random() < 0.07:
            jobs.append(("no HTTP", no_http(rng)))
        else:
            wrong = wrong_request(rng)
            jobs.append((wrong.kind, wrong.raw(TOKEN)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job: tally.add(job[0], ask(port, [job[1]])), jobs))


def besiege(client: httpx.Client, port: int, tally: Tally) -> float:
    """Slow and oversized clients at once; the slowest answer of those who behaved meanwhile, in seconds."""
    attacks: list[tuple[str, Callable[[], tuple[int, float]]]] = []
    for how in ("headers", "body"):
        attacks += [(f"slow {how}", partial(slow, port, how))] * 20
    for how in ("announced", "whole", "chunked"):
        attacks += [(f"oversized, {how}", partial(oversized, port, how))] * 2
    slowest = 0.0
    with ThreadPoolExecutor(len(attacks)) as pool:
        waiting = [pool.submit(tally.measure, kind, attack) for kind, attack in attacks]
        while not all(one.done() for one in waiting):
            began = time.perf_counter()
            client.post("/v1/predict", content=PROBE).raise_for_status()
            slowest = max(slowest, time.perf_counter() - began)
            time.sleep(0.05)
        for one in waiting:
            one.result()
    return slowest


PROBE = sample_pngs("test")[0][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=FAULTS / "serve_fuzz.csv")
    args = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "fuzz.safetensors") as client:
        for label, data in sample_pngs()[::20]:
            client.post("/v1/learn", params={"label": "red" if label < "d" else label}, content=data).raise_for_status()
        port = client.base_url.port
        assert port is not None
        before = client.get("/v1/model/file").headers["etag"], client.get("/v1/model").json()["lesson"]
        fuzz(port, args.requests, args.seed, tally)
        slowest = besiege(client, port, tally)
        after = client.get("/v1/model/file").headers["etag"], client.get("/v1/model").json()["lesson"]
    about = {"model_changed": before != after, "seed": args.seed, "version": __version__}
    about |= {"load": f"{os.getloadavg()[0]:.1f}", "command": COMMAND}
    rows = [{**tally.row(kind), **about} for kind in sorted(tally.statuses)]
    write(args.out, rows, FIELDS)
    for row in rows:
        print(", ".join(f"{key} {row[key]}" for key in FIELDS[:8]))
    wrong = sum(row["not_refused"] + row["errors_5xx"] for row in rows)
    total = sum(row["requests"] for row in rows)
    print(f"{total} requests, {wrong} not refused or failed, model changed: {before != after}")
    print(f"the slowest of the well-behaved predictions during the siege took {slowest:.2f} s")
    if wrong or before != after:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
