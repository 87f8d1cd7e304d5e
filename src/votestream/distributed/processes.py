"""Several processes of this machine, each on one thread; one that dies costs the item it was at."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import current_process, get_context, process
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from votestream.common.cores import threads_of_children
from votestream.distributed.executor import MOST_DEATHS, CannotStart, Executor, WorkerDied, in_turn

T = TypeVar("T")
R = TypeVar("R")

GUARD = '`if __name__ == "__main__":`'


class Processes(Executor):
    """Started anew, not forked, and kept from one run to the next. They end with this process, however that ends.

    Each is a pool of its own: a pool that breaks tells which worker died, and so which item it was at. A job, with its
    network, is in a file for them all: to send it to each would take a second for every gigabyte.
    """

    name = "processes"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._workers: list[_Worker] = []

    def run(self, make: Callable[[], Callable[[T], R]], items: Iterable[T]) -> Iterator[tuple[int, R]]:
        _check_program()
        with TemporaryDirectory(prefix="votestream-", ignore_cleanup_errors=True) as folder:
            job = Path(folder, "job.pickle")
            job.write_bytes(pickle.dumps(make))
            yield from self._share(job, enumerate(items))

    def _share(self, job: Path, drawn: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        again: deque[tuple[int, Any]] = deque()  # what workers that died have left
        deaths: dict[int, int] = {}
        unstarted = 0
        self._workers = self._workers or [_Worker() for _ in range(self.workers)]
        whole = False
        try:
            for worker in self._workers:
                worker.begin(job)
            while True:
                for worker in in_turn(self._workers):
                    item = again.popleft() if again else next(drawn, None)
                    if item is None:
                        break
                    worker.give(*item)
                futures = [future for worker in self._workers for future in worker.holds]
                if not futures:
                    whole = True
                    return
                wait(futures, return_when=FIRST_COMPLETED)
                for place, worker in enumerate(self._workers):
                    for future in [future for future in worker.holds if future.done()]:
                        if isinstance(future.exception(), BrokenProcessPool):
                            number, value = next(iter(worker.holds.values()))  # it was at the first
                            if worker.started:
                                deaths[number] = deaths.get(number, 0) + 1
                            else:
                                unstarted += 1
                            if deaths.get(number) == MOST_DEATHS:
                                raise WorkerDied(number, value)
                            if unstarted == MOST_DEATHS:
                                raise CannotStart(_why_not_started())
                            again.extend(worker.holds.values())
                            worker.close()
                            self._workers[place] = _Worker()
                            self._workers[place].begin(job)
                            break
                        number, _ = worker.holds.pop(future)
                        yield number, future.result()
        finally:
            if not whole:  # nobody wants what is in flight
                self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []


class _Worker:
    """A process, and the items it holds, in the order in which it works on them."""

    def __init__(self) -> None:
        context = get_context("spawn")
        ending, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, context, _live_while_open, (ending,))
        self.holds: dict[Future[Any], tuple[int, Any]] = {}
        self._begun: Future[Any] = Future()

    @property
    def started(self) -> bool:
        """Whether the process has come as far as to take a job."""
        return self._begun.done() and self._begun.exception() is None

    def begin(self, job: Path) -> None:
        with threads_of_children(1):  # the first call starts the process
            self._begun = self._call(_begin, job)

    def give(self, number: int, value: Any) -> None:
        self.holds[self._call(_work, value)] = number, value

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            return self._pool.submit(function, *arguments)
        except BrokenProcessPool as error:  # it died before; the same answer as if it had died at this
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def close(self) -> None:
        """End the process, whatever it is doing."""
        with suppress(OSError):  # it is dead already
            self._lifeline.send(None)
        self._lifeline.close()
        self._pool.shutdown(cancel_futures=True)


def _check_program() -> None:
    """Complain where new processes could not run this program's file, which Python has them do first."""
    if getattr(current_process(), "_inheriting", False):
        raise SystemExit(1)  # a new process that comes by here again; the one that started it tells why
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if getattr(main, "__spec__", None) is None and file is not None:
        folder = getattr(process, "ORIGINAL_DIR", None) or ""
        if not os.path.exists(os.path.join(folder, file)):
            raise CannotStart(
                f"on='processes' starts Python processes that run your program's file first, and this one was not read "
                f"from a file ({file}): save it as a file, put what it does below {GUARD} and run that, or leave on out"
            )


def _why_not_started() -> str:
    file = getattr(sys.modules["__main__"], "__file__", None)
    return (
        f"{MOST_DEATHS} worker processes ended before they could begin. Python has each run {file or 'the program'} "
        f"first, but for what stands below {GUARD}: put the call with on='processes' below such a line, and all else "
        "that should be done once. If it stands there, the worker's own error is above"
    )


# ---- in a worker --------------------------------------------------------------------------------

# The job in hand: the file that tells how to make its function, and the function once it was made.
_jobs: list[Any] = []


def _live_while_open(lifeline: Connection) -> None:
    """End with whoever holds the other end of the lifeline; Ctrl-C is the driver's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end() -> None:
        try:
            lifeline.recv()  # the driver has no more to do
        except (EOFError, OSError):  # it died
            for job in _jobs[:1]:
                shutil.rmtree(job.parent, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _begin(job: Path) -> None:
    _jobs[:] = [job]


def _work(item: Any) -> Any:
    if len(_jobs) == 1:
        _jobs.append(pickle.loads(_jobs[0].read_bytes())())
    return _jobs[1](item)
