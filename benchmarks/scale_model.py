"""What learning on a cluster costs where no machine here can show it: a simulation of driver and workers.

    python benchmarks/scale_model.py                            # prints the table of docs/scale.md
    python benchmarks/scale_model.py --page docs/scale.md       # and puts it there

Every cost is one that was measured: photos a second of a worker from photo_speed.csv in results/speed (one core; photos
of 500 pixels), the driver's processor time for a part and its bytes from scale_out.csv. Simulated are workers with
two items, as the executor's do, and one driver that reads and merges parts one after another, in both ways: workers
send a part for every chunk, or merge neighbours, up to 16, while parts are larger than their features or the driver is
busy for more than half of its time (`distributed/groups.py`). A chunk takes its time give or take 10 % (seed 0). The
first items are simulated, and the rest of the job goes on at the speed of their second half.
"""

from __future__ import annotations

import argparse
import heapq
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rows import SPEED, rows_of
from votestream.distributed.groups import MOST
from votestream.distributed.job import BUSY, WINDOW

CHUNK, WIDTH = 512, 1280
ITEMS = 20_000  # simulated of a job, at most
BEGIN, END = "<!-- what benchmarks/scale_model.py prints -->", "<!-- end of it -->"
JOBS = (
    *((10**6, 2), (10**6, 64), (10**8, 64), (10**8, 512), (10**8, 4096)),
    *((10**10, 512), (10**10, 4096)),
)


@dataclass
class Costs:
    """Measured: of a worker, of the driver, and on the wire."""

    images_a_second: float  # a worker: one core
    item: float  # seconds of the driver for handing out an item and taking its result
    part: dict[int, float]  # seconds of the driver for one part of so many chunks: read, and merged
    part_bytes: dict[int, float]

    def is_heavy(self, group: int) -> bool:
        return self.part_bytes[group] > 4 * WIDTH * CHUNK * group


@dataclass
class Outcome:
    seconds: float
    driver: float  # share of its time that it is busy
    group: int  # chunks of an item at the end


def measured() -> Costs:
    photos = {row["photos"]: row for row in rows_of(SPEED / "photo_speed.csv") if row["cores"] == "1"}
    out = rows_of(SPEED / "scale_out.csv")
    wanted = f"GaussianVoting, {WIDTH} features, 100 classes mixed"
    merges = [row for row in out if row["what"] == "merge" and row["detail"] == wanted and row["count"] == "128"]
    groups = {int(row["chunk"]) // CHUNK: row for row in merges}
    item = next(row for row in out if row["what"] == "items" and row["on"] == "ray" and row["workers"] == "2")
    return Costs(
        images_a_second=float(photos["500 pixels"]["photos_per_second"]),
        item=float(item["driver"]) / float(item["count"]),
        part={group: float(row["driver"]) / 128 for group, row in groups.items()},
        part_bytes={group: float(row["bytes back"]) * CHUNK * group for group, row in groups.items()},
    )


def simulate(images: int, workers: int, costs: Costs, group_at_most: int) -> Outcome:
    """One job, from the first item to the last part merged."""
    rng, chunks = np.random.default_rng(0), math.ceil(images / CHUNK)
    drawn, size, ready, busy, looked_at, items = 0, 1, 0.0, 0.0, 0, 0
    half = (0.0, 0, 0.0)  # when half of the items were done: seconds, chunks, seconds the driver was busy
    since = (0.0, 0.0)
    backs: list[tuple[float, int, int]] = []  # when an item is back: seconds, its worker, its chunks
    free = [0.0] * workers  # when a worker has nothing more to do

    def give(worker: int, now: float) -> None:
        nonlocal drawn
        own = min(size, chunks - drawn)
        if own > 0:
            drawn += own
            work = own * (CHUNK / costs.images_a_second * rng.uniform(0.9, 1.1)) + (own - 1) * costs.part[1]
            free[worker] = max(free[worker], now) + work
            heapq.heappush(backs, (free[worker], worker, own))

    for _ in range(2):
        for worker in range(workers):
            give(worker, 0.0)
    done = 0
    most = min(ITEMS, chunks)
    while backs and items < most + 4 * workers:
        when, worker, own = heapq.heappop(backs)
        spent = costs.part[1 << (own - 1).bit_length()] + costs.item
        ready = max(ready, when) + spent  # one part after another
        busy += spent
        if own in costs.part and costs.is_heavy(own):
            size = max(size, min(2 * own, group_at_most))
        done, items = done + own, items + 1
        if items == (most + 4 * workers) // 2:
            half = ready, done, busy
        if items - looked_at >= min(2 * workers, WINDOW):
            if busy - since[1] > BUSY * (ready - since[0]):
                size = min(2 * size, group_at_most)
            since, looked_at = (ready, busy), items
        give(worker, ready)
    left = chunks - done
    if left <= 0:
        return Outcome(ready, busy / ready, size)
    pace = (done - half[1]) / (ready - half[0])
    share = (busy - half[2]) / (ready - half[0])
    return Outcome(ready + left / pace, (busy + share * left / pace) / (ready + left / pace), size)


def human(seconds: float) -> str:
    """As people say it.

    >>> human(50), human(5000), human(500_000)
    ('50 s', '1.4 h', '5.8 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.1f} days"


def table(costs: Costs) -> str:
    lines = [
        "| images | workers | a driver that costs nothing | a part a chunk: time, driver busy "
        "| workers merge: time, driver busy | bytes into the driver | parts the driver holds |",
        "|---|---|---|---|---|---|---|",
    ]
    for images, workers in JOBS:
        plain, merging = (simulate(images, workers, costs, most) for most in (1, MOST))
        ideal, chunks = images / workers / costs.images_a_second, math.ceil(images / CHUNK)
        sent = chunks / merging.group * costs.part_bytes[merging.group]
        held = math.ceil(math.log2(max(2, chunks))) + 2 * workers
        lines.append(
            f"| {images:,} | {workers:,} | {human(ideal)} | {human(plain.seconds)}, {plain.driver:.0%} "
            f"| {human(merging.seconds)}, {merging.driver:.0%} (groups of {merging.group}) "
            f"| {sent / 1e9:,.1f} GB | at most {held:,}: {held * costs.part_bytes[merging.group] / 1e9:.1f} GB |"
        )
    milliseconds = {group: f"{1000 * seconds:.1f} ms" for group, seconds in costs.part.items()}
    keeps_up = {group: CHUNK * group / (seconds + costs.item) for group, seconds in costs.part.items()}
    an_image = {group: f"{size / CHUNK / group:,.0f}" for group, size in costs.part_bytes.items()}
    few = next(group for group in sorted(costs.part) if not costs.is_heavy(group))
    lines += [
        "",
        f"A worker looks at {costs.images_a_second:.1f} photos a second. The driver needs {milliseconds[1]} for the "
        f"part of a chunk, {milliseconds[few]} for that of {few} and {milliseconds[MOST]} for that of {MOST}, and "
        f"{1000 * costs.item:.2f} ms for handing out an item. So it keeps up with {keeps_up[few]:,.0f} images a "
        f"second, {keeps_up[few] / costs.images_a_second:,.0f} workers, and with "
        f"{keeps_up[MOST] / costs.images_a_second:,.0f} where they merge {MOST}. The part of a chunk has {an_image[1]} "
        f"bytes an image, that of {few} {an_image[few]}, that of {MOST} {an_image[MOST]}; the features have "
        f"{4 * WIDTH:,}.",
    ]
    return "\n".join(lines)


def check() -> str:
    """What the model says of the machine that was measured, beside what was measured there."""
    out = [row for row in rows_of(SPEED / "scale_out.csv") if row["what"] == "images"]
    alone = {row["detail"]: float(row["per second"]) for row in out if row["on"] == "here"}
    lines = ["| measured | on | workers | images a second | by the model |", "|---|---|---|---|---|"]
    for row in out:
        if row["on"] not in ("here", "alone"):
            workers = min(int(row["workers"]), int(row["cores"]))
            by_model = min(workers * alone[row["detail"]], float(row["count"]) / float(row["driver"]))
            shown = f"{float(row['per second']):,.0f} | {by_model:,.0f}"
            lines.append(f"| {row['detail']} | {row['on']} | {row['workers']} | {shown} |")
    return "\n".join(lines) if out else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="a page with the table's two marks")
    args = parser.parse_args()
    made = "\n\n".join(filter(None, (table(measured()), check())))
    print(made)
    if args.page:
        before, _, rest = args.page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        args.page.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
