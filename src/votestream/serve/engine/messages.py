"""What the engine and the HTTP routes tell each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Label = str | int


@dataclass(frozen=True)
class Upload:
    """An image file as it came: its bytes, and what errors call it."""

    data: bytes
    name: str = "the image"


@dataclass(frozen=True)
class Guess:
    """What the model thought of a sample before it learned it."""

    label: Label
    confidence: float


@dataclass(frozen=True)
class Lesson:
    """A sample that was learned, and is on disk. Every change of a model has a number of its own, counted from 1."""

    lesson: int
    label: Label
    new_class: bool
    was: Guess | None  # None where nothing was known yet
    file: str | None = None
    similar: str | None = None  # of a new class: a known one of nearly the same name, which may have been meant


@dataclass(frozen=True)
class Problem:
    """A file that was not learned or predicted, and why."""

    file: str
    problem: str


@dataclass(frozen=True)
class Taught:
    """What one request taught. With no lesson at all, there is at least one problem."""

    lessons: list[Lesson]
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Candidate:
    """What one task nominates: the vote of a task."""

    task: Label | None
    candidate: Label
    within: float  # the candidate's probability within its task
    prior: float  # how likely the task is
    score: float


@dataclass(frozen=True)
class Answer:
    """A prediction. `unknown_score`, `unknown` and `vote` are None where the learner does not give them."""

    lesson: int  # the snapshot that predicted: the number of the last change it knows
    label: Label
    confidence: float
    unknown_score: float | None
    unknown: bool | None
    probabilities: list[tuple[Label, float]]  # highest first
    vote: list[Candidate] | None
    winner_task: int | None
    file: str | None = None
    words: str = ""  # how the decision fell, as `votestream predict` says it


@dataclass(frozen=True)
class Answers:
    """What one request was told."""

    answers: list[Answer]
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """Predictions of many rows, without probabilities, votes and words; None where the learner gives no such score."""

    lesson: int
    labels: list[Label]
    confidences: list[float]
    unknown_scores: list[float] | None
    unknown: list[bool] | None


@dataclass(frozen=True)
class Change:
    """A correction that was made and is on disk."""

    lesson: int
    kind: str  # "undo", "rename", "forget"
    about: dict[str, Any]


class Version(NamedTuple):
    """Which state of which model a file is: what its ETag says."""

    model: str  # drawn at random when the model was first served
    lesson: int
    digest: str  # of the file's bytes; empty where nothing was learned, and there is no file

    @property
    def tag(self) -> str:
        return f'"{self.model}-{self.lesson}-{self.digest}"'

    @classmethod
    def from_tag(cls, tag: str) -> Version:
        """
        >>> Version.from_tag(Version("0123456789abcdef", 12, "").tag)
        Version(model='0123456789abcdef', lesson=12, digest='')
        """
        found = re.fullmatch('"([0-9a-f]{16})-([0-9]{1,18})-([0-9a-f]{32}|)"', tag)
        if found is None:
            raise ValueError(f"{tag!r:.60} is no ETag of a model")
        return cls(found[1], int(found[2]), found[3])


class ServeError(Exception):
    """A request that cannot be fulfilled; the message is a sentence for the person who sent it."""

    status = 400


class BadRequest(ServeError):
    """Something is wrong with what was sent."""

    status = 422


class NotThere(ServeError):
    """No such class, lesson or model."""

    status = 404


class Conflict(ServeError):
    """The model is not in a state for this: nothing learned yet, a name taken, an idempotency key used otherwise."""

    status = 409


class AlreadyUndone(Conflict):
    """The change was taken back before."""


class NoFile(Conflict):
    """The model has learned nothing, in this state of it."""

    def __init__(self, version: Version) -> None:
        super().__init__("The model has learned nothing yet: there is no file of it.")
        self.version = version


class ReadOnly(ServeError):
    """The model is a copy of one that is taught elsewhere."""

    status = 421

    def __init__(self, writer: str) -> None:
        super().__init__(f"This is a read-only copy: teach and correct the model at {writer}.")
        self.writer = writer


class TooBusy(ServeError):
    """A queue is full. Try again after so many seconds."""

    status = 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotReady(ServeError):
    """The backbone is still being loaded, or the service is stopping."""

    status = 503


class Failed(ServeError):
    """Something went wrong here that is nobody's fault who sent a request; the model is as it was."""

    status = 500


class DiskProblem(ServeError):
    """The lesson could not be put on disk, and was not learned."""

    status = 507
