"""The thread that changes a model: it takes all waiting jobs, writes them to disk together, and shows the result."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from votestream.serve.engine.changes import Job, Learn, Undo, class_counts
from votestream.serve.engine.events import Events
from votestream.serve.engine.idempotency import PendingAnswer
from votestream.serve.engine.journal import JournalEntry
from votestream.serve.engine.messages import Correction, DiskError, InternalError, LearnResult, NotReady, ServeError
from votestream.serve.engine.model_view import ModelView, change_to_json
from votestream.serve.engine.queue_limits import QueueLimit
from votestream.serve.engine.served_model import ServedModel
from votestream.serve.engine.settings import EngineSettings

LOG = logging.getLogger("votestream.serve")
CHECKPOINT_TIME_SHARE = 0.2  # share of the time that writing the model file may take
MAX_GROUP = 64  # jobs in one transaction; with more, the first of them would wait longer


@dataclass(frozen=True)
class QueuedJob:
    """A job that waits for the writer, and what it counts in the queue."""

    job: Job
    pending: PendingAnswer
    rows: int
    size: int


class Writer:
    """Changes the model in a thread of its own. `view` is the newest state that is on disk."""

    def __init__(self, model: ServedModel, settings: EngineSettings, events: Events) -> None:
        self._model, self._settings, self._events = model, settings, events
        self.view: ModelView = model.view
        self.failed = False
        self._problem: str | None = None  # with changes
        self._checkpoint_problem: str | None = None
        self.counts: Counter[str] = Counter()
        self.largest_group = 0
        self.limit = QueueLimit("samples", settings.max_rows, settings.max_row_bytes)
        self._queue: deque[QueuedJob] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._checkpoint_due: float | None = time.monotonic() if model.pending_changes else None
        self._last_checkpoint = float("-inf")
        self._thread = threading.Thread(target=self._run, name="write", daemon=True)
        self._thread.start()

    # ---- called from any thread -----------------------------------------------------------------

    @property
    def problem(self) -> str | None:
        """A sentence about what is wrong with the disk, or with this thread."""
        return self._problem or self._checkpoint_problem

    def submit(self, job: Job, pending: PendingAnswer) -> None:
        """Queue a job. Raises TooBusy if the queue is full, NotReady if the writer has stopped."""
        rows, size = (len(job.rows), job.rows.nbytes) if isinstance(job, Learn) else (1, 0)
        self.limit.enter(rows, size)
        with self._changed:
            if not (self._stopping or self.failed):
                self._queue.append(QueuedJob(job, pending, rows, size))
                self._changed.notify()
                return
        self.limit.leave(rows, size)
        raise NotReady(self._problem if self.failed and self._problem else "The service is stopping.")

    def close(self) -> None:
        """Do all queued jobs, bring the model file up to date, and end."""
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
                if self._checkpoint_due is not None and time.monotonic() >= self._checkpoint_due:
                    self._write_checkpoint()
                elif self._model.log_needs_truncation and not self._queue:
                    self._truncate_log()
            if self._model.pending_changes:
                self._write_checkpoint()
        except BaseException as problem:
            LOG.exception("the writer has stopped")
            self._refuse_all(problem)
        finally:
            self._model.journal.close()

    def _take(self) -> list[QueuedJob] | None:
        """Take the jobs that wait; an undo is taken alone. Empty when a checkpoint is due, None at the end."""
        with self._changed:
            while not self._queue:
                if self._stopping:
                    return None
                left = None if self._checkpoint_due is None else self._checkpoint_due - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._changed.wait(left)
            group = [self._queue.popleft()]
            while (
                self._queue
                and len(group) < MAX_GROUP
                and not isinstance(group[-1].job, Undo)
                and not isinstance(self._queue[0].job, Undo)
            ):
                group.append(self._queue.popleft())
        for queued in group:
            self.limit.leave(queued.rows, queued.size)
        return group

    def _do(self, group: list[QueuedJob]) -> None:
        """Put the jobs on disk and show the new state. Every job gets its answer."""
        try:
            group = [queued for queued in group if queued.pending.start()]
            before = self._model.number
            outcomes = self._model.change([(queued.job, queued.pending.stored) for queued in group])
        except DiskError as problem:
            self._problem = str(problem)
            self.counts["refused by the disk"] += len(group)
            _fail(group, problem)
            return
        except BaseException:
            _fail(group, InternalError("The service has stopped learning: restart it."))
            raise
        self._problem = None
        try:
            if self._model.number > before:
                self._show(before, outcomes)
        finally:  # the changes are on disk, so that they are confirmed even if showing them fails
            self._answer(group, outcomes)

    def _answer(self, group: list[QueuedJob], outcomes: list[LearnResult | Correction | ServeError]) -> None:
        for queued, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, ServeError):
                self.counts["refused"] += 1
                queued.pending.fail(outcome)
            else:
                queued.pending.resolve(outcome)

    def _show(self, before: int, outcomes: list[LearnResult | Correction | ServeError]) -> None:
        """Predict with the new state, plan the next checkpoint, and publish the changes."""
        model, settings = self._model, self._settings
        self.view = model.view
        self.largest_group = max(self.largest_group, model.number - before)
        now = time.monotonic()
        earliest = self._last_checkpoint + model.checkpoint_seconds / CHECKPOINT_TIME_SHARE
        if self._checkpoint_due is None:
            self._checkpoint_due = max(earliest, now + settings.checkpoint_seconds)
        if model.pending_changes >= settings.checkpoint_changes and self._checkpoint_problem is None:
            self._checkpoint_due = max(earliest, now)
        for outcome in outcomes:
            if isinstance(outcome, LearnResult):
                self.counts["lessons"] += len(outcome.lessons)
            elif isinstance(outcome, Correction):
                self.counts[outcome.kind] += 1
        if len(self._events):
            totals = _totals(model.view)
            for entry in model.last_changes:
                self._events.publish({**change_to_json(entry), "right": _was_right(entry), **totals})

    def _write_checkpoint(self) -> None:
        try:
            self._model.write_checkpoint()
            self._checkpoint_due = self._checkpoint_problem = None
            self._last_checkpoint = time.monotonic()
            self.counts["checkpoints"] += 1
        except Exception as problem:  # no change is lost: the journal has all of them
            reason = getattr(problem, "strerror", None) or problem
            self._checkpoint_problem = (
                f"{self._model.path} cannot be written: {reason}. The lessons are safe beside it."
            )
            self._checkpoint_due = time.monotonic() + self._settings.checkpoint_seconds
            LOG.warning(self._checkpoint_problem)

    def _truncate_log(self) -> None:
        try:
            self._model.truncate_log()
        except sqlite3.Error as problem:
            LOG.warning("the write-ahead log of the journal could not be truncated: %s", problem)

    def _refuse_all(self, problem: BaseException) -> None:
        """Answer the queued jobs after this thread has failed, and accept no more."""
        with self._changed:
            self.failed = True
            self._problem = f"The service has stopped learning ({type(problem).__name__}: {problem}): restart it."
            waiting = [*self._queue]
            self._queue.clear()
        for queued in waiting:
            self.limit.leave(queued.rows, queued.size)
        _fail(waiting, InternalError(self._problem))


def _fail(group: list[QueuedJob], problem: ServeError) -> None:
    for queued in group:
        queued.pending.fail(problem)


def _was_right(entry: JournalEntry) -> bool | None:
    """Whether the model predicted the label of a sample before it learned it. None for a new class."""
    if entry.kind != "learn" or entry.about["new_class"] or entry.about["was"] is None:
        return None
    return bool(entry.about["was"]["label"] == entry.about["label"])


def _totals(view: ModelView) -> dict[str, Any]:
    """What every event says of the model as a whole."""
    if not view.fitted:
        return {"images": 0, "classes": 0, "lately": None}
    counts, tracker = class_counts(view.learner), view.learner.state_.tracker
    return {
        "images": None if None in counts else sum(counts),
        "classes": len(counts),
        "lately": None if tracker is None else tracker.lately().accuracy,
    }
