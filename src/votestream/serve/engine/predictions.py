"""What every served model can do: predict images and rows of features, and tell about itself."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from votestream.common.validation import as_features
from votestream.serve.engine.changes import sentence
from votestream.serve.engine.events import Events, Subscription
from votestream.serve.engine.explanation import Explanation, explain
from votestream.serve.engine.features import Glance, Lesson, Looker, Question, Sight
from votestream.serve.engine.idempotency import Promise
from votestream.serve.engine.messages import (
    Answer,
    Answers,
    BadRequest,
    Columns,
    Conflict,
    Failed,
    Label,
    NotReady,
    ServeError,
    Upload,
    Version,
)
from votestream.serve.engine.queue_limits import Room
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.engine.view import View, exported


class PredictingEngine:
    """Predicts with the newest `_view`. Every method may be called from any thread; what takes time gives a Future.

    `Engine` learns, too; `Follower` keeps a copy of a model that is taught elsewhere.
    """

    def __init__(self, name: str, sight: Sight, remarks: list[str], settings: EngineSettings, held: ExitStack) -> None:
        self.name, self.settings, self.remarks = name, settings, remarks
        self._held = held  # the model's lock
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._stopping = False
        self._events = Events()
        self._counts: Counter[str] = Counter()
        self._sight = sight
        self._looker = Looker(sight, self._seen, settings)
        self._asked = Room("predictions", settings.most_predictions, settings.most_row_bytes)
        self._answering = ThreadPoolExecutor(2, "answer")

    @property
    def _view(self) -> View:
        raise NotImplementedError

    def close(self) -> None:
        """Finish what was asked for, bring the model file up to date, and let go of it. May be called twice."""
        with self._closing:
            if self._process != os.getpid() or self._stopping:
                return
            self._stopping = True
            self._looker.close()
            self._answering.shutdown()
            self._sight.close()
            self._end()
            self._events.close()
            self._held.close()

    def _end(self) -> None:
        """End what else there is, once nobody predicts any more."""

    # ---- predicting -----------------------------------------------------------------------------

    def predict(self, uploads: list[Upload], top: int | None = None) -> Future[Answers]:
        """Predict images; those that cannot be read are among the answer's problems."""
        self._check_asked(uploads, top)
        if self._view.backbone is None:
            raise BadRequest("The model was taught rows of numbers, not images: send such rows.")
        return self._promised(Promise(), lambda promise: self._looker.look(uploads, promise, Question(top)))

    def predict_features(self, rows: ArrayLike, top: int | None = None) -> Future[Answers]:
        """Predict rows of features."""
        features = as_rows(rows)
        self._check_asked(features, top)
        self._asked.enter(1, features.nbytes)
        return self._promised(Promise(), lambda promise: self._soon(self._answer_features, promise, features, top))

    def predict_columns(self, rows: ArrayLike) -> Future[Columns]:
        """Predict many rows of features quickly: labels and how sure they are, nothing else."""
        features = as_rows(rows)
        self._check_asked(features, None)
        self._asked.enter(1, features.nbytes)
        return self._promised(Promise(), lambda promise: self._soon(self._answer_columns, promise, features))

    def explain(self, upload: Upload, others: list[Upload]) -> Future[Explanation]:
        """Which places of an image speak for its class, and which of the others are nearest to it."""
        self._check_asked([upload], None)
        if self._view.backbone is None:
            raise BadRequest("The model was taught rows of numbers: there is no image to explain.")
        size = sum(len(each.data) for each in (upload, *others))
        self._asked.enter(1, size)
        return self._promised(Promise(), lambda promise: self._soon(self._explain, promise, upload, others, size))

    def _promised(self, promise: Promise, start: Callable[[Promise], None]) -> Future[Any]:
        """Start what a request asks for; what it will be told."""
        future = promise.future()
        assert future is not None
        try:
            start(promise)
        except ServeError as problem:
            promise.fail(problem)  # whoever came with the same key meanwhile is told, too
            raise
        return future

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
            self._answer(self._view, [promise], rows, [n], [top] * n, [None] * n, [[]])

    def _explain(self, promise: Promise, upload: Upload, others: list[Upload], size: int) -> None:
        self._asked.leave(1, size)
        if not promise.begin():
            return
        try:
            backbone, snapshot = self._sight.backbone_for(upload), self._view.snapshot
            assert snapshot is not None
            promise.resolve(
                explain(snapshot, backbone, upload, others, self.settings.max_pixels or backbone.max_pixels)
            )
        except BaseException as problem:
            promise.fail(_told(problem))

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
        asked, view = [], self._view
        for glance in glances:
            if not glance.promise.wanted:
                glance.promise.begin()  # it is over
            elif isinstance(glance.about, Lesson):
                self._teach(glance, *glance.about)
            elif not _fits(glance, view):
                glance.promise.fail(NotReady("The model sees through another backbone now: send the images again."))
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
        self._answer(view, [g.promise for g in asked], stacked, sizes, tops, files, [g.problems for g in asked])

    def _teach(self, glance: Glance, label: Label, task: Label | None) -> None:
        raise NotImplementedError

    def _answer(
        self,
        view: View,
        promises: list[Promise],
        rows: NDArray[np.float32],
        sizes: list[int],
        tops: list[int | None],
        files: list[Any],
        problems: list[Any],
    ) -> None:
        """Answer requests of so many rows each, all from one view."""
        try:
            answers: list[Answer] = view.answers(rows, tops, files, self.settings.unknown) if len(rows) else []
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
    def state(self) -> str:
        """ "loading", "ready" or "stopping"."""
        return "stopping" if self._stopping else "loading" if self._sight.loading else "ready"

    @property
    def problem(self) -> str | None:
        """What keeps the model from learning or from being kept up to date: a sentence."""
        return self._sight.problem

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

    def model_file(self) -> tuple[Version, bytes]:
        """The model's file as it is now, and which state that is."""
        return self._view.file

    def exported(self, kind: str) -> bytes:
        """The model as it is now, for places without Python: "onnx" or "html"."""
        view = self._view
        if not view.fitted:
            raise Conflict("The model has learned nothing yet: teach it something first.")
        if view.backbone is not None and self._sight.backbone is None:
            raise NotReady(self._sight.problem or "The network that reads images is being loaded.")
        return exported(view.learner, None if view.backbone is None else self._sight.backbone, kind)

    def subscribe(self, wake: Callable[[], None] | None = None) -> Subscription:
        """Hear of every change from now on. See `Subscription`."""
        return self._events.subscribe(wake)

    def statistics(self) -> dict[str, float]:
        """Numbers for a monitor."""
        looker = self._looker
        return {
            "too_busy": looker.refused + self._asked.refused,
            "predictions": self._counts["predictions"],
            "images_waiting": looker.waiting,
            "image_bytes_waiting": looker.bytes_waiting,
            "predictions_waiting": self._asked.inside,
            "images_seen": looker.images,
            "backbone_batches": looker.batches,
            "lesson": self._view.number,
            "subscribers": len(self._events),
        }

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise NotReady("The service was opened by another process: open it in each process that uses it.")
        if self._stopping:
            raise NotReady("The service is stopping.")


def _fits(glance: Glance, view: View) -> bool:
    """Whether the images were looked at through the backbone that the model was taught through."""
    if view.backbone is None or not glance.rows:
        return True  # the view will say what is wrong with such rows, or there are none
    return glance.backbone is not None and glance.backbone.digest == view.backbone["digest"]


def _told(problem: BaseException) -> ServeError:
    return problem if isinstance(problem, ServeError) else Failed(f"The prediction failed: {problem!r}.")


def as_rows(rows: ArrayLike) -> NDArray[np.float32]:
    try:
        return as_features(rows)
    except (TypeError, ValueError) as problem:
        raise BadRequest(sentence(problem)) from None
