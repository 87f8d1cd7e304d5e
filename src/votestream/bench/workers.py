"""Processes that carry out runs, one at a time each; one that dies costs its own run only."""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from typing import Any

from votestream.bench.runs import Run
from votestream.common.cores import threads_of_children


@dataclass
class Report:
    """What a worker says about its run: how far it is, a warning, or a row, or why there is none."""

    run: Run
    task: int = 0
    tasks: int = 0
    row: dict[str, Any] | None = None
    error: str = ""
    warning: Warning | None = None

    @property
    def ended(self) -> bool:
        return self.row is not None or bool(self.error)


class Workers:
    """At most `jobs` processes, each with its share of the cores; all of them may share a GPU."""

    def __init__(self, jobs: int, device: str, data_dir: str | None) -> None:
        self.jobs, self._how = jobs, (device, data_dir, max(1, (os.cpu_count() or 1) // jobs))
        self._idle: list[tuple[Any, Connection]] = []
        self._busy: dict[Connection, tuple[Any, Run]] = {}

    @property
    def free(self) -> bool:
        return len(self._busy) < self.jobs

    @property
    def running(self) -> list[Run]:
        return [run for _, run in self._busy.values()]

    def start(self, run: Run) -> None:
        process, pipe = self._idle.pop() if self._idle else self._new()
        try:
            pipe.send(run)
        except OSError:  # it died while it had nothing to do
            process, pipe = self._new()
            pipe.send(run)
        self._busy[pipe] = process, run

    def reports(self, timeout: float) -> Iterator[Report]:
        """What came in, after waiting for at most so many seconds."""
        for pipe in connection.wait(list(self._busy), timeout):
            assert isinstance(pipe, Connection)
            process, run = self._busy[pipe]
            try:
                report = pipe.recv()
            except (EOFError, OSError):
                process.join()
                report = Report(run, error=f"the process died (exit code {process.exitcode})")
                del self._busy[pipe]
            else:
                if report.ended:
                    del self._busy[pipe]
                    self._idle.append((process, pipe))
            yield report

    def stop(self) -> None:
        """End the processes, whatever they are at."""
        for process in [p for p, _ in self._idle] + [p for p, _ in self._busy.values()]:
            process.kill()
            process.join()

    def _new(self) -> tuple[Any, Connection]:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self._how), daemon=True)
        with threads_of_children(self._how[2]):
            process.start()
        theirs.close()
        return process, ours


def _work(pipe: Connection, device: str, data_dir: str | None, threads: int) -> None:
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        import torch

        torch.set_num_threads(threads)
        while True:
            run: Run = pipe.recv()
            for report in carried_out(run, device, data_dir, partial(_tell, pipe, run)):
                pipe.send(report)


def carried_out(
    run: Run, device: str, data_dir: str | None, tell: Callable[[int, int], None] | None = None
) -> Iterator[Report]:
    """Carry out a run in this process: the warnings it gave, then its row, or why there is none."""
    from votestream.bench.protocol import carry_out
    from votestream.streams.data_set import DataWarning

    with warnings.catch_warnings(record=True) as heard:
        try:
            row = carry_out(run, device, data_dir, tell)
            report = Report(run, row=row)
        except Exception as error:
            report = Report(run, error=_told(error))
    for warning in heard:  # each is told once, by the process that started this one
        kind = DataWarning if issubclass(warning.category, DataWarning) else UserWarning
        yield Report(run, warning=kind(str(warning.message)))
    yield report


def _tell(pipe: Connection, run: Run, task: int, tasks: int) -> None:
    pipe.send(Report(run, task, tasks))


def _told(error: Exception) -> str:
    """The traceback; its last line has the whole reason, whatever lines that has."""
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    lines = [*lines[:-1], reason] if " ".join(lines[-1].split()) == reason else [*lines, reason]
    return "\n".join(lines).replace(" | ", " / ")  # which separates lines in the results


def _die_with_parent() -> None:
    """A runner that was killed leaves nobody behind who holds the cores."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
