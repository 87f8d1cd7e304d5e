"""Predictions of a served model, and its description: what engines and followers have in common."""

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
from votestream.serve.engine.changes import error_sentence
from votestream.serve.engine.events import Events, Subscription
from votestream.serve.engine.explanation import Explanation, explain
from votestream.serve.engine.features import BackboneLoader, FeatureExtractor, ImageRequest, PredictRequest
from votestream.serve.engine.idempotency import PendingAnswer
from votestream.serve.engine.messages import (
    BadRequest,
    ColumnsResult,
    InternalError,
    ModelVersion,
    NotReady,
    PredictResult,
    ServeError,
    Upload,
)
from votestream.serve.engine.model_view import ModelView, export_model
from votestream.serve.engine.queue_limits import QueueLimit
from votestream.serve.engine.settings import EngineSettings


class PredictionEngine:
    """Predicts with the newest ModelView. All methods may be called from any thread; slow ones return a Future.

    `Engine` also learns. `Follower` keeps a copy of a model that another service trains.
    """

    def __init__(
        self, name: str, loader: BackboneLoader, remarks: list[str], settings: EngineSettings, model_lock: ExitStack
    ) -> None:
        self.name, self.settings, self.remarks = name, settings, remarks
        self._model_lock = model_lock
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._stopping = False
        self._events = Events()
        self._counts: Counter[str] = Counter()
        self._loader = loader
        self._extractor = FeatureExtractor(loader, self._features_ready, settings)
        self._limit = QueueLimit("predictions", settings.max_predictions, settings.max_row_bytes)
        self._prediction_threads = ThreadPoolExecutor(2, "predict")

    @property
    def _view(self) -> ModelView:
        """The newest state of the model."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish all accepted requests, bring the model file up to date, release its lock. May be called twice."""
        with self._closing:
            if self._process != os.getpid() or self._stopping:
                return
            self._stopping = True
            self._extractor.close()
            self._prediction_threads.shutdown()
            self._loader.close()
            self._close_writer()
            self._events.close()
            self._model_lock.close()

    def _close_writer(self) -> None:
        """Close what changes the model, after the last prediction."""

    # ---- predicting -----------------------------------------------------------------------------

    def predict(self, uploads: list[Upload], top: int | None = None) -> Future[PredictResult]:
        """Predict images. The result names the files that could not be read."""
        self._check_predict(uploads, top)
        if self._view.backbone is None:
            raise BadRequest("The model was trained on rows of numbers, not on images: send rows.")
        return self._start(PendingAnswer(), self._extractor.submit, uploads, PredictRequest(top))

    def predict_features(self, rows: ArrayLike, top: int | None = None) -> Future[PredictResult]:
        """Predict rows of features."""
        features = as_rows(rows)
        self._check_predict(features, top)
        self._limit.enter(1, features.nbytes)
        return self._start(PendingAnswer(), self._in_thread, self._predict_rows, features, top)

    def predict_columns(self, rows: ArrayLike) -> Future[ColumnsResult]:
        """Predict many rows of features quickly: only labels, confidences and unknown scores."""
        features = as_rows(rows)
        self._check_predict(features, None)
        self._limit.enter(1, features.nbytes)
        return self._start(PendingAnswer(), self._in_thread, self._predict_columns, features)

    def explain(self, upload: Upload, others: list[Upload]) -> Future[Explanation]:
        """Find the places of an image that speak for its class, and how near the other images are to it."""
        self._check_predict([upload], None)
        if self._view.backbone is None:
            raise BadRequest("The model was trained on rows of numbers: there is no image to explain.")
        size = sum(len(each.data) for each in (upload, *others))
        self._limit.enter(1, size)
        return self._start(PendingAnswer(), self._in_thread, self._explain, upload, others, size)

    def _start(self, pending: PendingAnswer, work: Callable[..., None], *args: Any) -> Future[Any]:
        """Call `work(*args, pending)`, which will answer. Returns the future of the answer."""
        future = pending.future()
        assert future is not None
        try:
            work(*args, pending)
        except ServeError as problem:
            pending.fail(problem)  # also for requests with the same key that came meanwhile
            raise
        return future

    def _in_thread(self, work: Callable[..., None], *args: Any) -> None:
        try:
            self._prediction_threads.submit(work, *args)
        except RuntimeError:  # the threads were shut down meanwhile
            raise NotReady("The service is stopping.") from None

    def _check_predict(self, items: Any, top: int | None) -> None:
        self._check_open()
        if not len(items):
            raise BadRequest("There is nothing to predict in the request.")
        if top is not None and (not isinstance(top, int) or top < 1):
            raise BadRequest(f"top must be a number above 0, got {top!r:.60}.")
        self._view.check_fitted()

    def _predict_rows(self, rows: NDArray[np.float32], top: int | None, pending: PendingAnswer) -> None:
        self._limit.leave(1, rows.nbytes)
        if pending.start():
            n = len(rows)
            self._answer(self._view, [(pending, n, [])], rows, [top] * n, [None] * n)

    def _predict_columns(self, rows: NDArray[np.float32], pending: PendingAnswer) -> None:
        self._limit.leave(1, rows.nbytes)
        if not pending.start():
            return
        try:
            columns = self._view.predict_columns(rows, self.settings.unknown)
        except BaseException as problem:
            pending.fail(_as_serve_error(problem))
            return
        self._counts["predictions"] += len(rows)
        pending.resolve(columns)

    def _explain(self, upload: Upload, others: list[Upload], size: int, pending: PendingAnswer) -> None:
        self._limit.leave(1, size)
        if not pending.start():
            return
        try:
            backbone, snapshot = self._loader.backbone_for(upload), self._view.snapshot
            assert snapshot is not None
            max_pixels = self.settings.max_pixels or backbone.max_pixels
            pending.resolve(explain(snapshot, backbone, upload, others, max_pixels))
        except BaseException as problem:
            pending.fail(_as_serve_error(problem))

    def _features_ready(self, requests: list[ImageRequest]) -> None:
        """Pass images to learn on to the writer, and answer all images to predict together."""
        view = self._view
        digest = view.backbone["digest"] if view.backbone else None
        answered, rows, tops, files = [], [], [], []
        for request in requests:
            pending, purpose = request.pending, request.purpose
            if pending.abandoned:
                pending.start()  # which ends it
            elif not isinstance(purpose, PredictRequest):
                self._learn_features_of(request)
            elif request.rows and digest and (request.backbone is None or request.backbone.digest != digest):
                pending.fail(NotReady("The model uses another backbone now: send the images again."))
            elif pending.start():
                answered.append((pending, len(request.rows), request.problems))
                rows += request.rows
                files += request.files
                tops += [purpose.top] * len(request.rows)
        if answered:
            self._answer(view, answered, np.stack(rows) if rows else np.empty((0, 1), np.float32), tops, files)

    def _learn_features_of(self, request: ImageRequest) -> None:
        raise NotImplementedError

    def _answer(
        self,
        view: ModelView,
        requests: list[tuple[PendingAnswer, int, list[Any]]],
        rows: NDArray[np.float32],
        tops: list[int | None],
        files: list[Any],
    ) -> None:
        """Answer requests from one view. Each has so many of the rows, and problems with its other files."""
        try:
            predictions = view.predict(rows, tops, files, self.settings.unknown) if len(rows) else []
        except BaseException as problem:
            for pending, _, _ in requests:
                pending.fail(_as_serve_error(problem))
            return
        self._counts["predictions"] += len(rows)
        start = 0
        for pending, size, problems in requests:
            pending.resolve(PredictResult(predictions[start : start + size], problems))
            start += size

    # ---- describing -----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """ "loading", "ready" or "stopping"."""
        return "stopping" if self._stopping else "loading" if self._loader.loading else "ready"

    @property
    def problem(self) -> str | None:
        """A sentence about what keeps the model from learning or from being kept up to date."""
        return self._loader.problem

    def describe(self) -> dict[str, Any]:
        """The answer of GET /v1/model."""
        return {
            "name": self.name,
            "state": self.state,
            **self._view.description,
            "unknown_threshold": round(1 - self.settings.unknown, 6),
            "problem": self.problem,
            "remarks": self.remarks,
        }

    def model_file(self) -> tuple[ModelVersion, bytes]:
        """The model file as it is now, and its version."""
        return self._view.file

    def exported(self, kind: str) -> bytes:
        """The model as an ONNX file ("onnx") or as an HTML page ("html")."""
        view, backbone = self._view, None
        view.check_fitted()
        if view.backbone is not None and (backbone := self._loader.backbone) is None:
            raise NotReady(self._loader.problem or "The backbone is being loaded.")
        return export_model(view.learner, backbone, kind)

    def subscribe(self, wake: Callable[[], None] | None = None) -> Subscription:
        """Receive an event for every change from now on. See `Subscription`."""
        return self._events.subscribe(wake)

    def statistics(self) -> dict[str, float]:
        """Numbers for a monitor."""
        extractor = self._extractor
        return {
            "too_busy": extractor.refused + self._limit.refused,
            "predictions": self._counts["predictions"],
            "images_waiting": extractor.waiting,
            "image_bytes_waiting": extractor.bytes_waiting,
            "predictions_waiting": self._limit.waiting,
            "images_seen": extractor.images,
            "backbone_batches": extractor.batches,
            "lesson": self._view.number,
            "subscribers": len(self._events),
        }

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise NotReady("The service was opened by another process: open it in each process that uses it.")
        if self._stopping:
            raise NotReady("The service is stopping.")


def _as_serve_error(problem: BaseException) -> ServeError:
    return problem if isinstance(problem, ServeError) else InternalError(f"The prediction failed: {problem!r}.")


def as_rows(rows: ArrayLike) -> NDArray[np.float32]:
    """Rows of features as float32. Raises BadRequest if they are not finite numbers of equal length."""
    try:
        return as_features(rows)
    except (TypeError, ValueError) as problem:
        raise BadRequest(error_sentence(problem)) from None
