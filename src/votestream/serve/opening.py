"""Opening a model to serve: the state that its file and its journal lead to, whatever happened to them meanwhile."""

from __future__ import annotations

import copy
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from votestream.core.registry import LEARNERS, from_parts
from votestream.io import model_files
from votestream.io.file_header import checked_backbone, learner_in
from votestream.learners import Learner
from votestream.model_store.journal import fingerprint
from votestream.model_store.model_file import DEFAULT_LEARNER as LEARNER
from votestream.model_store.model_file import LEARNER_DEVICE as LEARNS_ON
from votestream.model_store.model_file import check_device, check_unchanged, new_learner
from votestream.model_store.paths import ModelStoreError as PhotoError
from votestream.model_store.paths import as_sentence
from votestream.serve.changes import calls_of, make_again, samples_of
from votestream.serve.journal import Entry, Folded, LessonsFile, journal_beside
from votestream.serve.photo_notes import finish_photos
from votestream.serve.settings import EngineSettings
from votestream.serve.state import ServedModel, base_parts, learner_from


class Found(NamedTuple):
    """What a model file holds."""

    learner: Learner
    backbone: dict[str, Any] | None
    fingerprint: str

    def folded(self, number: int) -> Folded:
        return Folded(number, self.fingerprint, samples_of(self.learner))


def open_served(path: Path, settings: EngineSettings) -> tuple[ServedModel, list[str]]:
    """The model, and what is to be said about how it was found. Whoever calls holds the model's lock."""
    check_device(settings.device)
    found = _found(path, settings) if path.exists() else None
    journal = LessonsFile(journal_beside(path))
    try:
        return _opened(path, settings, found, journal)
    except BaseException as problem:
        journal.close()
        if journal.new:  # nothing is in it
            journal.path.unlink(missing_ok=True)
        if isinstance(problem, sqlite3.Error):
            raise PhotoError(f"{journal.path} cannot be written: {problem}.") from None
        raise


def _opened(
    path: Path, settings: EngineSettings, found: Found | None, journal: LessonsFile
) -> tuple[ServedModel, list[str]]:
    if not journal.bases():
        learner = found.learner if found else _new(settings)
        backbone = found.backbone if found else None
        with journal.transaction():
            journal.add_base(0, *base_parts(learner))
            journal.set_note("backbone", backbone)
            journal.set_note("folded", found.folded(0) if found else Folded(0, "", 0))
        return ServedModel(path, journal, learner, backbone, settings.undo_reach), []
    folded, coming = journal.folded(), journal.folded("coming")
    if folded is None:
        raise PhotoError(f"{journal.path} is damaged (it does not say what the model file holds): move it away.")
    now, backbone, remarks = found.fingerprint if found else "", journal.note("backbone"), []
    if coming is not None and now == coming.fingerprint and now != folded.fingerprint:
        folded = coming  # it was written, and whoever wrote it did not come to say so
        with journal.transaction():
            journal.set_note("folded", folded)
    if found is not None and now != folded.fingerprint:
        remarks = [_begin_anew(path, found, journal, folded)]
        learner, start, backbone = found.learner, folded.number, found.backbone
    elif found is not None and folded.number >= journal.bases()[-1] and not journal.undone_since(folded.number):
        learner, start = found.learner, folded.number
    else:
        start = journal.bases()[-1]
        learner = learner_from(journal, start, LEARNS_ON)
        if found is None and folded.fingerprint:
            remarks = [f"{path} was gone: it is made again from {journal.path.name}. Move both away for a new model."]
            with journal.transaction():
                journal.set_note("folded", Folded(start, "", 0))
    for call in calls_of(journal.entries(start)):
        try:
            make_again(learner, call)
        except ValueError as problem:
            raise PhotoError(
                f"{journal.path} leads to no model: lesson {call[0].number} cannot be learned again ({problem}). "
                "Put a copy of it back, or move it away to go on without its newest lessons."
            ) from None
    return ServedModel(path, journal, learner, backbone, settings.undo_reach), remarks


def _begin_anew(path: Path, found: Found, journal: LessonsFile, folded: Folded) -> str:
    """Take the model that someone else put there as the new base; lessons that it never had are learned on top."""
    entries = journal.entries(folded.number)
    calls = list(calls_of(entries))
    before = journal.note("backbone")
    if calls and _digest(before) != _digest(found.backbone):
        raise PhotoError(
            f"{journal.path} holds {sum(map(len, calls)):,} lessons of another model, taught through "
            f"{_name(before)}, and {path} was taught through {_name(found.backbone)}: put that model back, or move "
            f"{journal.path.name} away to go on without these lessons."
        )
    trial = copy.deepcopy(found.learner)
    lost: list[Entry] = []
    for call in calls:
        try:
            make_again(trial, call)
        except ValueError:
            lost += call
    lost += [entry for entry in entries if entry.kind == "undo" and entry.about["lesson"] <= folded.number]
    with journal.transaction():
        journal.drop_bases(0, journal.last_number())
        journal.drop_changes(folded.number)
        journal.add_base(folded.number, *base_parts(found.learner))
        for entry in lost:
            journal.mark_undone(entry.number, entry.number)
        journal.set_note("backbone", found.backbone)
        journal.set_note("folded", found.folded(folded.number))
    kept = sum(map(len, calls)) - sum(entry.kind != "undo" for entry in lost)
    remark = f"{path} was changed by something else since it was served: undo reaches no further back than that."
    remark += f" {kept:,} lessons that it did not have were learned again." if kept else ""
    remark += f" {len(lost):,} changes do not fit it any more and were left out." if lost else ""
    return remark


def _new(settings: EngineSettings) -> Learner:
    return new_learner(settings.learner or LEARNER, settings.budget, settings.seed)


def read_model(path: Path, settings: EngineSettings) -> tuple[Learner, dict[str, Any] | None]:
    """The learner in a model file and what it says of its backbone; PhotoError says why it cannot be served."""
    try:
        header, arrays = model_files.read(path)
        inner = header.get("inner", header)
        if learner_in(inner, LEARNERS).input == "images":
            raise PhotoError(f"{path} holds a {inner['learner']}, which trains a network itself: only Python goes on.")
        learner = from_parts(path, inner, arrays, LEARNS_ON)
        backbone = checked_backbone(header["backbone"]) if "backbone" in header else None
    except (ValueError, OSError) as problem:
        raise PhotoError(as_sentence(problem)) from None
    check_unchanged(path, backbone, learner, asdict(settings))
    return learner, backbone


def _found(path: Path, settings: EngineSettings) -> Found:
    learner, backbone = read_model(path, settings)
    learner = finish_photos(path, learner, backbone)
    return Found(learner, backbone, fingerprint(learner) or "")


def _digest(backbone: dict[str, Any] | None) -> str | None:
    return None if backbone is None else backbone["digest"]


def _name(backbone: dict[str, Any] | None) -> str:
    return "rows of numbers" if backbone is None else f"{backbone['name']} ({backbone['digest'][:12]})"
