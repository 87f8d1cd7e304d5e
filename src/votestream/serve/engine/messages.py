"""What the engine takes and returns, and the errors that it raises. Field names are those of the HTTP API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Label = str | int


@dataclass(frozen=True)
class Upload:
    """An uploaded image file, and its name in error messages."""

    data: bytes
    name: str = "the image"


@dataclass(frozen=True)
class PreviousPrediction:
    """What the model predicted for a sample before it learned it."""

    label: Label
    confidence: float


@dataclass(frozen=True)
class LearnedSample:
    """A sample that was learned and is on disk. `lesson` is its number: all changes of a model are counted from 1."""

    lesson: int
    label: Label
    new_class: bool
    was: PreviousPrediction | None  # None if the model had learned nothing yet
    file: str | None = None
    similar: str | None = None  # for a new class: a known class with nearly the same name, as after a typing error


@dataclass(frozen=True)
class FileProblem:
    """A file that could not be learned or predicted, and the reason."""

    file: str
    problem: str


@dataclass(frozen=True)
class LearnResult:
    """The result of a request to learn. Without any sample, it has at least one problem."""

    lessons: list[LearnedSample]
    problems: list[FileProblem] = field(default_factory=list)


@dataclass(frozen=True)
class TaskVote:
    """The candidate that one task proposes, and its score."""

    task: Label | None
    candidate: Label
    within: float  # the candidate's probability within its task
    prior: float  # how likely the task is
    score: float


@dataclass(frozen=True)
class Prediction:
    """The prediction for one sample. `unknown_score`, `unknown` and `vote` are None if the learner has none.

    `confidence` is None if the model cannot know yet how sure it is.
    """

    lesson: int  # the number of the newest change that the prediction is based on
    label: Label
    confidence: float | None
    unknown_score: float | None
    unknown: bool | None
    probabilities: list[tuple[Label, float]]  # highest first
    vote: list[TaskVote] | None
    winner_task: int | None
    file: str | None = None
    words: str = ""  # the explanation that `votestream predict` prints


@dataclass(frozen=True)
class PredictResult:
    """The result of a request to predict."""

    answers: list[Prediction]
    problems: list[FileProblem] = field(default_factory=list)


@dataclass(frozen=True)
class ColumnsResult:
    """Predictions of many rows, as lists. The last two are None if the learner has no unknown scores."""

    lesson: int
    labels: list[Label]
    confidences: list[float | None]
    unknown_scores: list[float] | None
    unknown: list[bool] | None


@dataclass(frozen=True)
class Correction:
    """A correction that is on disk."""

    lesson: int
    kind: str  # "undo", "rename", "forget"
    about: dict[str, Any]


class ModelVersion(NamedTuple):
    """Which state of which model a file holds. Its ETag is made of this."""

    model: str  # a random identity from when the model was first served
    lesson: int
    digest: str  # of the file; empty if the model has learned nothing and there is no file

    @property
    def tag(self) -> str:
        return f'"{self.model}-{self.lesson}-{self.digest}"'

    @classmethod
    def from_tag(cls, tag: str) -> ModelVersion:
        """
        >>> ModelVersion.from_tag(ModelVersion("0123456789abcdef", 12, "").tag)
        ModelVersion(model='0123456789abcdef', lesson=12, digest='')
        """
        found = re.fullmatch('"([0-9a-f]{16})-([0-9]{1,18})-([0-9a-f]{32}|)"', tag)
        if found is None:
            raise ValueError(f"{tag!r:.60} is no ETag of a model")
        return cls(found[1], int(found[2]), found[3])


class ServeError(Exception):
    """A request that cannot be fulfilled. The message is a sentence for the client's user."""

    status = 400


class BadRequest(ServeError):
    """The content of the request is wrong."""

    status = 422


class NotFound(ServeError):
    """There is no such class, lesson or model."""

    status = 404


class Conflict(ServeError):
    """The state of the model does not allow this, or the idempotency key was used for another request."""

    status = 409


class AlreadyUndone(Conflict):
    """The change was undone before."""


class NoModelFile(Conflict):
    """There is no model file, since the model has learned nothing in this state."""

    def __init__(self, version: ModelVersion) -> None:
        super().__init__("The model has learned nothing yet: there is no file of it.")
        self.version = version


class ReadOnly(ServeError):
    """The model is a copy of a model that another service trains."""

    status = 421

    def __init__(self, writer: str) -> None:
        super().__init__(f"This is a read-only copy: train and correct the model at {writer}.")
        self.writer = writer


class TooBusy(ServeError):
    """A queue is full. The client may try again after `retry_after` seconds."""

    status = 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotReady(ServeError):
    """The backbone is being loaded, or the service is stopping."""

    status = 503


class InternalError(ServeError):
    """An error inside the service. The model is as it was before the request."""

    status = 500


class DiskError(ServeError):
    """The change could not be written to disk, and was not made."""

    status = 507
