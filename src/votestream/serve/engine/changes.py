"""What can be asked of a model: jobs as they come, and the changes that they become, applied to a learner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.images.class_folders import composed, some, twins
from votestream.learners import Learner
from votestream.serve.engine.journal import Entry
from votestream.serve.engine.messages import (
    BadRequest,
    Change,
    Conflict,
    Guess,
    Label,
    Lesson,
    NotThere,
    Problem,
    Taught,
)

LONGEST = 200  # characters of a label


@dataclass(frozen=True)
class Learn:
    """Samples that one request teaches, in one call of `partial_fit`."""

    rows: NDArray[np.float32]
    labels: list[Label]
    task: Label | None = None
    backbone: dict[str, Any] | None = None  # that the rows come from; None: they were sent as numbers
    files: list[str] | None = None
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Rename:
    old: Label
    new: Label
    merge: bool = False


@dataclass(frozen=True)
class Forget:
    label: Label


@dataclass(frozen=True)
class Undo:
    lesson: int | None = None  # None: the newest change that still stands


Job = Learn | Rename | Forget | Undo
Made = tuple[list[Entry], Taught | Change]


def perform(learner: Learner, job: Learn | Rename | Forget, number: int) -> Made:
    """Change the learner; the changes made, numbered from `number`, and what to say. A ServeError changes nothing."""
    try:
        if isinstance(job, Learn):
            return _learn(learner, job, number)
        if isinstance(job, Rename):
            return _rename(learner, job, number)
        label = known_label(learner, job.label)
        samples = counts_of(learner)[learner.classes_.tolist().index(label)]
        learner.forget(label)
        about: dict[str, Any] = {"label": label, "samples": samples}
        return [Entry(number, number, "forget", about)], Change(number, "forget", about)
    except ValueError as problem:
        if learner.fitted:
            learner.check_fitted()  # raises a RuntimeError where learning was interrupted
        kind = BadRequest if isinstance(job, Learn) else Conflict
        raise kind(sentence(problem)) from None


def _learn(learner: Learner, job: Learn, number: int) -> Made:
    labels = [own_label(learner, label) for label in job.labels]
    known = set(learner.state_.numbers) if learner.fitted else set()
    guesses = _guesses(learner, job.rows) if known else [None] * len(labels)
    learner.partial_fit(job.rows, labels, task=job.task)
    entries, lessons = [], []
    for row, (label, guess) in enumerate(zip(labels, guesses, strict=True)):
        was = None if guess is None else {"label": guess.label, "confidence": guess.confidence}
        about = {"label": label, "task": job.task, "was": was, "new_class": label not in known}
        entries.append(Entry(number + row, number, "learn", about, job.rows[row]))
        file = None if job.files is None else job.files[row]
        similar = None if label in known else next((other for _, other in twins([label], known)), None)
        lessons.append(Lesson(number + row, label, label not in known, guess, file, similar))
        known.add(label)
    return entries, Taught(lessons, job.problems)


def _guesses(learner: Learner, rows: NDArray[np.float32]) -> list[Guess | None]:
    classes, shares = learner.classes_.tolist(), learner.predict_proba(rows)
    return [Guess(classes[share.argmax()], round(float(share.max()), 6)) for share in shares]


def _rename(learner: Learner, job: Rename, number: int) -> Made:
    old, new = known_label(learner, job.old), own_label(learner, job.new)
    merged = new in learner.state_.numbers
    if old == new:
        raise Conflict(f"The class is called {old} already.")
    if merged and not job.merge:
        raise Conflict(f"There is a class {new} already: say that {old} is to become part of it, or choose a name.")
    learner.rename(old, new)
    about = {"old": old, "new": new, "merged": merged}
    return [Entry(number, number, "rename", about)], Change(number, "rename", about)


def own_label(learner: Learner, label: Label) -> Label:
    """The model's own form of a label: a class that is a number may be given as text, accents in either form."""
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
    own = own_label(learner, label)
    if not learner.fitted or own not in learner.state_.numbers:
        there = f"there are {some(learner.classes_.tolist())}" if learner.fitted else "it has learned nothing yet"
        raise NotThere(f"The model knows no class {label}: {there}.")
    return own


def counts_of(learner: Learner) -> list[int | None]:
    """Samples learned of each class, as `classes_`; None where the learner does not count."""
    counts = getattr(learner, "class_counts_", None)
    return [None] * len(learner.state_.numbers) if counts is None else counts.tolist()


def samples_of(learner: Learner) -> int:
    """Samples learned; 0 where the learner does not count."""
    return sum(count or 0 for count in counts_of(learner)) if learner.fitted else 0


def checked_label(label: Any) -> Label:
    """A label that people can read and type."""
    if isinstance(label, str):
        if not label.strip():
            raise BadRequest("A label must have at least one letter.")
        if len(label) > LONGEST:
            raise BadRequest(f"A label must have at most {LONGEST} characters, got {len(label)}.")
        if not label.isprintable():
            raise BadRequest("A label must be printable text, without line breaks or control characters.")
        return label.strip()
    if isinstance(label, int):
        return label
    raise BadRequest(f"A label must be text or an integer, got {label!r:.60}.")


def sentence(problem: Exception) -> str:
    text = str(problem)
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


# ---- changes made again -------------------------------------------------------------------------


def calls_of(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The changes that stand, those of one call together."""
    standing = (entry for entry in entries if entry.undone_by is None and entry.kind != "undo")
    for _, call in groupby(standing, key=lambda entry: entry.call):
        yield list(call)


def make_again(learner: Learner, call: list[Entry]) -> None:
    """Make the call that was made; a ValueError where the learner is not as it was then."""
    about = call[0].about
    if call[0].kind == "rename":
        learner.rename(about["old"], about["new"])
    elif call[0].kind == "forget":
        learner.forget(about["label"])
    else:
        rows = np.stack([entry.features for entry in call if entry.features is not None])
        learner.partial_fit(rows, [entry.about["label"] for entry in call], task=about["task"])
