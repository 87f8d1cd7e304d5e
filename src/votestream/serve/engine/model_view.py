"""A ModelView: the immutable state of a model after one change, as predictions, descriptions and downloads use it."""

from __future__ import annotations

import copy
import hashlib
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream._version import __version__
from votestream.backbones import Backbone
from votestream.core.files import parts_of
from votestream.core.snapshot import Snapshot
from votestream.export import export_onnx, export_page
from votestream.io.model_files import packed
from votestream.learners import Learner
from votestream.pipeline import ImageClassifier
from votestream.pipeline.prediction_details import PredictionDetails
from votestream.serve.engine.changes import class_counts, error_sentence
from votestream.serve.engine.journal import JournalEntry
from votestream.serve.engine.messages import (
    BadRequest,
    ColumnsResult,
    Conflict,
    ModelVersion,
    NoModelFile,
    Prediction,
    TaskVote,
)

RECENT = 20  # changes in a description


class ModelView:
    """The model after change `number`: a snapshot that predicts, and a learner for everything else.

    It never changes, and any thread may use it. Without a snapshot, the model has learned nothing yet.
    """

    def __init__(
        self,
        model: str,
        number: int,
        learner: Learner,
        snapshot: Snapshot | None,
        backbone: dict[str, Any] | None,
        recent: Sequence[JournalEntry] = (),
        undo_reaches: int = 0,
    ) -> None:
        self.model, self.number, self.backbone = model, number, backbone
        self.learner, self.snapshot = learner, snapshot
        self.fitted = snapshot is not None
        self.recent = recent[:RECENT]  # newest first
        self.undo_reaches = undo_reaches

    def check_fitted(self) -> Snapshot:
        """The snapshot. Raises Conflict if the model has learned nothing yet."""
        if self.snapshot is None:
            raise Conflict("The model has learned nothing yet: add labelled images or rows first.")
        return self.snapshot

    def predict(
        self, rows: NDArray[np.float32], tops: Sequence[int | None], files: Sequence[str | None], unknown: float
    ) -> list[Prediction]:
        """Predict rows. Each has its own number of probabilities to return, and the file that it came from."""
        try:
            decisions = PredictionDetails(self.check_fitted(), rows, unknown=unknown)
        except (TypeError, ValueError) as problem:
            raise BadRequest(error_sentence(problem)) from None
        predictions = []
        for row, (top, file) in enumerate(zip(tops, files, strict=True)):
            numbers = decisions.numbers(row, top)
            vote, tasks = numbers.get("vote"), None
            if vote is not None:
                keys = ("tasks", "candidates", "s_hat", "prior", "score")
                tasks = [TaskVote(*parts) for parts in zip(*(vote[key] for key in keys), strict=True)]
            predictions.append(
                Prediction(
                    lesson=self.number,
                    label=numbers["label"],
                    confidence=numbers["confidence"],
                    unknown_score=numbers.get("unknown_score"),
                    unknown=numbers.get("unknown"),
                    probabilities=[(entry["label"], entry["probability"]) for entry in numbers["probabilities"]],
                    vote=tasks,
                    winner_task=None if vote is None else vote["winner_task"],
                    file=file,
                    words=decisions.words(row),
                )
            )
        return predictions

    def predict_columns(self, rows: NDArray[np.float32], unknown: float) -> ColumnsResult:
        """Predict many rows quickly: labels, confidences and unknown scores."""
        snapshot = self.check_fitted()
        try:
            probabilities = snapshot.predict_proba(rows)
            scores = snapshot.unknown_score(rows) if snapshot.tracked else None
            sure = snapshot.confidence(rows) if snapshot.tracked else probabilities.max(1)
        except (TypeError, ValueError) as problem:
            raise BadRequest(error_sentence(problem)) from None
        labels = snapshot.classes_[probabilities.argmax(1)].tolist()
        confidences = [None if each != each else each for each in sure.round(6).tolist()]  # nan: it cannot know yet
        if scores is None:
            return ColumnsResult(self.number, labels, confidences, None, None)
        unknown_scores = scores.astype(float).round(6).tolist()
        return ColumnsResult(self.number, labels, confidences, unknown_scores, (scores > 1 - unknown).tolist())

    @cached_property
    def description(self) -> dict[str, Any]:
        """What GET /v1/model says about this state, as JSON."""
        learner = self.learner
        if not self.fitted:
            known: dict[str, Any] = {"images": 0, "classes": [], "tasks": [], "bytes": 0, "track": None}
        else:
            report = learner.track_record() if getattr(learner, "track", False) else None
            scores = None if report is None else {each.label: each.score for each in report.classes}
            counts, tasks = class_counts(learner), learner.task_of_class_.tolist()
            known = {
                "images": None if None in counts else sum(counts),
                "classes": [
                    {
                        "label": label,
                        "count": count,
                        "task": task,
                        "tested": None if scores is None else scores[label].tested,
                        "right": None if scores is None else scores[label].right,
                    }
                    for label, count, task in zip(learner.classes_.tolist(), counts, tasks, strict=True)
                ],
                "tasks": learner.tasks_,
                "bytes": learner.memory_bytes(),
                "track": None if report is None else report.to_dict(),
            }
        settings = learner.header()["params"] if self.fitted else learner.get_params(deep=False)
        return {
            "lesson": self.number,
            "identity": self.model,
            **known,
            "backbone": None if self.backbone is None else _backbone_to_json(self.backbone),
            "learner": {"name": learner.name, "settings": settings},
            "recent": [change_to_json(entry) for entry in self.recent],
            "undo_reaches": self.undo_reaches,
            "version": __version__,
        }

    @cached_property
    def file(self) -> tuple[ModelVersion, bytes]:
        """The version and the bytes of the model file. They are made once for all clients."""
        if not self.fitted:
            raise NoModelFile(ModelVersion(self.model, self.number, ""))
        data = packed(*file_parts(self.learner, self.backbone))
        return ModelVersion(self.model, self.number, FileDigest(data).text), data


class FileDigest:
    """The digest of a model file in its ModelVersion."""

    def __init__(self, data: bytes = b"") -> None:
        self._hash = hashlib.sha256(data)
        self.update = self._hash.update

    @property
    def text(self) -> str:
        return self._hash.hexdigest()[:32]


def _backbone_to_json(backbone: dict[str, Any]) -> dict[str, Any]:
    """The backbone's description with the defaults that a model file leaves out."""
    return {"views": [str(backbone["input_size"])], "stages": None, **backbone}


def file_parts(learner: Learner, backbone: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of the model file, as `ImageClassifier.save` writes them, without the backbone's weights."""
    header, arrays = parts_of(learner)
    if backbone is None:
        return header, arrays
    version = header.pop("version")
    return {"version": version, "learner": "image_classifier", "backbone": backbone, "inner": header}, arrays


def export_model(learner: Learner, backbone: Backbone | None, kind: str) -> bytes:
    """The model as an ONNX file ("onnx") or as an HTML page ("html"). Raises Conflict if it cannot be exported."""
    learner = copy.deepcopy(learner)
    model = learner if backbone is None else ImageClassifier(backbone, learner)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{kind}"
        try:
            if kind == "onnx":
                export_onnx(model, path)
            else:
                export_page(model, path)
        except (ValueError, ImportError) as problem:
            raise Conflict(f"This model cannot be exported so: {error_sentence(problem)}") from None
        return path.read_bytes()


def change_to_json(entry: JournalEntry) -> dict[str, Any]:
    """A change in a description or an event."""
    about = entry.about
    label = about.get("label", about.get("old"))
    return {
        "lesson": entry.number,
        "kind": entry.kind,
        "label": label,
        "was": about.get("was"),
        "undone": entry.undone_by is not None,
    } | ({"to": about["new"]} if entry.kind == "rename" else {})
