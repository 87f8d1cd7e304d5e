"""What there is to record of a bench run, whichever library keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

BY_SAMPLES = "accuracy/by samples"


@dataclass(frozen=True)
class Record:
    """One run of a suite that has ended.

    `curves` are accuracies in per cent by name, each a list of (tasks learned, value); `by_samples` is one of (samples
    learned, value), where a run was tested within tasks. `numbers` are those of the whole run. One that failed has
    an `error` and none of these.
    """

    suite: str
    name: str
    settings: Mapping[str, str | int | float | bool]
    curves: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    by_samples: Sequence[tuple[int, float]] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def all_curves(self) -> dict[str, Sequence[tuple[int, float]]]:
        """The curves and the one by samples."""
        return {**self.curves, **({BY_SAMPLES: self.by_samples} if self.by_samples else {})}


class RunLog(Protocol):
    """Keeps records: it is given each run as it ends, at last the suite's figure."""

    def add(self, record: Record) -> None: ...

    def add_figure(self, suite: str, path: Path) -> None: ...

    def close(self) -> None: ...
