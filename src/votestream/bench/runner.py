"""Runs that are not done yet go to processes; rows are written as they end, and progress is shown."""

from __future__ import annotations

import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from votestream._version import __version__
from votestream.bench.results import Results
from votestream.bench.runs import Run
from votestream.bench.workers import Report, Workers

if TYPE_CHECKING:
    from votestream.bench.ray_workers import RayWorkers


@dataclass
class Progress:
    """How a suite is getting on."""

    total: int
    done_before: int
    done: int = 0
    failed: int = 0
    elsewhere: int = 0  # runs that another process is at
    began: float = field(default_factory=time.monotonic)
    running: dict[tuple[str, ...], Report] = field(default_factory=dict)
    started: dict[tuple[str, ...], float] = field(default_factory=dict)
    _seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def start(self, run: Run) -> None:
        self.running[run.key], self.started[run.key] = Report(run), time.monotonic()

    def hear(self, report: Report) -> None:
        if not report.ended:
            self.running[report.run.key] = report
            return
        del self.running[report.run.key]
        self.done += 1
        self.failed += bool(report.error)
        self._seconds[report.run.method.label].append(time.monotonic() - self.started.pop(report.run.key))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> int:
        return self.total - self.done_before - self.done - self.elsewhere - len(self.running)

    def to_go(self, waiting: list[Run], jobs: int) -> float | None:
        """Seconds until all is done, each run taken to last as its method's others did."""
        if not self.done:
            return None
        known = {label: sum(times) / len(times) for label, times in self._seconds.items()}
        usual = sum(known.values()) / len(known)
        ahead = sum(known.get(run.method.label, usual) for run in waiting)
        for key, report in self.running.items():
            spent = time.monotonic() - self.started[key]
            ahead += max(known.get(report.run.method.label, usual) - spent, 0)
        return ahead / jobs


def run_all(
    runs: list[Run],
    results: Results,
    *,
    on: str = "here",
    jobs: int | None = None,
    device: str = "auto",
    data_dir: str | None = None,
    retry: bool = False,
    again: bool = False,
    command: str = "",
    log: Callable[[dict[str, Any]], None] | None = None,
    console: Console | None = None,
) -> Progress:
    """Carry out the runs that the file lacks, `jobs` at once (as many as there are cores unless given).

    `on` is "here", or a Ray cluster: "ray", "ray://host:port".
    `log` is given each row once it is written.
    """
    console = console or Console()
    done = results.done(retry, again)
    waiting = [run for run in runs if run.key not in done]
    for run in runs:
        if run.key in done:
            results.clear(run)
    progress = Progress(len(runs), len(runs) - len(waiting))
    if not waiting:
        return progress
    workers, claims = _workers(on, jobs, len(waiting), device, data_dir), {}
    live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
    try:
        with live or nullcontext():
            while waiting or workers.running:
                while waiting and workers.free:
                    run = waiting.pop(0)
                    give_back = results.claim(run, retry, again)
                    if give_back is None:
                        progress.elsewhere += 1
                        continue
                    claims[run.key] = give_back
                    workers.start(run)
                    progress.start(run)
                for report in workers.reports(timeout=0.25):
                    if report.warning:
                        warnings.warn(report.warning, stacklevel=2)
                        continue
                    progress.hear(report)
                    if report.ended:
                        row = {**(report.row or _failed(report)), "command": command}
                        results.append(row)
                        claims.pop(report.run.key)()
                        if log is not None:
                            log(row)
                        console.print(_line(report, progress), highlight=False, soft_wrap=True)
                if live:
                    live.update(_table(progress, waiting, workers.jobs))
    finally:
        workers.stop()
        for give_back in claims.values():
            give_back()
    return progress


def _workers(on: str, jobs: int | None, most: int, device: str, data_dir: str | None) -> Workers | RayWorkers:
    if on == "here":
        return Workers(min(jobs or os.cpu_count() or 1, most), device, data_dir)
    from votestream.bench.ray_workers import RayWorkers

    return RayWorkers(on, jobs, most, device, data_dir)


def _failed(report: Report) -> dict[str, str]:
    return {**report.run.columns, "error": report.error, "version": __version__}


def _line(report: Report, progress: Progress) -> Text:
    place = f"{progress.done_before + progress.done}/{progress.total}"
    if report.row is None:
        return Text(f"{place} {report.run}: failed: {report.error.splitlines()[-1]}", style="red")
    row = report.row
    average = "" if row["Avg"] is None else f"Avg {round(row['Avg'], 4):.1f}  "  # from what is written, as in tables
    seconds = row["seconds learning"] + row["seconds predicting"]
    return Text(f"{place} {report.run}: {average}Last {round(row['Last'], 4):.1f}  ({seconds:.1f} s)")


def _table(progress: Progress, waiting: list[Run], jobs: int) -> Group:
    to_go = progress.to_go(waiting, jobs)
    table = Table("running", "task", "for")
    for key, report in progress.running.items():
        task = f"{report.task} of {report.tasks}" if report.tasks else "loading"
        table.add_row(str(report.run), task, clock(time.monotonic() - progress.started[key]))
    summary = (
        f"{progress.done_before + progress.done} of {progress.total} runs done, {len(progress.running)} running, "
        f"{progress.left} left, {progress.failed} failed; {clock(progress.seconds)} so far"
        + ("" if to_go is None else f", {clock(to_go)} to go")
    )
    return Group(table, Text(summary))


def clock(seconds: float) -> str:
    """Seconds as people read them.

    >>> clock(7), clock(75), clock(7260)
    ('7 s', '1:15', '2:01:00')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
