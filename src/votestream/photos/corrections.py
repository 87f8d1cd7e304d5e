"""Corrections of a trained model: photos undone, classes forgotten, renamed and merged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from votestream.core.merge import merge
from votestream.images.class_folders import composed, some
from votestream.model_store.journal import ClassChange, TrainingCall, is_journal, journal_length
from votestream.model_store.lock import model_lock
from votestream.model_store.model_file import check_counts, load_image_model
from votestream.model_store.paths import (
    ModelStoreError,
    as_sentence,
    check_model_path,
    check_own_file,
    journal_path,
    resolve_link,
    sidecar_path,
)
from votestream.model_store.sidecar import LearnedPhotos
from votestream.model_store.stored_model import JOURNAL_PHOTOS, StoredModel, folder_name
from votestream.pipeline import ImageClassifier

ONLY_PYTHON = "only Python can change it"


class UndoStep(NamedTuple):
    """One step that can be undone: a photo that was learned, or a change of classes."""

    what: str  # the photo's name, or what was changed
    label: Any
    photo: bool
    when: str  # to the minute; empty in journals of version 0.2.0


@dataclass(frozen=True)
class UndoResult:
    """The steps that were undone, and the state of the model afterwards."""

    steps: list[UndoStep]  # the newest first
    gone: list[Any]  # classes that the model no longer has
    total: int  # photos that are still learned
    left: int  # steps that can still be undone

    @property
    def photos(self) -> Counter[Any]:
        """The number of photos undone, by class."""
        return Counter(step.label for step in self.steps if step.photo)


def undo(path: Path, steps: int | None) -> UndoResult:
    """Undo the last steps (photos and changes of classes), as if they had not been made; None: the whole last run."""
    with open_for_change(path) as stored:
        before = stored.labels
        _check_steps(stored, steps)
        undone = stored.take_back(stored.journal.last_run if steps is None else steps)
        stored.close()
        gone = [label for label in before if label not in stored.labels]
        return UndoResult(_as_steps(undone), gone, stored.total, _steps_available(stored))


def undo_steps(path: Path) -> list[UndoStep]:
    """The steps that can be undone, the newest first."""
    with open_for_change(path) as stored:
        _check_steps(stored, 0)
        return _as_steps(list(reversed(stored.journal.calls)))


def _as_steps(calls: list[TrainingCall | ClassChange]) -> list[UndoStep]:
    steps = []
    for call in calls:
        when = call.run[:16]
        if isinstance(call, ClassChange):
            what = f"{call.old} forgotten" if call.new is None else f"{call.old} renamed to {call.new}"
            steps.append(UndoStep(what, call.old, False, when))
        else:
            names = call.names or ["a photo"] * len(call)
            steps += [UndoStep(name, label, True, when) for name, label in zip(names, call.labels, strict=True)][::-1]
    return steps


def forget(path: Path, name: str, for_good: bool = False) -> tuple[int, bool]:
    """Delete a class from the model; returns how many photos it had, and whether this can be undone."""
    with open_for_change(path) as stored:
        label, before = find_label(stored.model, name), stored.total
        _change_class(stored, label, None, for_good)
        return before - stored.total, bool(stored.keep)


class RenameResult(NamedTuple):
    joined: bool  # it was joined with a class that had that name
    undoable: bool


def rename(path: Path, old: str, new: str, join: Callable[[int, int], bool]) -> RenameResult | None:
    """Give a class another name.

    If the name is that of another class, `join(photos of this class, photos of the other)` decides whether the two
    are joined; the result is None if it returns False.
    """
    with open_for_change(path) as stored:
        label, names = find_label(stored.model, old), label_by_name(stored.model)
        other = names.get(new, names.get(composed(new), composed(new)))
        joins = other in names.values() and other != label
        if joins:
            counts = dict(zip(stored.labels, stored.model.class_counts_.tolist(), strict=True))
            if not join(counts[label], counts[other]):
                return None
        _change_class(stored, label, other)
        return RenameResult(joins, bool(stored.keep))


def _change_class(stored: StoredModel, old: Any, new: Any, for_good: bool = False) -> None:
    try:
        stored.change_class(old, new, for_good)
    except ValueError as problem:
        raise ModelStoreError(f"{stored.path}: {as_sentence(problem)}") from None


@dataclass(frozen=True)
class MergeResult:
    """The size of a merged model."""

    classes: int
    photos: int
    twice: int  # photos that more than one model had learned


def merge_models(paths: list[Path], out: Path) -> MergeResult:
    """Merge model files into a new one; the files themselves are not changed."""
    out = resolve_link(out)
    check_model_path(out)
    if out.exists():
        raise ModelStoreError(f"{out} exists already: name another file for the merged model.")
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise ModelStoreError("A model is named twice: its photos would count twice.")
    with model_lock(out):
        models = [StoredModel(resolve_link(path), _load_counting(path)) for path in paths]
        try:
            merged = merge([stored.model for stored in models])
        except ValueError as problem:
            raise ModelStoreError(as_sentence(problem)) from None
        entries = [entry for stored in models for entry in stored.sidecar.entries()]
        check_own_file(journal_path(out), "keeps the newest photos' features", is_journal)
        journal_path(out).unlink(missing_ok=True)  # left behind by a model that was deleted
        sidecar = LearnedPhotos(out, 0)
        sidecar.adopt(entries)
        sidecar.write()
        merged.save(out)
    photos = sum(stored.total for stored in models)
    return MergeResult(len(merged.classes_), photos, len(entries) - len(set(entries)))


def label_by_name(model: ImageClassifier) -> dict[str, Any]:
    """The model's labels, which may be numbers, by the names that people type."""
    labels = model.classes_.tolist()
    return {folder_name(label): label for label in labels} | {str(label): label for label in labels}


def find_label(model: ImageClassifier, name: str) -> Any:
    """The label with this name, or a ModelStoreError that lists the model's classes."""
    names = label_by_name(model)
    if name not in names and composed(name) not in names:
        raise ModelStoreError(f"The model has no class {name}: its classes are {some(names.values())}.")
    return names.get(name, names.get(composed(name)))


@contextmanager
def open_for_change(path: Path) -> Iterator[StoredModel]:
    """Open a model of photos and hold its lock; an interrupted change is finished first."""
    path = resolve_link(path)
    if not path.is_file():
        raise ModelStoreError(f"There is no model file at {path}.")
    check_model_path(path)
    with model_lock(path):
        model = _load_counting(path)
        journal = journal_path(path)
        # The journal keeps its length; where `learn --journal 0` made none, none is begun.
        keep = (journal_length(journal) or JOURNAL_PHOTOS) if journal.exists() else 0
        stored = StoredModel(path, model, keep=keep)
        stored.save()
        yield stored


def _load_counting(path: Path) -> ImageClassifier:
    model = load_image_model(path, None)
    check_counts(path, model, ONLY_PYTHON)
    return model


def _steps_available(stored: StoredModel) -> int:
    """How many steps can be undone: a model cannot become empty."""
    return max(0, stored.journal.steps - (not stored.journal.base.fitted))


def _check_steps(stored: StoredModel, steps: int | None) -> None:
    path, journal = stored.path, stored.journal
    if stored.problem:
        raise ModelStoreError(f"Nothing can be undone: {stored.problem}.")
    if not journal_path(path).exists():
        raise ModelStoreError(
            f"Nothing can be undone: {path} has no journal. `votestream learn --journal 0`, `learn --on`, "
            "`votestream merge` and `forget --for-good` keep none."
        )
    steps = journal.last_run if steps is None else steps
    if steps > journal.steps:
        raise ModelStoreError(f"{steps:,} photos cannot be undone: the journal has only the newest {journal.steps:,}.")
    if steps > _steps_available(stored):
        raise ModelStoreError(
            f"This would undo everything that {path} has learned. To start again, delete it with "
            f"{sidecar_path(path).name} and {journal_path(path).name}; or undo fewer photos."
        )
