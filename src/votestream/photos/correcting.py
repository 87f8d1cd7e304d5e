"""Changing what a model has learned: lessons taken back, classes forgotten, renamed and merged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from votestream.core.merge import merge
from votestream.images.class_folders import composed, some
from votestream.life.journal import is_journal, lessons_in
from votestream.photos.finding import PhotoError
from votestream.photos.lock import alone
from votestream.photos.opening import as_sentence, check_target, load_on_photos
from votestream.photos.sidecar import LearnedPhotos, check_place, followed, journal_of, sidecar_of
from votestream.photos.taught_model import KEPT, TaughtModel, folder_name
from votestream.pipeline import ImageClassifier


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
        return Undone(taken, gone, taught.total, min(len(taught.journal), taught.total - 1))


def forget(path: Path, name: str) -> int:
    """Take a class out of the model; how many of its photos it had learned."""
    with opened(path) as taught:
        label = own_label(taught.model, name)
        before = taught.total
        _change(
            taught, lambda: taught.model.forget(label), lambda folder: None if folder == folder_name(label) else folder
        )
        return before - taught.total


def rename(path: Path, old: str, new: str) -> bool:
    """Give a class another name; whether it became part of a class that had that name."""
    with opened(path) as taught:
        label, names = own_label(taught.model, old), own_names(taught.model)
        other = names.get(new, composed(new))
        before, after = folder_name(label), folder_name(other)
        _change(taught, lambda: taught.model.rename(label, other), lambda folder: after if folder == before else folder)
        return other in names.values()


def _change(taught: TaughtModel, change: Callable[[], object], renamed: Callable[[str], str | None]) -> None:
    try:
        taught.change_classes(change, renamed)
    except ValueError as problem:
        raise PhotoError(f"{taught.path}: {as_sentence(problem)}") from None


@dataclass(frozen=True)
class Merged:
    classes: int
    photos: int
    twice: int  # photos that more than one model had learned


def merge_models(paths: list[Path], out: Path) -> Merged:
    """One model file that knows what all of these know; they stay as they are."""
    out = followed(out)
    check_target(out)
    if out.exists():
        raise PhotoError(f"{out} is there already: name another file for the merged model.")
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise PhotoError("A model is named twice: its photos would count twice.")
    with alone(out):
        models = [TaughtModel(followed(path), counting_photos(path)) for path in paths]
        try:
            merged = merge([taught.model for taught in models])
        except ValueError as problem:
            raise PhotoError(as_sentence(problem)) from None
        entries = [entry for taught in models for entry in taught.sidecar.entries()]
        check_place(journal_of(out), "keeps the newest lessons", is_journal)
        journal_of(out).unlink(missing_ok=True)  # of a model that is gone
        sidecar = LearnedPhotos(out, 0)
        sidecar.adopt(entries)
        sidecar.write()
        merged.save(out)
    photos = sum(taught.total for taught in models)
    return Merged(len(merged.classes_), photos, len(entries) - len(set(entries)))


def own_names(model: ImageClassifier) -> dict[str, Any]:
    """The model's labels, which may be numbers, by the names that people type."""
    labels = model.classes_.tolist()
    return {folder_name(label): label for label in labels} | {str(label): label for label in labels}


def own_label(model: ImageClassifier, name: str) -> Any:
    names = own_names(model)
    if name not in names and composed(name) not in names:
        raise PhotoError(f"The model knows no class {name}: there are {some(names.values())}.")
    return names.get(name, names.get(composed(name)))


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


def counting_photos(path: Path) -> ImageClassifier:
    """The model in a file, if it can tell how many photos it has learned."""
    model = load_on_photos(path, None)
    if not hasattr(model.learner_, "class_counts_"):
        raise PhotoError(f"{path} was begun with {model.learner_.name}, which counts no photos: change it in Python.")
    return model


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
