"""The photo tool's notes beside a model (`model_store.sidecar`): they stay right while the model is served.

They say which photos `votestream learn` has taught it, in which class. Served lessons are not noted there, but classes
that are renamed or forgotten are: else photos would be learned twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from votestream.io import model_files
from votestream.learners import Learner
from votestream.model_store.journal import fingerprint, open_journal
from votestream.model_store.paths import journal_path as journal_of
from votestream.model_store.paths import sidecar_path as sidecar_of
from votestream.model_store.sidecar import LearnedPhotos
from votestream.model_store.stored_model import folder_name
from votestream.model_store.stored_model import learner_maker as maker
from votestream.serve.changes import samples_of
from votestream.serve.journal import Entry, Folded
from votestream.serve.view import file_parts


def finish_photos(path: Path, learner: Learner, backbone: dict[str, Any] | None) -> Learner:
    """What a run of `votestream learn` that was killed had begun is finished, before the model changes otherwise."""
    opened = open_journal(journal_of(path), learner, maker(learner.device))
    if opened.finished:
        learner = opened.learner
        model_files.write(path, *file_parts(learner, backbone))
    if sidecar_of(path).exists():
        newest = [(key, folder_name(label)) for key, label in opened.journal.current]
        # Without lines of photos that were never learned: with served lessons the model's count will pass their number.
        LearnedPhotos(path, samples_of(learner), newest, fingerprint(learner)).write()
    return learner


def note_classes(path: Path, before: Folded, changes: list[Entry], coming: Folded) -> bool:
    """Note, before the model file is written, what these changes make of the photos' classes; whether there was any."""
    of_classes = [entry for entry in changes if entry.kind in ("rename", "forget") and entry.undone_by is None]
    if not of_classes or not sidecar_of(path).exists():
        return False
    notes = LearnedPhotos(path, before.samples, (), before.fingerprint)
    entries = notes.entries()
    for change in of_classes:
        old = folder_name(change.about["label" if change.kind == "forget" else "old"])
        if change.kind == "forget":
            entries = [(digest, label) for digest, label in entries if label != old]
        else:
            new = folder_name(change.about["new"])
            entries = [(digest, new if label == old else label) for digest, label in entries]
    notes.adopt(entries, coming.fingerprint)
    notes.write()
    return True


def settle_notes(path: Path, now: Folded) -> None:
    """The model file is written: only what holds for it is kept."""
    LearnedPhotos(path, now.samples, (), now.fingerprint).write()
