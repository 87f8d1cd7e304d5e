"""What a track record says, to be read, printed or written as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from votestream.common.printing import shown

Label = str | int


class Score(NamedTuple):
    """Right answers among tested samples; `low` and `high` are the 95 % interval (Wilson, 1927).

    >>> print(Score.of(100, 80), Score.of(0, 0), sep="; ")
    80.0 % (71.1 to 86.7) of 100; none tested
    """

    tested: int
    right: int
    accuracy: float | None  # None where nothing was tested
    low: float | None
    high: float | None

    @classmethod
    def of(cls, tested: int, right: int) -> Score:
        if not tested:
            return cls(0, 0, None, None, None)
        z, share = 1.959963984540054, right / tested
        middle = (share + z * z / (2 * tested)) / (1 + z * z / tested)
        half = z * math.sqrt(share * (1 - share) / tested + z * z / (4 * tested**2)) / (1 + z * z / tested)
        return cls(tested, right, share, max(0.0, middle - half), min(1.0, middle + half))

    def __str__(self) -> str:
        if self.accuracy is None or self.low is None or self.high is None:
            return "none tested"
        return f"{100 * self.accuracy:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f}) of {self.tested}"


class OfClass(NamedTuple):
    """A class: how many samples were learned, and how tests went."""

    label: Label
    task: Label | None
    learned: int
    score: Score


class OfTask(NamedTuple):
    """A task: all its classes together."""

    task: Label | None
    number: int
    score: Score


class Confusion(NamedTuple):
    """Samples of a class that were taken for another: at least so many times."""

    label: Label
    taken_for: Label
    times: int


class Stated(NamedTuple):
    """Tests in which a confidence between `low` and `high` was stated, on average `confidence`."""

    low: float
    high: float
    confidence: float | None
    score: Score


class Period(NamedTuple):
    """A part of the stream, from one sample (counted from 1) to another."""

    first: int
    last: int
    unknown: int
    score: Score


class Drift(NamedTuple):
    """A class that was not as before, by its "accuracy" or by the "distance" of its samples, from a sample on.

    `until` is None while it goes on. It ends when the class has been learned as it is now, or is again as it was.
    """

    label: Label
    sign: str
    since: int
    until: int | None


class Strange(NamedTuple):
    """Samples met, and those that `unknown_score` put above 0.95 before they were learned."""

    met: int
    above: int


@dataclass(frozen=True)
class TrackReport:
    """How good a model is, by tests on every sample before it was learned. Print it, or take `to_dict()`.

    Samples of classes that the model had not met are `unknown`: they are no errors. Classes stand as in `classes_`.
    """

    samples: int
    so_far: Score
    lately: Score
    unknown: Strange
    known: Strange
    classes: tuple[OfClass, ...]
    tasks: tuple[OfTask, ...]
    confusions: tuple[Confusion, ...]
    stated: tuple[Stated, ...]
    over_time: tuple[Period, ...]
    drift: tuple[Drift, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings, fit for JSON."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def __str__(self) -> str:
        lines = [
            f"accuracy so far: {self.so_far}; lately: {self.lately}",
            f"samples of new classes: {self.unknown.met}, of which {self.unknown.above} were called unknown",
        ]
        tested = [each for each in self.classes if each.score.tested]
        worst = sorted(tested, key=lambda each: each.score.accuracy or 0)[:3]
        lines += [f"least known: {shown(each.label)}, {each.score}" for each in worst if len(tested) > 1]
        for each in self.confusions[:3]:
            lines.append(f"{shown(each.label)} was taken for {shown(each.taken_for)}: {each.times} times")
        for bin in self.stated:
            if bin.confidence is not None and bin.score.accuracy is not None:
                lines.append(f"stated {100 * bin.confidence:.0f} %: right {bin.score}")
        for change in self.drift:
            end = "" if change.until is None else f", until sample {change.until}"
            lines.append(f"{shown(change.label)} has changed ({change.sign}) since sample {change.since}{end}")
        return "\n".join(lines)


def _plain(value: Any) -> Any:
    if isinstance(value, TrackReport):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
