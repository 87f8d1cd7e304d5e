"""The photo tool's notes beside a model (`model_store.sidecar`), kept correct while the model is served.

The notes say which photos `votestream learn` has learned, and in which class. Samples that the service learned are not
in them, but classes that it renames or forgets are updated: otherwise their photos would be learned twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from votestream.io import model_files
from votestream.learners import Learner
from votestream.model_store.journal import fingerprint, open_journal
from votestream.model_store.paths import journal_path, sidecar_path
from votestream.model_store.sidecar import LearnedPhotos
from votestream.model_store.stored_model import folder_name, learner_maker
from votestream.serve.engine.changes import sample_count
from votestream.serve.engine.journal import Checkpoint, JournalEntry
from votestream.serve.engine.model_view import file_parts


def finish_photos(path: Path, learner: Learner, backbone: dict[str, Any] | None) -> Learner:
    """Finish a run of `votestream learn` that was killed. Returns the learner with the photos of that run."""
    opened = open_journal(journal_path(path), learner, learner_maker(learner.device))
    if opened.finished:
        learner = opened.learner
        model_files.write(path, *file_parts(learner, backbone))
    if sidecar_path(path).exists():
        newest = [(key, folder_name(label)) for key, label in opened.journal.current]
        # Drops lines of photos that were never learned: the service will add samples until their number is passed.
        LearnedPhotos(path, sample_count(learner), newest, fingerprint(learner)).write()
    return learner


def note_new_labels(path: Path, before: Checkpoint, changes: list[JournalEntry], after: Checkpoint) -> bool:
    """Before the model file is written, note how these changes relabel photos. False if they relabel none."""
    relabelling = [entry for entry in changes if entry.kind in ("rename", "forget") and entry.undone_by is None]
    if not relabelling or not sidecar_path(path).exists():
        return False
    notes = LearnedPhotos(path, before.samples, (), before.fingerprint)
    entries = notes.entries()
    for change in relabelling:
        old = folder_name(change.about["label" if change.kind == "forget" else "old"])
        if change.kind == "forget":
            entries = [(digest, label) for digest, label in entries if label != old]
        else:
            new = folder_name(change.about["new"])
            entries = [(digest, new if label == old else label) for digest, label in entries]
    notes.adopt(entries, after.fingerprint)
    notes.write()
    return True


def keep_labels_of(path: Path, now: Checkpoint) -> None:
    """After the model file is written, keep only the labels that belong to it."""
    LearnedPhotos(path, now.samples, (), now.fingerprint).write()
