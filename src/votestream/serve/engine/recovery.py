"""Opening a model to serve: its state is restored from the model file and the journal, also after a crash."""

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
from votestream.model_store.model_file import (
    DEFAULT_LEARNER,
    LEARNER_DEVICE,
    check_device,
    check_unchanged,
    new_learner,
)
from votestream.model_store.paths import ModelStoreError, as_sentence
from votestream.serve.engine.changes import active_calls, replay, sample_count
from votestream.serve.engine.journal import ChangeJournal, Checkpoint, JournalEntry, journal_path
from votestream.serve.engine.photo_notes import finish_photos
from votestream.serve.engine.served_model import ServedModel, base_parts, learner_of_base
from votestream.serve.engine.settings import EngineSettings


class ModelFile(NamedTuple):
    """The content of a model file."""

    learner: Learner
    backbone: dict[str, Any] | None
    fingerprint: str

    def as_checkpoint(self, number: int) -> Checkpoint:
        return Checkpoint(number, self.fingerprint, sample_count(self.learner))


def open_model(path: Path, settings: EngineSettings) -> tuple[ServedModel, list[str]]:
    """Open or create a model. Returns it and remarks for the user. The caller holds the model's lock."""
    check_device(settings.device)
    file = None
    if path.exists():
        learner, backbone = read_model_file(path, settings)
        learner = finish_photos(path, learner, backbone)
        file = ModelFile(learner, backbone, fingerprint(learner) or "")
    journal = ChangeJournal(journal_path(path))
    try:
        return _restored(path, settings, file, journal)
    except BaseException as problem:
        journal.close()
        if journal.new:  # it is empty
            journal.path.unlink(missing_ok=True)
        if isinstance(problem, sqlite3.Error):
            raise ModelStoreError(f"{journal.path} cannot be written: {problem}.") from None
        raise


def _restored(
    path: Path, settings: EngineSettings, file: ModelFile | None, journal: ChangeJournal
) -> tuple[ServedModel, list[str]]:
    """The newest state: a base or the model file, and the changes since then."""
    if not journal.bases():
        learner = (
            file.learner if file else new_learner(settings.learner or DEFAULT_LEARNER, settings.budget, settings.seed)
        )
        backbone = file.backbone if file else None
        with journal.transaction():
            journal.add_base(0, *base_parts(learner))
            journal.set_note("backbone", backbone)
            journal.set_note("folded", file.as_checkpoint(0) if file else Checkpoint(0, "", 0))
        return ServedModel(path, journal, learner, backbone, settings.undo_reach), []
    checkpoint, next_checkpoint = journal.checkpoint(), journal.checkpoint("coming")
    if checkpoint is None:
        raise ModelStoreError(f"{journal.path} is damaged (it does not say what the model file holds): move it away.")
    now, backbone, remarks = file.fingerprint if file else "", journal.note("backbone"), []
    if next_checkpoint is not None and now == next_checkpoint.fingerprint and now != checkpoint.fingerprint:
        checkpoint = next_checkpoint  # it was written, but the process ended before it noted that
        with journal.transaction():
            journal.set_note("folded", checkpoint)
    if file is not None and now != checkpoint.fingerprint:
        remarks = [_accept_changed_file(path, file, journal, checkpoint)]
        learner, start, backbone = file.learner, checkpoint.number, file.backbone
    elif file is not None and checkpoint.number >= journal.bases()[-1] and not journal.undone_since(checkpoint.number):
        learner, start = file.learner, checkpoint.number
    else:
        start = journal.bases()[-1]
        learner = learner_of_base(journal, start, LEARNER_DEVICE)
        if file is None and checkpoint.fingerprint:
            remarks = [f"{path} was missing: it was restored from {journal.path.name}. Move both away for a new model."]
            with journal.transaction():
                journal.set_note("folded", Checkpoint(start, "", 0))
    for call in active_calls(journal.entries(start)):
        try:
            replay(learner, call)
        except ValueError as problem:
            raise ModelStoreError(
                f"{journal.path} is inconsistent: lesson {call[0].number} cannot be learned again ({problem}). "
                "Put a copy of the file back, or move it away to go on without its newest lessons."
            ) from None
    return ServedModel(path, journal, learner, backbone, settings.undo_reach), remarks


def _accept_changed_file(path: Path, file: ModelFile, journal: ChangeJournal, checkpoint: Checkpoint) -> str:
    """Make a model file that another program wrote the new base, and keep the changes that are not in it."""
    entries = journal.entries(checkpoint.number)
    calls = list(active_calls(entries))
    before = journal.note("backbone")
    if calls and _digest(before) != _digest(file.backbone):
        raise ModelStoreError(
            f"{journal.path} holds {sum(map(len, calls)):,} lessons of another model, which was trained with "
            f"{_name(before)}; {path} was trained with {_name(file.backbone)}. Put that model back, or move "
            f"{journal.path.name} away to go on without these lessons."
        )
    trial = copy.deepcopy(file.learner)
    lost: list[JournalEntry] = []
    for call in calls:
        try:
            replay(trial, call)
        except ValueError:
            lost += call
    lost += [entry for entry in entries if entry.kind == "undo" and entry.about["lesson"] <= checkpoint.number]
    with journal.transaction():
        journal.drop_bases(0, journal.last_number())
        journal.drop_changes(checkpoint.number)
        journal.add_base(checkpoint.number, *base_parts(file.learner))
        for entry in lost:
            journal.mark_undone(entry.number, entry.number)
        journal.set_note("backbone", file.backbone)
        journal.set_note("folded", file.as_checkpoint(checkpoint.number))
    kept = sum(map(len, calls)) - sum(entry.kind != "undo" for entry in lost)
    remark = f"{path} was changed by another program since it was served: earlier changes cannot be undone."
    remark += f" {kept:,} lessons that were not in it were learned again." if kept else ""
    remark += f" {len(lost):,} changes do not fit it any more and were left out." if lost else ""
    return remark


def read_model_file(path: Path, settings: EngineSettings) -> tuple[Learner, dict[str, Any] | None]:
    """Read the learner and the description of the backbone. Raises ModelStoreError if the model cannot be served."""
    try:
        header, arrays = model_files.read(path)
        inner = header.get("inner", header)
        if learner_in(inner, LEARNERS).input == "images":
            raise ModelStoreError(
                f"{path} holds a {inner['learner']}, which trains a network itself: it can be used from Python only."
            )
        learner = from_parts(path, inner, arrays, LEARNER_DEVICE)
        backbone = checked_backbone(header["backbone"]) if "backbone" in header else None
    except (ValueError, OSError) as problem:
        raise ModelStoreError(as_sentence(problem)) from None
    check_unchanged(path, backbone, learner, asdict(settings))
    return learner, backbone


def _digest(backbone: dict[str, Any] | None) -> str | None:
    return None if backbone is None else backbone["digest"]


def _name(backbone: dict[str, Any] | None) -> str:
    return "rows of numbers" if backbone is None else f"{backbone['name']} ({backbone['digest'][:12]})"
