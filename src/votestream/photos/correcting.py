"""Changing what a model has learned: the last lessons taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from votestream.life.journal import lessons_in
from votestream.photos.finding import PhotoError
from votestream.photos.lock import alone
from votestream.photos.opening import check_target, load_on_photos
from votestream.photos.sidecar import followed, journal_of, sidecar_of
from votestream.photos.taught_model import KEPT, TaughtModel


@dataclass(frozen=True)
class Undone:
    """What was taken back, and what is left."""

    photos: Counter[Any]  # of each class
    gone: list[Any]  # classes that the model no longer knows
    total: int
    left: int  # lessons that could be taken back too


def undo(path: Path, lessons: int) -> Undone:
    """Take back the last lessons, as if they had never been."""
    with opened(path) as taught:
        journal, before = taught.journal, taught.labels
        _check_reach(taught, lessons)
        taken = Counter(journal.labels[len(journal) - lessons :])
        taught.take_back(lessons)
        taught.close()
        gone = [label for label in before if label not in taught.labels]
        return Undone(taken, gone, taught.total, len(taught.journal))


@contextmanager
def opened(path: Path) -> Iterator[TaughtModel]:
    """The model on photos in a file, changed by nobody else meanwhile; what was interrupted is finished first."""
    path = followed(path)
    if not path.is_file():
        raise PhotoError(f"There is no model file at {path}.")
    check_target(path)
    with alone(path):
        model = load_on_photos(path, None)
        if not hasattr(model.learner_, "class_counts_"):
            raise PhotoError(
                f"{path} was begun with {model.learner_.name}, which counts no photos: change it in Python."
            )
        taught = TaughtModel(path, model, keep=lessons_in(journal_of(path)) or KEPT)  # as long as it is
        taught.save()
        yield taught


def _check_reach(taught: TaughtModel, lessons: int) -> None:
    path, reach = taught.path, len(taught.journal)
    if taught.problem:
        raise PhotoError(f"Nothing can be taken back: {taught.problem}.")
    if not journal_of(path).exists():
        raise PhotoError(
            f"Nothing can be taken back: there is no {journal_of(path).name}, which `votestream learn` keeps unless it "
            "is given --journal 0."
        )
    if lessons > reach:
        raise PhotoError(f"{lessons:,} lessons cannot be taken back: the journal reaches back {reach:,}.")
    if lessons == taught.total:
        raise PhotoError(
            f"That would take back all that {path} has learned: delete it with {sidecar_of(path).name} and "
            f"{journal_of(path).name} to begin anew, or name fewer lessons."
        )
