"""What the world sees of a model: its state after one change, which never changes again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream._version import __version__
from votestream.core.files import parts_of
from votestream.core.snapshot import Snapshot
from votestream.io.model_files import packed
from votestream.learners import Learner
from votestream.pipeline.prediction_details import PredictionDetails as Decisions
from votestream.serve.changes import counts_of, sentence
from votestream.serve.journal import Entry
from votestream.serve.messages import Answer, BadRequest, Candidate, Columns, Conflict, NoFile, Version

RECENT = 20  # changes that a description lists


class View:
    """The model after change `number`: a snapshot to predict with, and a learner for all else, which nobody teaches.

    Any thread may use it. Without a snapshot, nothing was learned yet.
    """

    def __init__(
        self,
        model: str,
        number: int,
        learner: Learner,
        snapshot: Snapshot | None,
        backbone: dict[str, Any] | None,
        recent: Sequence[Entry] = (),
        undo_reaches: int = 0,
    ) -> None:
        self.model, self.number, self.backbone = model, number, backbone
        self.learner, self.snapshot = learner, snapshot
        self.fitted = snapshot is not None
        self.recent = recent[:RECENT]  # newest first
        self.undo_reaches = undo_reaches

    def answers(
        self, rows: NDArray[np.float32], tops: Sequence[int | None], files: Sequence[str | None], unknown: float
    ) -> list[Answer]:
        """An answer for each row."""
        if self.snapshot is None:
            raise Conflict("The model has learned nothing yet: teach it something first.")
        try:
            decisions = Decisions(self.snapshot, rows, unknown=unknown)
        except (TypeError, ValueError) as problem:
            raise BadRequest(sentence(problem)) from None
        told = zip(tops, files, strict=True)
        return [self._answer(decisions, row, top, file) for row, (top, file) in enumerate(told)]

    def columns(self, rows: NDArray[np.float32], unknown: float) -> Columns:
        """The labels of many rows and how sure they are, quickly."""
        if self.snapshot is None:
            raise Conflict("The model has learned nothing yet: teach it something first.")
        try:
            shares = self.snapshot.predict_proba(rows)
            scores = self.snapshot.unknown_score(rows) if self.snapshot.tracked else None
        except (TypeError, ValueError) as problem:
            raise BadRequest(sentence(problem)) from None
        labels = self.snapshot.classes_[shares.argmax(1)].tolist()
        confidences = shares.max(1).astype(float).round(6).tolist()
        if scores is None:
            return Columns(self.number, labels, confidences, None, None)
        told = scores.astype(float).round(6).tolist()
        return Columns(self.number, labels, confidences, told, (scores > 1 - unknown).tolist())

    def _answer(self, decisions: Decisions, row: int, top: int | None, file: str | None) -> Answer:
        numbers = decisions.numbers(row, top)
        vote, tasks = numbers.get("vote"), None
        if vote is not None:
            keys = ("tasks", "candidates", "s_hat", "prior", "score")
            tasks = [Candidate(*parts) for parts in zip(*(vote[key] for key in keys), strict=True)]
        return Answer(
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

    @cached_property
    def description(self) -> dict[str, Any]:
        """Fit for JSON."""
        learner = self.learner
        if not self.fitted:
            known: dict[str, Any] = {"images": 0, "classes": [], "tasks": [], "bytes": 0, "track": None}
        else:
            report = learner.track_record() if getattr(learner, "track", False) else None
            scores = None if report is None else {each.label: each.score for each in report.classes}
            counts, tasks = counts_of(learner), learner.task_of_class_.tolist()
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
            "backbone": None if self.backbone is None else _looks(self.backbone),
            "learner": {"name": learner.name, "settings": settings},
            "recent": [told(entry) for entry in self.recent],
            "undo_reaches": self.undo_reaches,
            "version": __version__,
        }

    @cached_property
    def file(self) -> tuple[Version, bytes]:
        """The model file's bytes, made once however many ask for them."""
        if not self.fitted:
            raise NoFile(Version(self.model, self.number, ""))
        data = packed(*file_parts(self.learner, self.backbone))
        return Version(self.model, self.number, Digest(data).text), data


class Digest:
    """Of a model file's bytes, as its version tells it."""

    def __init__(self, data: bytes = b"") -> None:
        self._made = hashlib.sha256(data)
        self.update = self._made.update

    @property
    def text(self) -> str:
        return self._made.hexdigest()[:32]


def _looks(backbone: dict[str, Any]) -> dict[str, Any]:
    """The backbone with what goes without saying in a model file."""
    return {"views": [str(backbone["input_size"])], "stages": None, **backbone}


def file_parts(learner: Learner, backbone: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of the model's file, as `ImageClassifier.save` writes it, without the backbone's weights."""
    header, arrays = parts_of(learner)
    if backbone is None:
        return header, arrays
    version = header.pop("version")
    return {"version": version, "learner": "image_classifier", "backbone": backbone, "inner": header}, arrays


def told(entry: Entry) -> dict[str, Any]:
    """A change, as a description and events tell it."""
    about = entry.about
    label = about.get("label", about.get("old"))
    return {
        "lesson": entry.number,
        "kind": entry.kind,
        "label": label,
        "was": about.get("was"),
        "undone": entry.undone_by is not None,
    } | ({"to": about["new"]} if entry.kind == "rename" else {})
