"""How long a photo takes through EfficientNet-Lite0 beside another program that does the same, by how threads wait.

    python benchmarks/busy_machine.py                  # writes results/speed/busy_machine.csv, in about three minutes

"torch's own" is what a program gets that imports torch: threads of GCC's OpenMP spin for milliseconds while they wait
for one another. "short" is how the command `votestream` has them wait (`votestream.common.cores.wait_in_peace`). The
neighbour is a process that looks at photos on all cores, and waits as torch does. One photo and a batch of eight, the
median of seven and of five; each way in turn, round after round, of which the median and the worst are told.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import votestream as vs
from rows import COMMAND, SPEED, write
from votestream.common.cores import SPINS, WAITING

WAYS = {"torch's own": {}, "short": {"GOMP_SPINCOUNT": SPINS}}
BATCH = 8


def measure() -> None:
    """In a process of its own: prints milliseconds of one photo, and of a batch."""
    backbone = vs.create_backbone("efficientnet_lite0", stages="quick", device="cpu")
    photos = np.zeros((BATCH, 224, 224, 3), np.uint8)
    backbone(photos)
    for count, times in ((1, 7), (BATCH, 5)):
        seconds = []
        for _ in range(times):
            start = time.perf_counter()
            backbone(photos[:count])
            seconds.append(time.perf_counter() - start)
        print(1000 * statistics.median(seconds))


def look_on() -> None:
    """The neighbour."""
    backbone = vs.create_backbone("efficientnet_lite0", stages="quick", device="cpu")
    photos = np.zeros((2 * BATCH, 224, 224, 3), np.uint8)
    print("ready", flush=True)
    while True:
        backbone(photos)


def command(what: str, **settings: str) -> tuple[list[str], dict[str, str]]:
    own = {name: value for name, value in os.environ.items() if name not in WAITING}
    return [sys.executable, __file__, "--as", what], {**own, **settings}


@contextmanager
def neighbour(there: bool) -> Iterator[None]:
    if not there:
        yield
        return
    line, environment = command("neighbour")
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=SPEED / "busy_machine.csv")
    parser.add_argument("--as", dest="role", choices=["measured", "neighbour"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role is not None:
        (measure if args.role == "measured" else look_on)()
        return
    rows = []
    for busy in (False, True):
        found: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
        with neighbour(busy):
            for _ in range(args.rounds):
                for way, settings in WAYS.items():
                    line, environment = command("measured", **settings)
                    told = subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout
                    found[way].append(tuple(map(float, told.split())))
        for way, times in found.items():
            row: dict[str, object] = {"neighbour": "yes" if busy else "no", "threads wait": way}
            for name, column in zip(("a photo, ms", f"a batch of {BATCH}, ms"), zip(*times, strict=True), strict=True):
                row |= {name: f"{statistics.median(column):.1f}", f"{name}, worst": f"{max(column):.1f}"}
            rows.append({**row, "cores": os.cpu_count(), "rounds": args.rounds, "version": vs.__version__})
            print(*rows[-1].values(), sep="  ", flush=True)
    write(args.out, [{**row, "command": COMMAND} for row in rows])


if __name__ == "__main__":
    main()
