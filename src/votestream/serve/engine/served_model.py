"""The state of a served model: its learner, its journal and its file. Only one thread at a time may use it.

A change is applied to the learner, then written to the journal, then shown in a new ModelView. Nobody else uses the
learner: if the journal cannot be written, it is replaced by a copy of the ModelView, and the change was never visible.
"""

from __future__ import annotations

import copy
import errno
import sqlite3
import time
from pathlib import Path
from typing import Any

from votestream.core.files import arrays_of
from votestream.io import model_files
from votestream.learners import Learner
from votestream.model_store.journal import fingerprint
from votestream.model_store.stored_model import learner_maker
from votestream.serve.engine.changes import Job, Learn, Undo, active_calls, apply_job, replay, sample_count
from votestream.serve.engine.idempotency import IdempotencyKeys, to_json
from votestream.serve.engine.journal import ChangeJournal, Checkpoint, JournalEntry, StoredAnswer
from votestream.serve.engine.messages import (
    AlreadyUndone,
    BadRequest,
    Conflict,
    Correction,
    DiskError,
    InternalError,
    LearnResult,
    NotFound,
    ServeError,
)
from votestream.serve.engine.model_view import RECENT, ModelView, file_parts
from votestream.serve.engine.photo_notes import keep_labels_of, note_new_labels

VIEW_INTERVAL = 50  # changes between two ModelViews that are kept, so that the undo of a new change replays few changes
KEPT_VIEWS = 2
UNDO_DETAILS = ("label", "old", "new", "samples")  # of an undone change, in the answer to the undo


class ServedModel:
    """A model after `number` changes. `view` shows this state to other threads."""

    def __init__(
        self, path: Path, journal: ChangeJournal, learner: Learner, backbone: dict[str, Any] | None, undo_reach: int
    ) -> None:
        self.keys = IdempotencyKeys(journal.stored_answers())
        self._outdated_keys: list[str] = []  # are deleted with the next change
        self._file = file_signature(path)
        self.path, self.journal, self.undo_reach = path, journal, undo_reach
        self.learner, self.backbone = learner, backbone
        self.identity, self.number = journal.identity(), journal.last_number()
        self.bases = journal.bases()
        self.checkpoint = journal.checkpoint() or Checkpoint(0, "", 0)
        self.recent = journal.newest(RECENT)
        self.kept_views: list[ModelView] = []
        self.last_changes: list[JournalEntry] = []  # made by the last call of `change`
        self.log_needs_truncation = False  # deleted data may be left in the write-ahead log
        self.checkpoint_seconds = 0.0  # that the last checkpoint took
        self._update_view()

    def _update_view(self) -> None:
        shown = copy.deepcopy(self.learner)
        snapshot = self.learner.snapshot() if self.learner.fitted else None
        undo_reaches = self.number - self.bases[0]
        self.view = ModelView(self.identity, self.number, shown, snapshot, self.backbone, self.recent, undo_reaches)
        if self.number - max([self.bases[-1], *(view.number for view in self.kept_views)]) >= VIEW_INTERVAL:
            self.kept_views = [*self.kept_views, self.view][-KEPT_VIEWS:]

    # ---- changing -------------------------------------------------------------------------------

    def change(self, jobs: list[tuple[Job, StoredAnswer | None]]) -> list[LearnResult | Correction | ServeError]:
        """Do the jobs in one transaction. Returns an answer for each. An undo must be the only job.

        Raises DiskError if the journal cannot be written; then nothing was changed. Each StoredAnswer is a key whose
        answer is still empty.
        """
        refused: dict[int, ServeError] = {}
        while True:
            entries: list[JournalEntry] = []
            outcomes: list[LearnResult | Correction | ServeError] = []
            answers: list[StoredAnswer] = []
            try:
                for place, (job, key) in enumerate(jobs):
                    if place in refused:
                        outcomes.append(refused[place])
                        continue
                    try:
                        made, outcome = self._apply(job, self.number + len(entries) + 1)
                    except ServeError as problem:
                        outcomes.append(problem)
                        continue
                    entries += made
                    outcomes.append(outcome)
                    if key is not None:
                        answers.append(key._replace(answer=to_json(outcome)))
                break
            except Exception as problem:  # the learner may be half changed: start over without this job
                self._roll_back()
                refused[place] = InternalError(f"This could not be done: {type(problem).__name__}: {problem}.")
        self.last_changes = []
        if entries:
            self._commit(entries, answers)
        return outcomes

    def _apply(self, job: Job, number: int) -> tuple[list[JournalEntry], LearnResult | Correction]:
        if isinstance(job, Undo):
            return self._undo(job.lesson, number)
        if isinstance(job, Learn):
            if not self.learner.fitted:
                self.backbone = job.backbone  # of the first samples; None if they were sent as numbers
            elif job.backbone is not None and self.backbone is None:
                raise BadRequest("The model was trained on rows of numbers, not on images: send rows.")
            elif job.backbone and self.backbone and job.backbone["digest"] != self.backbone["digest"]:
                raise BadRequest("The model was trained with another backbone meanwhile: send the images again.")
        return apply_job(self.learner, job, number)

    def _commit(self, entries: list[JournalEntry], answers: list[StoredAnswer]) -> None:
        number = entries[-1].number
        undone = entries[0].about["lesson"] if entries[0].kind == "undo" else None
        bases = self.bases
        try:
            with self.journal.transaction():
                self.journal.add(entries)
                if undone is not None:
                    self.journal.mark_undone(undone, number)
                    self.journal.drop_bases(undone, number)
                    bases = [base for base in bases if base < undone]
                if self.backbone != self.view.backbone:
                    self.journal.set_note("backbone", self.backbone)
                if number - bases[-1] >= self.undo_reach:
                    bases = self._next_base(bases, number)
                self.journal.drop_answers(self._outdated_keys)
                for answer in answers:
                    self.journal.store_answer(answer)
        except (sqlite3.Error, OSError) as problem:
            self._roll_back()
            raise DiskError(f"The lesson could not be put on disk, and was not learned: {problem}.") from None
        except BaseException:
            self._roll_back()
            raise
        if undone is not None:
            self.kept_views = [view for view in self.kept_views if view.number < undone]
        self.log_needs_truncation |= bases != self.bases or undone is not None
        self.number, self.bases, self.last_changes = number, bases, entries
        self._outdated_keys = self.keys.store(answers)
        self.recent = [
            entry._replace(undone_by=number) if entry.number == undone else entry
            for entry in (*(entry._replace(features=None) for entry in reversed(entries)), *self.recent)
        ][:RECENT]
        self._update_view()

    def _next_base(self, bases: list[int], number: int) -> list[int]:
        """In a transaction, add the current state as a base, and drop what is older than the base before it."""
        self.journal.add_base(number, *base_parts(self.learner))
        bases = [*bases, number]
        if len(bases) > 2:
            self.journal.drop_bases(bases[0], bases[-3])
            self.journal.drop_changes(bases[-2])
        return bases[-2:]

    def _roll_back(self) -> None:
        self.learner, self.backbone = copy.deepcopy(self.view.learner), self.view.backbone

    # ---- undo -----------------------------------------------------------------------------------

    def _undo(self, lesson: int | None, number: int) -> tuple[list[JournalEntry], Correction]:
        if lesson is None and (lesson := self.journal.last_undoable()) is None:
            raise Conflict("There is no lesson to undo.")
        if not 0 < lesson <= self.number:
            raise NotFound(f"There is no lesson {lesson}.")
        entry = self.journal.entry(lesson)
        if entry is None:
            raise NotFound(f"Lesson {lesson} is too old to undo: the oldest that can be undone is {self.bases[0] + 1}.")
        if entry.kind == "undo":
            raise Conflict(f"Lesson {lesson} is itself an undo: learn again what it removed.")
        if entry.undone_by is not None:
            raise AlreadyUndone(f"Lesson {lesson} is undone already.")
        self.learner = self._state_without(lesson)
        about = {
            "lesson": lesson,
            "kind": entry.kind,
            **{key: entry.about[key] for key in UNDO_DETAILS if key in entry.about},
        }
        return [JournalEntry(number, number, "undo", about)], Correction(number, "undo", about)

    def _state_without(self, lesson: int) -> Learner:
        """The learner as if this change had never been made: the nearest older state, and later changes replayed."""
        older = [view for view in self.kept_views if view.number < lesson]
        base = max(base for base in self.bases if base < lesson)
        if older and older[-1].number >= base:
            start, learner = older[-1].number, copy.deepcopy(older[-1].learner)
        else:
            start, learner = base, learner_of_base(self.journal, base, self.learner.device)
        for call in active_calls(entry for entry in self.journal.entries(start) if entry.number != lesson):
            try:
                replay(learner, call)
            except ValueError as problem:
                raise Conflict(
                    f"Lesson {lesson} cannot be undone alone: change {call[0].number} ({call[0].kind}) needs it "
                    f"({problem}). Undo that change first."
                ) from None
        return learner

    # ---- the model file -------------------------------------------------------------------------

    @property
    def pending_changes(self) -> int:
        """The number of changes that are not in the model file."""
        return self.number - self.checkpoint.number

    def write_checkpoint(self) -> None:
        """Bring the model file up to date. Raises OSError or sqlite3.Error; even then no change is lost."""
        began = time.perf_counter()
        if file_signature(self.path) not in (None, self._file):
            raise OSError(errno.EEXIST, "another program changed it, and it is not overwritten. Restart the service")
        next_checkpoint = Checkpoint(self.number, fingerprint(self.learner) or "", sample_count(self.learner))
        with self.journal.transaction():
            self.journal.set_note("coming", next_checkpoint)
        changes = self.journal.entries(self.checkpoint.number)
        noted = note_new_labels(self.path, self.checkpoint, changes, next_checkpoint)
        if next_checkpoint.fingerprint:
            model_files.write(self.path, *file_parts(self.learner, self.backbone))
        elif self.checkpoint.fingerprint:  # all samples were undone: the model is new again
            self.path.unlink(missing_ok=True)
            model_files.sync_folder(self.path.parent)
        self._file = file_signature(self.path)
        with self.journal.transaction():
            self.journal.set_note("folded", next_checkpoint)
        self.checkpoint = next_checkpoint
        if noted:
            keep_labels_of(self.path, next_checkpoint)
        self.truncate_log()
        self.checkpoint_seconds = time.perf_counter() - began

    def truncate_log(self) -> None:
        """Remove deleted data from the write-ahead log of the journal."""
        self.journal.truncate_log()
        self.log_needs_truncation = False


def file_signature(path: Path) -> tuple[int, int, int] | None:
    """What changes when another program writes the file: inode, size and time. None if there is no file."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def learner_of_base(journal: ChangeJournal, base: int, device: str) -> Learner:
    """The learner in a base, which may not be fitted."""
    learner: Learner = learner_maker(device)(*journal.base(base))
    return learner


def base_parts(learner: Learner) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a learner, which may not be fitted."""
    if learner.fitted:
        return learner.header(), arrays_of(learner)
    return {"learner": learner.name, "params": learner.get_params(deep=False)}, {}
