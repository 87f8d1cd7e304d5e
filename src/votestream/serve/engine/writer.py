"""The one thread that changes a model: it takes all jobs that wait, puts them on disk at once, shows the result."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from votestream.serve.engine.changes import Job, Learn, Undo, counts_of
from votestream.serve.engine.events import Events
from votestream.serve.engine.idempotency import Promise
from votestream.serve.engine.journal import Entry
from votestream.serve.engine.messages import Change, DiskProblem, Failed, NotReady, ServeError, Taught
from votestream.serve.engine.queue_limits import Room
from votestream.serve.engine.served_model import ServedModel
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.engine.view import View, told

LOG = logging.getLogger("votestream.serve")
SAVING = 0.2  # share of the time that writing the model file may take
TOGETHER = 64  # jobs put on disk in one go; more would keep the first of them waiting


@dataclass(frozen=True)
class Waiting:
    job: Job
    promise: Promise
    rows: int
    size: int


class Writer:
    """`view` is the newest state that is on disk."""

    def __init__(self, model: ServedModel, settings: EngineSettings, events: Events) -> None:
        self._model, self._settings, self._events = model, settings, events
        self.view: View = model.view
        self.dead = False
        self._problem: str | None = None  # with lessons
        self._fold_problem: str | None = None
        self.counts: Counter[str] = Counter()
        self.largest_group = 0
        self.room = Room("samples", settings.most_rows, settings.most_row_bytes)
        self._queue: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._fold_at: float | None = time.monotonic() if model.unfolded else None
        self._folded_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)
        self._thread.start()

    # ---- from any thread ------------------------------------------------------------------------

    @property
    def problem(self) -> str | None:
        """What is wrong with the disk, or with this thread."""
        return self._problem or self._fold_problem

    def submit(self, job: Job, promise: Promise) -> None:
        """Raises TooBusy where too much waits, NotReady where nothing is taken any more."""
        rows, size = (len(job.rows), job.rows.nbytes) if isinstance(job, Learn) else (1, 0)
        self.room.enter(rows, size)
        with self._changed:
            if not (self._stopping or self.dead):
                self._queue.append(Waiting(job, promise, rows, size))
                self._changed.notify()
                return
        self.room.leave(rows, size)
        raise NotReady(self._problem if self.dead and self._problem else "The service is stopping.")

    def close(self) -> None:
        """Do what waits, bring the model file up to date, and end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (group := self._take()) is not None:
                if group:
                    self._do(group)
                if self._fold_at is not None and time.monotonic() >= self._fold_at:
                    self._fold()
                elif self._model.untidy and not self._queue:
                    self._tidy()
            if self._model.unfolded:
                self._fold()
        except BaseException as problem:
            LOG.exception("the writer has stopped")
            self._die(problem)
        finally:
            self._model.journal.close()

    def _take(self) -> list[Waiting] | None:
        """The jobs that wait, an undo alone; none where it is time to fold; None at the end."""
        with self._changed:
            while not self._queue:
                if self._stopping:
                    return None
                left = None if self._fold_at is None else self._fold_at - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._changed.wait(left)
            group = [self._queue.popleft()]
            while self._queue and len(group) < TOGETHER and not any(_is_undo(w) for w in (group[-1], self._queue[0])):
                group.append(self._queue.popleft())
        for waiting in group:
            self.room.leave(waiting.rows, waiting.size)
        return group

    def _do(self, group: list[Waiting]) -> None:
        try:
            group = [waiting for waiting in group if waiting.promise.begin()]
            before = self._model.number
            outcomes = self._model.change([(waiting.job, waiting.promise.kept) for waiting in group])
        except DiskProblem as problem:
            self._problem = str(problem)
            self.counts["refused by the disk"] += len(group)
            _fail(group, problem)
            return
        except BaseException:
            _fail(group, Failed("The service has stopped learning: restart it."))
            raise
        self._problem = None
        try:
            self._show(before, outcomes)
        finally:  # the changes are on disk: whoever asked for them hears so, whatever goes wrong here
            self._answer(group, outcomes)

    def _answer(self, group: list[Waiting], outcomes: list[Taught | Change | ServeError]) -> None:
        for waiting, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, ServeError):
                self.counts["refused"] += 1
                waiting.promise.fail(outcome)
            else:
                waiting.promise.resolve(outcome)

    def _show(self, before: int, outcomes: list[Taught | Change | ServeError]) -> None:
        model = self._model
        if model.number == before:
            return
        self.view = model.view
        self.largest_group = max(self.largest_group, model.number - before)
        soonest = self._folded_at + model.fold_seconds / SAVING
        if self._fold_at is None:
            self._fold_at = max(soonest, time.monotonic() + self._settings.fold_seconds)
        if model.unfolded >= self._settings.fold_lessons and self._fold_problem is None:
            self._fold_at = max(soonest, time.monotonic())
        for outcome in outcomes:
            if isinstance(outcome, Taught):
                self.counts["lessons"] += len(outcome.lessons)
            elif isinstance(outcome, Change):
                self.counts[outcome.kind] += 1
        if len(self._events):
            state = _state_of(model.view)
            for entry in model.made:
                self._events.tell({**told(entry), "right": _right(entry), **state})

    def _fold(self) -> None:
        try:
            self._model.fold()
            self._fold_at = self._fold_problem = None
            self._folded_at = time.monotonic()
            self.counts["folds"] += 1
        except Exception as problem:  # whatever it is: the lessons are on disk, and are learned from there again
            reason = getattr(problem, "strerror", None) or problem
            self._fold_problem = f"{self._model.path} cannot be written: {reason}. The lessons are safe beside it."
            self._fold_at = time.monotonic() + self._settings.fold_seconds
            LOG.warning(self._fold_problem)

    def _tidy(self) -> None:
        try:
            self._model.tidy()
        except sqlite3.Error as problem:
            LOG.warning("the journal could not be tidied: %s", problem)

    def _die(self, problem: BaseException) -> None:
        with self._changed:
            self.dead = True
            self._problem = f"The service has stopped learning ({type(problem).__name__}: {problem}): restart it."
            waiting = [*self._queue]
            self._queue.clear()
        for each in waiting:
            self.room.leave(each.rows, each.size)
        _fail(waiting, Failed(self._problem))


def _is_undo(waiting: Waiting) -> bool:
    return isinstance(waiting.job, Undo)


def _fail(group: list[Waiting], problem: ServeError) -> None:
    for waiting in group:
        waiting.promise.fail(problem)


def _right(entry: Entry) -> bool | None:
    """Whether the model had known it; of a class that it had not met, None."""
    if entry.kind != "learn" or entry.about["new_class"] or entry.about["was"] is None:
        return None
    return bool(entry.about["was"]["label"] == entry.about["label"])


def _state_of(view: View) -> dict[str, Any]:
    if not view.fitted:
        return {"images": 0, "classes": 0, "lately": None}
    counts, tracker = counts_of(view.learner), view.learner.state_.tracker
    return {
        "images": None if None in counts else sum(counts),
        "classes": len(counts),
        "lately": None if tracker is None else tracker.lately().accuracy,
    }
