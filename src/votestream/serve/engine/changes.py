"""Changes of a model: the jobs that clients ask for, and how a learner carries them out and replays them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.images.class_folders import composed, some, twins
from votestream.learners import Learner
from votestream.serve.engine.journal import JournalEntry
from votestream.serve.engine.messages import (
    BadRequest,
    Conflict,
    Correction,
    FileProblem,
    Label,
    LearnedSample,
    LearnResult,
    NotFound,
    PreviousPrediction,
)

MAX_LABEL_LENGTH = 200


@dataclass(frozen=True)
class Learn:
    """Learn the samples of one request, in one call of `partial_fit`."""

    rows: NDArray[np.float32]
    labels: list[Label]
    task: Label | None = None
    backbone: dict[str, Any] | None = None  # that extracted the rows; None if they were sent as numbers
    files: list[str] | None = None
    problems: list[FileProblem] = field(default_factory=list)


@dataclass(frozen=True)
class Rename:
    """Give a class another label. With `merge`, it may be the label of another class."""

    old: Label
    new: Label
    merge: bool = False


@dataclass(frozen=True)
class Forget:
    """Remove a class."""

    label: Label


@dataclass(frozen=True)
class Undo:
    """Undo a change."""

    lesson: int | None = None  # None: the newest change that is not undone


Job = Learn | Rename | Forget | Undo
AppliedJob = tuple[list[JournalEntry], LearnResult | Correction]


def apply_job(learner: Learner, job: Learn | Rename | Forget, number: int) -> AppliedJob:
    """Change the learner. Returns the journal entries, numbered from `number`, and the answer.

    After a ServeError the learner is as it was before.
    """
    try:
        if isinstance(job, Learn):
            return _learn(learner, job, number)
        if isinstance(job, Rename):
            return _rename(learner, job, number)
        label = known_label(learner, job.label)
        samples = class_counts(learner)[learner.classes_.tolist().index(label)]
        learner.forget(label)
        about: dict[str, Any] = {"label": label, "samples": samples}
        return [JournalEntry(number, number, "forget", about)], Correction(number, "forget", about)
    except ValueError as problem:
        if learner.fitted:
            learner.check_fitted()  # raises RuntimeError if learning was interrupted half-way
        kind = BadRequest if isinstance(job, Learn) else Conflict
        raise kind(error_sentence(problem)) from None


def _learn(learner: Learner, job: Learn, number: int) -> AppliedJob:
    labels = [model_label(learner, label) for label in job.labels]
    known = set(learner.state_.numbers) if learner.fitted else set()
    before: list[PreviousPrediction | None] = [None] * len(labels)
    if known:
        classes, probabilities = learner.classes_.tolist(), learner.predict_proba(job.rows)
        before = [PreviousPrediction(classes[row.argmax()], round(float(row.max()), 6)) for row in probabilities]
    learner.partial_fit(job.rows, labels, task=job.task)
    entries, samples = [], []
    for row, (label, was) in enumerate(zip(labels, before, strict=True)):
        new = label not in known
        about = {"label": label, "task": job.task, "was": None if was is None else vars(was), "new_class": new}
        entries.append(JournalEntry(number + row, number, "learn", about, job.rows[row]))
        file = None if job.files is None else job.files[row]
        similar = next((other for _, other in twins([label], known)), None) if new else None
        samples.append(LearnedSample(number + row, label, new, was, file, similar))
        known.add(label)
    return entries, LearnResult(samples, job.problems)


def _rename(learner: Learner, job: Rename, number: int) -> AppliedJob:
    old, new = known_label(learner, job.old), model_label(learner, job.new)
    merged = new in learner.state_.numbers
    if old == new:
        raise Conflict(f"The class is called {old} already.")
    if merged and not job.merge:
        raise Conflict(f"There is a class {new} already: set merge to make {old} part of it, or choose another name.")
    learner.rename(old, new)
    about = {"old": old, "new": new, "merged": merged}
    return [JournalEntry(number, number, "rename", about)], Correction(number, "rename", about)


def model_label(learner: Learner, label: Label) -> Label:
    """The label as the model writes it: numbers may be given as text, and accents in either Unicode form."""
    if not isinstance(label, str):
        return label
    if learner.fitted:
        if label in learner.state_.numbers:
            return label
        for known in learner.state_.numbers:
            if composed(str(known)) == composed(label):
                return known
    return composed(label)


def known_label(learner: Learner, label: Label) -> Label:
    """The label of a class of the model. Raises NotFound if there is no such class."""
    found = model_label(learner, label)
    if not learner.fitted or found not in learner.state_.numbers:
        classes = (
            f"its classes are {some(learner.classes_.tolist())}" if learner.fitted else "it has learned nothing yet"
        )
        raise NotFound(f"The model has no class {label}: {classes}.")
    return found


def class_counts(learner: Learner) -> list[int | None]:
    """The number of samples of each class, as `classes_`. None if the learner does not count."""
    counts = getattr(learner, "class_counts_", None)
    return [None] * len(learner.state_.numbers) if counts is None else counts.tolist()


def sample_count(learner: Learner) -> int:
    """The number of samples learned. 0 if the learner does not count."""
    return sum(count or 0 for count in class_counts(learner)) if learner.fitted else 0


def checked_label(label: Any) -> Label:
    """A label that people can read and type. Raises BadRequest for other labels."""
    if isinstance(label, str):
        if not label.strip():
            raise BadRequest("A label must have at least one letter.")
        if len(label) > MAX_LABEL_LENGTH:
            raise BadRequest(f"A label must have at most {MAX_LABEL_LENGTH} characters, got {len(label)}.")
        if not label.isprintable():
            raise BadRequest("A label must be printable text, without line breaks or control characters.")
        return label.strip()
    if isinstance(label, int):
        return label
    raise BadRequest(f"A label must be text or an integer, got {label!r:.60}.")


def error_sentence(problem: Exception) -> str:
    """The message of an error with a capital letter and a full stop."""
    text = str(problem)
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


# ---- replaying the journal ----------------------------------------------------------------------


def active_calls(entries: Iterable[JournalEntry]) -> Iterator[list[JournalEntry]]:
    """The entries that are not undone, grouped by the call that made them."""
    active = (entry for entry in entries if entry.undone_by is None and entry.kind != "undo")
    for _, call in groupby(active, key=lambda entry: entry.call):
        yield list(call)


def replay(learner: Learner, call: list[JournalEntry]) -> None:
    """Repeat a call. Raises ValueError if the learner is not in the state that the call needs."""
    about = call[0].about
    if call[0].kind == "rename":
        learner.rename(about["old"], about["new"])
    elif call[0].kind == "forget":
        learner.forget(about["label"])
    else:
        rows = np.stack([entry.features for entry in call if entry.features is not None])
        learner.partial_fit(rows, [entry.about["label"] for entry in call], task=about["task"])
