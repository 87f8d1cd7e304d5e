"""The engine of `votestream serve`: it learns while it predicts, and loses nothing that it said it has learned."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from votestream.backbones.reference import describe
from votestream.common.validation import as_features, as_task
from votestream.photos.lock import alone
from votestream.photos.opening import check_target
from votestream.photos.sidecar import followed
from votestream.serve.changes import Forget, Job, Learn, Rename, Undo, checked_label, sentence
from votestream.serve.events import Events, Subscription
from votestream.serve.looker import Glance, Lesson, Looker, Question
from votestream.serve.messages import (
    Answer,
    Answers,
    BadRequest,
    Change,
    Columns,
    Failed,
    Label,
    NotReady,
    NotThere,
    ServeError,
    Taught,
    Upload,
)
from votestream.serve.opening import open_served
from votestream.serve.promises import Promise, request_digest
from votestream.serve.room import Room
from votestream.serve.settings import EngineSettings
from votestream.serve.sight import Sight
from votestream.serve.state import ServedModel
from votestream.serve.view import View
from votestream.serve.writer import Writer


class Engine:
    """A model that is served. Every method may be called from any thread; what takes time gives a Future.

    Every change (a sample learned, an undo, a rename, a class forgotten) has the next number. A Future of a change is
    done when the change is on disk. A prediction tells the number of the last change that it knows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = Engine.open(Path(folder) / "m.safetensors", EngineSettings(backbone="reduced_resnet18"))
    ...     taught = engine.learn_features([[0.0, 1.0], [1.0, 0.0]], ["up", "right"]).result()
    ...     answer = engine.predict_features([[0.1, 0.9]]).result().answers[0]
    ...     engine.close()
    >>> [lesson.lesson for lesson in taught.lessons], answer.label, answer.lesson
    ([1, 2], 'up', 2)
    """

    def __init__(self, model: ServedModel, remarks: list[str], settings: EngineSettings, held: ExitStack) -> None:
        self.name = model.path.name
        self.settings, self.remarks = settings, remarks
        self._held = held  # the model's lock
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._stopping = False
        self._events = Events()
        self._journal_bytes = model.journal.bytes_on_disk
        self._model = model
        self._counts: Counter[str] = Counter()
        self._writer = Writer(model, settings, self._events)
        view = self._writer.view
        self._sight = Sight(view.backbone, not view.fitted, settings)
        self._looker = Looker(self._sight, self._seen, settings)
        self._asked = Room("predictions", settings.most_predictions, settings.most_row_bytes)
        self._answering = ThreadPoolExecutor(2, "answer")

    @classmethod
    def open(cls, path: str | os.PathLike[str], settings: EngineSettings | None = None) -> Engine:
        """The model in the file, or a new one; PhotoError says why it cannot be served."""
        settings = settings or EngineSettings()
        path = followed(Path(path))
        check_target(path)
        with ExitStack() as held:
            held.enter_context(alone(path))
            model, remarks = open_served(path, settings)
            return cls(model, remarks, settings, held.pop_all())

    def close(self) -> None:
        """Finish what was asked for, bring the model file up to date, and let go of it. May be called twice."""
        with self._closing:
            if self._process != os.getpid() or self._stopping:
                return
            self._stopping = True
            self._looker.close()
            self._answering.shutdown()
            self._writer.close()
            self._events.close()
            self._held.close()

    # ---- teaching -------------------------------------------------------------------------------

    def learn(
        self, uploads: list[Upload], label: Label, task: Label | None = None, key: str | None = None
    ) -> Future[Taught]:
        """Learn images of one class, in one call; those that cannot be read are among the answer's problems."""
        label, task = checked_label(label), _checked_task(task)
        if not uploads:
            raise BadRequest("There is no image in the request.")
        if self._view.fitted and self._view.backbone is None:
            raise BadRequest("The model was taught rows of numbers, not images: teach it such rows.")
        parts = ["learn", label, task, *(part for upload in uploads for part in (upload.name, upload.data))]
        return self._keyed(key, parts, lambda promise: self._looker.look(uploads, promise, Lesson(label, task)))

    def learn_features(
        self, rows: ArrayLike, labels: list[Label], task: Label | None = None, key: str | None = None
    ) -> Future[Taught]:
        """Learn rows of features, in one call: those of the model's backbone, or of your own for a model without."""
        features = _as_rows(rows)
        labels, task = [checked_label(label) for label in labels], _checked_task(task)
        if not self._view.fitted and features.shape[1] > self.settings.most_width:
            most = self.settings.most_width
            raise BadRequest(f"The rows of a new model may have at most {most:,} numbers, got {features.shape[1]:,}.")
        if len(labels) != len(features):
            raise BadRequest(f"There must be a label for each row: {len(features)} rows, {len(labels)} labels.")
        parts = ["learn", labels, task, features.shape, features.tobytes()] if key else []
        return self._change(Learn(features, labels, task), parts, key)

    def undo(self, lesson: int | None = None, key: str | None = None) -> Future[Any]:
        """Take a change back, as if it had never been; None is the newest lesson that still stands."""
        if lesson is not None and (not isinstance(lesson, int) or isinstance(lesson, bool)):
            raise BadRequest(f"A lesson must be a number, got {lesson!r:.60}.")
        if lesson is not None and lesson.bit_length() > 62:
            raise NotThere("There is no lesson of so large a number.")
        return self._change(Undo(lesson), ["undo", lesson], key)

    def rename(self, old: Label, new: Label, merge: bool = False, key: str | None = None) -> Future[Any]:
        """Give a class another label; with `merge`, that of another class, which it becomes part of."""
        job = Rename(checked_label(old), checked_label(new), merge)
        return self._change(job, ["rename", job.old, job.new, merge], key)

    def forget(self, label: Label, key: str | None = None) -> Future[Any]:
        """Take a class out of the model."""
        return self._change(Forget(checked_label(label)), ["forget", label], key)

    def _change(self, job: Job, parts: list[Any], key: str | None) -> Future[Any]:
        return self._keyed(key, parts, lambda promise: self._writer.submit(job, promise))

    def _keyed(self, key: str | None, parts: list[Any], start: Callable[[Promise], None]) -> Future[Any]:
        """Start what the request asks for, unless one with its key was started before."""
        self._check_open()
        claimed = Promise() if key is None else self._model.keys.claim(key, request_digest(*parts))
        if isinstance(claimed, Future):
            return claimed
        future = claimed.future()
        assert future is not None
        try:
            start(claimed)
        except ServeError as problem:
            claimed.fail(problem)  # whoever came with the same key meanwhile is told, too
            raise
        return future

    # ---- predicting -----------------------------------------------------------------------------

    def predict(self, uploads: list[Upload], top: int | None = None) -> Future[Answers]:
        """Predict images; those that cannot be read are among the answer's problems."""
        self._check_asked(uploads, top)
        view = self._view
        if view.backbone is None:
            raise BadRequest("The model was taught rows of numbers, not images: send such rows.")
        return self._keyed(None, [], lambda promise: self._looker.look(uploads, promise, Question(top)))

    def predict_features(self, rows: ArrayLike, top: int | None = None) -> Future[Answers]:
        """Predict rows of features."""
        features = _as_rows(rows)
        self._check_asked(features, top)
        self._asked.enter(1, features.nbytes)
        return self._keyed(None, [], lambda promise: self._soon(self._answer_features, promise, features, top))

    def predict_columns(self, rows: ArrayLike) -> Future[Columns]:
        """Predict many rows of features quickly: labels and how sure they are, nothing else."""
        features = _as_rows(rows)
        self._check_asked(features, None)
        self._asked.enter(1, features.nbytes)
        return self._keyed(None, [], lambda promise: self._soon(self._answer_columns, promise, features))

    def _soon(self, work: Callable[..., None], *about: Any) -> None:
        try:
            self._answering.submit(work, *about)
        except RuntimeError:  # it was closed meanwhile
            raise NotReady("The service is stopping.") from None

    def _check_asked(self, what: Any, top: int | None) -> None:
        self._check_open()
        if not len(what):
            raise BadRequest("There is nothing in the request that could be predicted.")
        if top is not None and (not isinstance(top, int) or top < 1):
            raise BadRequest(f"top must be a number above 0, got {top!r:.60}.")
        if not self._view.fitted:
            self._view.answers(np.empty((0, 0), np.float32), [], [], 0)  # which says why not

    def _answer_features(self, promise: Promise, rows: NDArray[np.float32], top: int | None) -> None:
        self._asked.leave(1, rows.nbytes)
        if promise.begin():
            n = len(rows)
            self._answer([promise], rows, [n], [top] * n, [None] * n, [[]])

    def _answer_columns(self, promise: Promise, rows: NDArray[np.float32]) -> None:
        self._asked.leave(1, rows.nbytes)
        if not promise.begin():
            return
        try:
            columns = self._view.columns(rows, self.settings.unknown)
        except BaseException as problem:
            promise.fail(_told(problem))
            return
        self._counts["predictions"] += len(rows)
        promise.resolve(columns)

    # ---- what the looker has seen ---------------------------------------------------------------

    def _seen(self, glances: list[Glance]) -> None:
        """Images became features: lessons go to the writer, and predictions are answered together."""
        asked = []
        for glance in glances:
            if not glance.promise.wanted:
                glance.promise.begin()  # it is over
            elif isinstance(glance.about, Lesson):
                self._teach(glance, *glance.about)
            elif glance.promise.begin():
                asked.append(glance)
        if not asked:
            return
        found = [glance.rows for glance in asked]
        sizes = [len(rows) for rows in found]
        tops = [glance.about.top for glance in asked if isinstance(glance.about, Question) for _ in glance.rows]
        files = [name for rows in found for name, _ in rows]
        rows = [row for rows in found for _, row in rows]
        stacked = np.stack(rows) if rows else np.empty((0, 1), np.float32)
        self._answer([g.promise for g in asked], stacked, sizes, tops, files, [g.problems for g in asked])

    def _teach(self, glance: Glance, label: Label, task: Label | None) -> None:
        if not glance.rows:
            if glance.promise.begin():
                glance.promise.resolve(Taught([], glance.problems))
            return
        assert glance.backbone is not None
        names, rows = zip(*glance.rows, strict=True)
        about = describe(glance.backbone)
        job = Learn(np.stack(rows), [label] * len(rows), task, about, list(names), glance.problems)
        try:
            self._writer.submit(job, glance.promise)
        except ServeError as problem:
            glance.promise.fail(problem)

    def _answer(
        self,
        promises: list[Promise],
        rows: NDArray[np.float32],
        sizes: list[int],
        tops: list[int | None],
        files: list[Any],
        problems: list[Any],
    ) -> None:
        """Answer requests of so many rows each, all from one view."""
        try:
            answers: list[Answer] = self._view.answers(rows, tops, files, self.settings.unknown) if len(rows) else []
        except BaseException as problem:
            for promise in promises:
                promise.fail(_told(problem))
            return
        self._counts["predictions"] += len(rows)
        start = 0
        for promise, size, wrong in zip(promises, sizes, problems, strict=True):
            promise.resolve(Answers(answers[start : start + size], wrong))
            start += size

    # ---- telling --------------------------------------------------------------------------------

    @property
    def _view(self) -> View:
        return self._writer.view

    @property
    def state(self) -> str:
        """ "loading", "ready" or "stopping"."""
        return "stopping" if self._stopping else "loading" if self._sight.loading else "ready"

    @property
    def problem(self) -> str | None:
        """What keeps it from learning, or the file from being written: a sentence."""
        return self._writer.problem or self._sight.problem

    def describe(self) -> dict[str, Any]:
        """What GET /v1/model sends."""
        return {
            "name": self.name,
            "state": self.state,
            **self._view.description,
            "unknown_threshold": round(1 - self.settings.unknown, 6),
            "problem": self.problem,
            "remarks": self.remarks,
        }

    def answered(self, key: str) -> Taught | Change | None:
        """What a change with that key was answered; None where there was none, or 10,000 others since."""
        return self._model.keys.find(key)

    def model_file(self) -> tuple[str, bytes]:
        """ETag and bytes of the model's file as it is now."""
        return self._view.file

    def subscribe(self, wake: Callable[[], None] | None = None) -> Subscription:
        """Hear of every change from now on. See `Subscription`."""
        return self._events.subscribe(wake)

    def statistics(self) -> dict[str, float]:
        """Numbers for a monitor."""
        writer, looker, view = self._writer, self._looker, self._view
        counts = writer.counts
        return {
            "lessons": counts["lessons"],
            "undos": counts["undo"],
            "renames": counts["rename"],
            "forgets": counts["forget"],
            "refused": counts["refused"],
            "refused_by_disk": counts["refused by the disk"],
            "too_busy": looker.refused + writer.room.refused + self._asked.refused,
            "predictions": self._counts["predictions"],
            "images_waiting": looker.waiting,
            "image_bytes_waiting": looker.bytes_waiting,
            "samples_waiting": writer.room.inside,
            "predictions_waiting": self._asked.inside,
            "images_seen": looker.images,
            "backbone_batches": looker.batches,
            "largest_group": writer.largest_group,
            "folds": counts["folds"],
            "fold_seconds": self._model.fold_seconds,
            "unfolded": view.number - self._model.folded.number,
            "lesson": view.number,
            "journal_bytes": self._journal_bytes(),
            "subscribers": len(self._events),
        }

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise NotReady("The service was opened by another process: open it in each process that uses it.")
        if self._stopping:
            raise NotReady("The service is stopping.")


def _told(problem: BaseException) -> ServeError:
    return problem if isinstance(problem, ServeError) else Failed(f"The prediction failed: {problem!r}.")


def _as_rows(rows: ArrayLike) -> NDArray[np.float32]:
    try:
        return as_features(rows)
    except (TypeError, ValueError) as problem:
        raise BadRequest(sentence(problem)) from None


def _checked_task(task: Any) -> Label | None:
    if task is None:
        return None
    try:
        return checked_label(as_task(task))
    except ValueError as problem:
        raise BadRequest(sentence(problem)) from None
