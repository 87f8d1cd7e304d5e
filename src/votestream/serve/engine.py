"""The engine of `votestream serve`: it learns while it predicts, and loses nothing that it said it has learned."""

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
from votestream.model_store.lock import model_lock as alone
from votestream.model_store.paths import check_model_path as check_target
from votestream.model_store.paths import resolve_link as followed
from votestream.serve.changes import Forget, Job, Learn, Rename, Undo, checked_label, sentence
from votestream.serve.looker import Glance, Lesson
from votestream.serve.messages import BadRequest, Change, Label, NotThere, ServeError, Taught, Upload
from votestream.serve.opening import open_served
from votestream.serve.predicting import PredictingEngine, as_rows
from votestream.serve.promises import Promise, request_digest
from votestream.serve.settings import EngineSettings
from votestream.serve.sight import Sight
from votestream.serve.state import ServedModel
from votestream.serve.view import View
from votestream.serve.writer import Writer


class Engine(PredictingEngine):
    """A model that is served and taught. Every method may be called from any thread; what takes time gives a Future.

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
        view = model.view
        super().__init__(model.path.name, Sight(view.backbone, not view.fitted, settings), remarks, settings, held)
        self._journal_bytes = model.journal.bytes_on_disk
        self._model = model
        self._writer = Writer(model, settings, self._events)

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

    def _end(self) -> None:
        self._writer.close()

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
        features = as_rows(rows)
        labels, task = [checked_label(label) for label in labels], _checked_task(task)
        if not self._view.fitted and features.shape[1] > self.settings.most_width:
            most = self.settings.most_width
            raise BadRequest(f"The rows of a new model may have at most {most:,} numbers, got {features.shape[1]:,}.")
        if len(labels) != len(features):
            raise BadRequest(f"There must be a label for each row: {len(features)} rows, {len(labels)} labels.")
        parts = ["learn", labels, task, features.shape, features.tobytes()] if key else []
        return self._change(Learn(features, labels, task), parts, key)

    def undo(self, lesson: int | None = None, key: str | None = None) -> Future[Any]:
        """Take a change back, as if it had never been; None is the newest that still stands."""
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
        return claimed if isinstance(claimed, Future) else self._promised(claimed, start)

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

    # ---- telling --------------------------------------------------------------------------------

    @property
    def _view(self) -> View:
        return self._writer.view

    @property
    def problem(self) -> str | None:
        return self._writer.problem or super().problem

    def answered(self, key: str) -> Taught | Change | None:
        """What a change with that key was answered; None where there was none, or 10,000 others since."""
        return self._model.keys.find(key)

    def annotation_keys(self, prefix: str) -> list[str]:
        """The keys of Label Studio's annotations that begin so: the newest 200,000 are kept."""
        return self._model.keys.of_annotations(prefix)

    def statistics(self) -> dict[str, float]:
        writer, told = self._writer, super().statistics()
        counts = writer.counts
        return {
            **told,
            "lessons": counts["lessons"],
            "undos": counts["undo"],
            "renames": counts["rename"],
            "forgets": counts["forget"],
            "refused": counts["refused"],
            "refused_by_disk": counts["refused by the disk"],
            "too_busy": told["too_busy"] + writer.room.refused,
            "samples_waiting": writer.room.inside,
            "largest_group": writer.largest_group,
            "folds": counts["folds"],
            "fold_seconds": self._model.fold_seconds,
            "unfolded": told["lesson"] - self._model.folded.number,
            "journal_bytes": self._journal_bytes(),
        }


def _checked_task(task: Any) -> Label | None:
    if task is None:
        return None
    try:
        return checked_label(as_task(task))
    except ValueError as problem:
        raise BadRequest(sentence(problem)) from None
