"""The engine of `votestream serve`: learns while it predicts, and every change that it confirms is on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from votestream.backbones.reference import describe
from votestream.common.validation import as_task
from votestream.model_store.lock import model_lock
from votestream.model_store.paths import check_model_path, resolve_link
from votestream.serve.engine.changes import Forget, Job, Learn, Rename, Undo, checked_label, error_sentence
from votestream.serve.engine.features import BackboneLoader, ImageRequest, LearnRequest
from votestream.serve.engine.idempotency import PendingAnswer, request_digest
from votestream.serve.engine.messages import (
    BadRequest,
    Correction,
    Label,
    LearnResult,
    NotFound,
    ServeError,
    Upload,
)
from votestream.serve.engine.model_view import ModelView
from votestream.serve.engine.predictions import PredictionEngine, as_rows
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.served_model import ServedModel
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.engine.writer import Writer


class Engine(PredictionEngine):
    """A model that learns and predicts. All methods may be called from any thread; slow ones return a Future.

    Every change (a sample learned, an undo, a rename, a class forgotten) gets the next number. The Future of a change
    is done when the change is on disk. A prediction gives the number of the newest change that it is based on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = Engine.open(Path(folder) / "m.safetensors", EngineSettings(backbone="reduced_resnet18"))
    ...     learned = engine.learn_features([[0.0, 1.0], [1.0, 0.0]], ["up", "right"]).result()
    ...     prediction = engine.predict_features([[0.1, 0.9]]).result().answers[0]
    ...     engine.close()
    >>> [sample.lesson for sample in learned.lessons], prediction.label, prediction.lesson
    ([1, 2], 'up', 2)
    """

    def __init__(self, model: ServedModel, remarks: list[str], settings: EngineSettings, held: ExitStack) -> None:
        loader = BackboneLoader(model.view.backbone, not model.view.fitted, settings)
        super().__init__(model.path.name, loader, remarks, settings, held)
        self._model = model
        self._writer = Writer(model, settings, self._events)

    @classmethod
    def open(cls, path: str | os.PathLike[str], settings: EngineSettings | None = None) -> Engine:
        """Open the model in a file, or create a new one. Raises ModelStoreError if it cannot be served."""
        settings = settings or EngineSettings()
        path = resolve_link(Path(path))
        check_model_path(path)
        with ExitStack() as held:
            held.enter_context(model_lock(path))
            model, remarks = open_model(path, settings)
            return cls(model, remarks, settings, held.pop_all())

    def _close_writer(self) -> None:
        self._writer.close()

    # ---- changing the model ---------------------------------------------------------------------

    def learn(
        self, uploads: list[Upload], label: Label, task: Label | None = None, key: str | None = None
    ) -> Future[LearnResult]:
        """Learn images of one class, in one call. The result names the files that could not be read."""
        label, task = checked_label(label), _checked_task(task)
        if not uploads:
            raise BadRequest("There is no image in the request.")
        if self._view.fitted and self._view.backbone is None:
            raise BadRequest("The model was trained on rows of numbers, not on images: send rows.")
        parts = ["learn", label, task, *(part for upload in uploads for part in (upload.name, upload.data))]
        return self._start_once(key, parts, self._extractor.submit, uploads, LearnRequest(label, task))

    def learn_features(
        self, rows: ArrayLike, labels: list[Label], task: Label | None = None, key: str | None = None
    ) -> Future[LearnResult]:
        """Learn rows of features, in one call: of the model's backbone, or your own for a model without one."""
        features = as_rows(rows)
        labels, task = [checked_label(label) for label in labels], _checked_task(task)
        if not self._view.fitted and features.shape[1] > self.settings.max_width:
            most = self.settings.max_width
            raise BadRequest(f"The rows of a new model may have at most {most:,} numbers, got {features.shape[1]:,}.")
        if len(labels) != len(features):
            raise BadRequest(f"There must be a label for each row: {len(features)} rows, {len(labels)} labels.")
        parts = ["learn", labels, task, features.shape, features.tobytes()] if key else []
        return self._change(Learn(features, labels, task), parts, key)

    def undo(self, lesson: int | None = None, key: str | None = None) -> Future[Any]:
        """Undo the change with this number, as if it had never been made. None is the newest change not undone."""
        if lesson is not None and (not isinstance(lesson, int) or isinstance(lesson, bool)):
            raise BadRequest(f"A lesson must be a number, got {lesson!r:.60}.")
        if lesson is not None and lesson.bit_length() > 62:
            raise NotFound("There is no lesson with so large a number.")
        return self._change(Undo(lesson), ["undo", lesson], key)

    def rename(self, old: Label, new: Label, merge: bool = False, key: str | None = None) -> Future[Any]:
        """Give a class another label. With `merge`, the label of another class, and the two become one."""
        job = Rename(checked_label(old), checked_label(new), merge)
        return self._change(job, ["rename", job.old, job.new, merge], key)

    def forget(self, label: Label, key: str | None = None) -> Future[Any]:
        """Remove a class from the model."""
        return self._change(Forget(checked_label(label)), ["forget", label], key)

    def _change(self, job: Job, parts: list[Any], key: str | None) -> Future[Any]:
        return self._start_once(key, parts, self._writer.submit, job)

    def _start_once(self, key: str | None, parts: list[Any], work: Callable[..., None], *args: Any) -> Future[Any]:
        """Start the work, unless a request with the same key did."""
        self._check_open()
        claimed = PendingAnswer() if key is None else self._model.keys.claim(key, request_digest(*parts))
        return claimed if isinstance(claimed, Future) else self._start(claimed, work, *args)

    def _learn_features_of(self, request: ImageRequest) -> None:
        purpose, pending = request.purpose, request.pending
        assert isinstance(purpose, LearnRequest)
        if not request.rows:
            if pending.start():
                pending.resolve(LearnResult([], request.problems))
            return
        assert request.backbone is not None
        labels = [purpose.label] * len(request.rows)
        backbone = describe(request.backbone)
        job = Learn(np.stack(request.rows), labels, purpose.task, backbone, request.files, request.problems)
        try:
            self._writer.submit(job, pending)
        except ServeError as problem:
            pending.fail(problem)

    # ---- describing -----------------------------------------------------------------------------

    @property
    def _view(self) -> ModelView:
        return self._writer.view

    @property
    def problem(self) -> str | None:
        return self._writer.problem or super().problem

    def answered(self, key: str) -> LearnResult | Correction | None:
        """The answer to a change with this key. None if there was none, or if 10,000 others came since."""
        return self._model.keys.find(key)

    def annotation_keys(self, prefix: str) -> list[str]:
        """The keys of Label Studio's annotations that start with the prefix. The newest 200,000 are kept."""
        return self._model.keys.annotation_keys(prefix)

    def statistics(self) -> dict[str, float]:
        writer, numbers = self._writer, super().statistics()
        counts = writer.counts
        return {
            **numbers,
            "lessons": counts["lessons"],
            "undos": counts["undo"],
            "renames": counts["rename"],
            "forgets": counts["forget"],
            "refused": counts["refused"],
            "refused_by_disk": counts["refused by the disk"],
            "too_busy": numbers["too_busy"] + writer.limit.refused,
            "samples_waiting": writer.limit.waiting,
            "largest_group": writer.largest_group,
            "folds": counts["checkpoints"],
            "fold_seconds": self._model.checkpoint_seconds,
            "unfolded": numbers["lesson"] - self._model.checkpoint.number,
            "journal_bytes": self._model.journal.bytes_on_disk(),
        }


def _checked_task(task: Any) -> Label | None:
    if task is None:
        return None
    try:
        return checked_label(as_task(task))
    except ValueError as problem:
        raise BadRequest(error_sentence(problem)) from None
