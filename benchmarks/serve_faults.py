"""What `votestream serve` loses when it is killed, or when its disk is full or becomes read-only: nothing, it says.

    python benchmarks/serve_faults.py --kills 300 --minutes 40     # adds rows to results/faults/serve_faults.csv

Kills: 8 clients teach (and take back, rename, forget), 50 predict, and the service is killed (SIGKILL) at a random
moment, one time in eight while it starts. It is started again, requests that were never answered are sent again with
their idempotency keys, and then
- every number of a change must be known to exactly one client: one that is missing or that was given twice is "lost";
- the model file that the service hands out must be, bit for bit, the model of this process, which was taught what the
  clients were told and nothing else;
- every answer must be the one that this model gives in the state with the answer's lesson number.
A full disk is a small tmpfs, a read-only disk an ext4 file system that is aborted; both need root, and are left out
without. Processes are forked from one that has imported everything, except one in ten, since importing takes longer
than all else.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import votestream as vs
from rows import COMMAND, FAULTS, append
from serve_clients import FLOATS, QUERIES, WIDTH, Log, Reference, Request, ask, teach, teaching
from votestream.model_store.journal import fingerprint

FILE = FAULTS / "serve_faults.csv"
TEACHING, ASKING = 8, 50
# Forks a service for every line of arguments it reads, and tells its process id.
NURSERY = """
import json, os, signal, sys
from votestream.cli.main import app
import votestream, votestream.serve.engine.engine, votestream.serve.app, votestream.serve.web.server
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    if child := os.fork():
        print(child, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdin.close()
    os.dup2(2, 1)
    app(json.loads(line))
    os._exit(0)
"""


class Services:
    """Starts services on a model file, most of them quickly."""

    def __init__(self) -> None:
        self._nursery = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        self.port = 0

    def start(self, model: Path, quick: bool = True) -> int:
        """The process id; it may not listen yet."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        arguments = ["serve", str(model), "--port", str(self.port), "--device", "cpu"]
        if not quick:
            process = subprocess.Popen([sys.executable, "-m", "votestream", *arguments], env=_environment())
            threading.Thread(target=process.wait, daemon=True).start()
            return process.pid
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(json.dumps(arguments) + "\n")
        self._nursery.stdin.flush()
        return int(self._nursery.stdout.readline())

    def wait(self, seconds: float = 120) -> None:
        """Until it answers."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.get("/healthz")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
        raise SystemExit("The service did not start.")

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def send(self, request: Request) -> tuple[int, Any]:
        return request.send(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60))

    def close(self) -> None:
        self._nursery.kill()
        self._nursery.wait()


def _environment() -> dict[str, str]:
    source = str(Path(vs.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "VOTESTREAM_TOKEN": ""}


def kill(process: int) -> None:
    """Kill it, and wait until it is gone."""
    os.kill(process, signal.SIGKILL)
    while os.path.exists(f"/proc/{process}"):
        time.sleep(0.005)


class Checks:
    """What was found so far: counts of what was looked at, and of what was wrong."""

    def __init__(self, services: Services) -> None:
        self.services, self.log, self.reference = services, Log(), Reference()
        self.found: Counter[str] = Counter()

    def settle(self) -> None:
        """The service runs again: send again what was never answered, then compare all there is."""
        services, log = self.services, self.log
        for key, request in list(log.pending.items()):
            log.note(key, request, *services.send(request))
            log.resent += 1
        number = json.loads(services.get("/v1/model")[1])["lesson"]
        lost = set(range(1, number + 1)) ^ log.numbers
        if lost:
            print("lost or unknown:", sorted(lost)[:10], flush=True)
        self.found["lost"] += len(lost) + len(log.twice)
        log.twice.clear()
        log.numbers = set(range(1, number + 1))
        checked, differing = self.reference.follow(log, number)
        self.found["answers"] += checked
        self.found["answers differing"] += differing
        if self.reference.learner.fitted:
            self.found["states"] += 1
            self.found["states differing"] += self._served() != fingerprint(self.reference.learner)

    def _served(self) -> str | None:
        status, data = self.services.get("/v1/model/file")
        assert status == 200, data
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(data)
            file.flush()
            return fingerprint(vs.load(file.name, device="cpu"))

    def row(self, fault: str, **more: Any) -> dict[str, Any]:
        found, log = self.found, self.log
        return {
            "fault": fault,
            **{name: more.get(name, 0) for name in ("kills", "kills while starting", "refused with 507")},
            "changes": len(log.numbers),
            "changes lost": found["lost"],
            "requests sent again": log.resent,
            "states": found["states"],
            "states differing": found["states differing"],
            "answers": found["answers"],
            "answers differing": found["answers differing"],
            "seconds": more["seconds"],
            "version": vs.__version__,
            "command": COMMAND,
        }


def under_load(checks: Checks, seconds: float, seed: int, process: int) -> None:
    """Teach and predict for so long, then kill."""
    stop = threading.Event()
    port, log = checks.services.port, checks.log
    clients = [threading.Thread(target=teach, args=(port, log, seed * 1000 + n, stop)) for n in range(TEACHING)]
    clients += [threading.Thread(target=ask, args=(port, log, seed * 1000 + 500 + n, stop)) for n in range(ASKING)]
    for client in clients:
        client.start()
    time.sleep(seconds)
    kill(process)
    stop.set()
    for client in clients:
        client.join()


def kills(services: Services, folder: Path, wanted: int, minutes: float, seed: int) -> dict[str, Any]:
    model, rng, checks = folder / "m.safetensors", random.Random(seed), Checks(services)
    began, made, starting = time.monotonic(), 0, 0
    while True:
        process = services.start(model, quick=made % 10 != 9)
        if made and rng.random() < 1 / 8:
            time.sleep(rng.random())
            kill(process)
            made, starting = made + 1, starting + 1
            continue
        services.wait()
        checks.settle()
        if made % 10 == 0 or made >= wanted:
            print(f"{made} kills, {len(checks.log.numbers)} changes, {dict(checks.found)}", flush=True)
        if made >= wanted or time.monotonic() - began > 60 * minutes:
            kill(process)
            seconds = round(time.monotonic() - began)
            return checks.row("kill -9", kills=made, seconds=seconds, **{"kills while starting": starting})
        under_load(checks, rng.uniform(0.05, 2.5), seed + made, process)
        made += 1


def full_disk(services: Services, folder: Path, rounds: int) -> dict[str, Any] | None:
    """A disk of 2 MB: teach until it is full, predict, make room, teach, kill, compare."""
    began, refusals, checks = time.monotonic(), 0, Checks(services)
    with mounted(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs"], folder) as there:
        if not there:
            return None
        ballast = folder / "ballast"
        for seed in range(rounds):
            ballast.write_bytes(b"")
            process = services.start(folder / "m.safetensors")
            services.wait()
            checks.settle()
            free = os.statvfs(folder)
            ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - 200_000)))
            refusals += until_refused(checks, seed)
            ballast.write_bytes(b"")
            teach_one(checks, seed, 200)
            kill(process)
        process = services.start(folder / "m.safetensors")
        services.wait()
        checks.settle()
        kill(process)
    return checks.row("full disk", seconds=round(time.monotonic() - began), **{"refused with 507": refusals})


def read_only_disk(services: Services, folder: Path, rounds: int) -> dict[str, Any] | None:
    """An ext4 file system that becomes read-only under the service, as after an error of the disk."""
    began, refusals, checks = time.monotonic(), 0, Checks(services)
    image = folder.with_name(f"{folder.name}.ext4")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    if subprocess.run(["mkfs.ext4", "-q", image], check=False).returncode:
        return None
    for seed in range(rounds + 1):
        with mounted(["mount", "-o", "loop", str(image)], folder) as there:
            if not there:
                return None
            process = services.start(folder / "m.safetensors")
            services.wait()
            checks.settle()
            if seed < rounds:
                for n in range(20):
                    teach_one(checks, 100 * seed + n, 200)
                subprocess.run(["mount", "-o", "remount,abort", folder], check=True)
                refusals += until_refused(checks, 5000 + seed)
            kill(process)
    return checks.row("read-only disk", seconds=round(time.monotonic() - began), **{"refused with 507": refusals})


def teach_one(checks: Checks, seed: int, expected: int | None) -> int:
    rng = random.Random(seed)
    request = teaching(rng, [])
    while request.rows is None:
        request = teaching(rng, [])
    key = request.headers["idempotency-key"]
    checks.log.pending[key] = request
    status, told = checks.services.send(request)
    checks.log.note(key, request, status, told)
    if expected is not None and status != expected:
        raise SystemExit(f"A lesson was answered with {status}, not {expected}: {told}")
    return status


def until_refused(checks: Checks, seed: int) -> int:
    """Teach until ten lessons are refused with 507; predictions go on. How many were refused."""
    services, refused = checks.services, 0
    for n in range(2000):
        refused += teach_one(checks, 10_000 * (seed + 1) + n, None) == 507
        if refused == 10:
            break
    if refused < 10:
        raise SystemExit(f"Only {refused} lessons were refused.")
    connection = http.client.HTTPConnection("127.0.0.1", services.port, timeout=60)
    for number, row in enumerate(QUERIES):
        connection.request("POST", f"/v1/predict-features?width={WIDTH}", row.tobytes(), FLOATS)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"A prediction was answered with {answer.status}: {told}")
        first = told["answers"][0]
        checks.log.answers.append((first["lesson"], number, first["label"], first["confidence"]))
    return refused


@contextmanager
def mounted(command: list[str], folder: Path) -> Iterator[bool]:
    """Whether it could be mounted there."""
    folder.mkdir(exist_ok=True)
    there = subprocess.run([*command, folder], check=False, capture_output=True).returncode == 0
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", folder], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=40, help="after which no more kills are made")
    parser.add_argument("--rounds", type=int, default=5, help="of filling a disk, and of making one read-only")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    services = Services()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for row in (
                full_disk(services, folder / "full", given.rounds),
                read_only_disk(services, folder / "ro", given.rounds),
                kills(services, folder, given.kills, given.minutes, given.seed),
            ):
                if row is None:
                    print("left out: it takes root to mount a disk")
                    continue
                print(row, flush=True)
                append(FILE, row)
    finally:
        services.close()


if __name__ == "__main__":
    main()
