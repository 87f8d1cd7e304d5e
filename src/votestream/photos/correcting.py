"""Changing what a model has learned: lessons taken back, classes forgotten, renamed and merged."""

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
from votestream.model_store.journal import Call, ClassChange, is_journal, lessons_in
from votestream.photos.finding import PhotoError
from votestream.photos.lock import alone
from votestream.photos.opening import as_sentence, check_target, load_on_photos
from votestream.photos.sidecar import LearnedPhotos, check_place, followed, journal_of, sidecar_of
from votestream.photos.taught_model import KEPT, TaughtModel, folder_name
from votestream.pipeline import ImageClassifier


class Step(NamedTuple):
    """Something that can be taken back: a photo that was learned, or a change of classes."""

    what: str  # the photo's name, or what was done
    label: Any
    photo: bool
    when: str  # to the minute; empty in journals of version 0.2.0


@dataclass(frozen=True)
class Undone:
    """What was taken back, and what is left."""

    steps: list[Step]  # the newest first
    gone: list[Any]  # classes that the model no longer knows
    total: int
    left: int  # steps that could be taken back too

    @property
    def photos(self) -> Counter[Any]:
        """Of each class."""
        return Counter(step.label for step in self.steps if step.photo)


def undo(path: Path, steps: int | None) -> Undone:
    """Take back the last steps, photos and changes of classes, as if they had never been; None: all of the last run."""
    with opened(path) as taught:
        before = taught.labels
        _check_reach(taught, steps)
        taken = taught.take_back(taught.journal.last_run if steps is None else steps)
        taught.close()
        gone = [label for label in before if label not in taught.labels]
        return Undone(_as_steps(taken), gone, taught.total, _reach(taught))


def undoable(path: Path) -> list[Step]:
    """What can be taken back, the newest first."""
    with opened(path) as taught:
        _check_reach(taught, 0)
        return _as_steps(list(reversed(taught.journal.calls)))


def _as_steps(calls: list[Call | ClassChange]) -> list[Step]:
    steps = []
    for call in calls:
        when = call.run[:16]
        if isinstance(call, ClassChange):
            what = f"{call.old} forgotten" if call.new is None else f"{call.old} renamed to {call.new}"
            steps.append(Step(what, call.old, False, when))
        else:
            names = call.names or ["a photo"] * len(call)
            steps += [Step(name, label, True, when) for name, label in zip(names, call.labels, strict=True)][::-1]
    return steps


def forget(path: Path, name: str, for_good: bool = False) -> tuple[int, bool]:
    """Take a class out of the model; how many of its photos it had learned, and whether that can be taken back."""
    with opened(path) as taught:
        label, before = own_label(taught.model, name), taught.total
        _change(taught, label, None, for_good)
        return before - taught.total, bool(taught.keep)


class Renamed(NamedTuple):
    joined: bool  # it became part of a class that had that name
    undoable: bool


def rename(path: Path, old: str, new: str, join: Callable[[int, int], bool]) -> Renamed | None:
    """Give a class another name; with that of another class, `join` is asked, told how many photos each has.

    None where it says no.
    """
    with opened(path) as taught:
        label, names = own_label(taught.model, old), own_names(taught.model)
        other = names.get(new, names.get(composed(new), composed(new)))
        joins = other in names.values() and other != label
        if joins:
            counts = dict(zip(taught.labels, taught.model.class_counts_.tolist(), strict=True))
            if not join(counts[label], counts[other]):
                return None
        _change(taught, label, other)
        return Renamed(joins, bool(taught.keep))


def _change(taught: TaughtModel, old: Any, new: Any, for_good: bool = False) -> None:
    try:
        taught.change_class(old, new, for_good)
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
        journal = journal_of(path)
        # As long as it is; where whoever taught the model wished for none, none is begun.
        taught = TaughtModel(path, model, keep=(lessons_in(journal) or KEPT) if journal.exists() else 0)
        taught.save()
        yield taught


def counting_photos(path: Path) -> ImageClassifier:
    """The model in a file, if it can tell how many photos it has learned."""
    model = load_on_photos(path, None)
    if not hasattr(model.learner_, "class_counts_"):
        raise PhotoError(f"{path} was begun with {model.learner_.name}, which counts no photos: change it in Python.")
    return model


def _reach(taught: TaughtModel) -> int:
    """How many steps can be taken back: something has to stay."""
    return max(0, taught.journal.steps - (not taught.journal.base.fitted))


def _check_reach(taught: TaughtModel, steps: int | None) -> None:
    path, journal = taught.path, taught.journal
    if taught.problem:
        raise PhotoError(f"Nothing can be taken back: {taught.problem}.")
    if not journal_of(path).exists():
        raise PhotoError(
            f"Nothing can be taken back: {path} has no journal. None is kept with `votestream learn --journal 0`, of "
            "photos that several workers learned (--on), and by `votestream merge` and `forget --for-good`."
        )
    steps = journal.last_run if steps is None else steps
    if steps > journal.steps:
        raise PhotoError(f"{steps:,} lessons cannot be taken back: the journal reaches back {journal.steps:,}.")
    if steps > _reach(taught):
        raise PhotoError(
            f"That would take back all that {path} has learned: delete it with {sidecar_of(path).name} and "
            f"{journal_of(path).name} to begin anew, or name fewer lessons."
        )
