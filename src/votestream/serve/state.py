"""A model that is served: its learner, its journal and its file. One thread at a time uses it.

A change is applied to the learner, then the journal is written, then the new view is shown. Nobody sees the learner
itself, so that a change which cannot be written to disk has never been: the learner becomes a copy of the view again.
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
from votestream.model_store.stored_model import learner_maker as maker
from votestream.serve.changes import Job, Learn, Undo, calls_of, make_again, perform, samples_of
from votestream.serve.journal import Entry, Folded, Kept, LessonsFile
from votestream.serve.messages import (
    AlreadyUndone,
    BadRequest,
    Change,
    Conflict,
    DiskProblem,
    Failed,
    NotThere,
    ServeError,
    Taught,
)
from votestream.serve.photo_notes import note_classes, settle_notes
from votestream.serve.promises import Keys, as_json
from votestream.serve.view import RECENT, View, file_parts

NEAR = 50  # changes between two copies of the state that make taking back a new lesson quick
COPIES = 2


class ServedModel:
    """`number` changes have been made; `view` shows the state after them."""

    def __init__(
        self, path: Path, journal: LessonsFile, learner: Learner, backbone: dict[str, Any] | None, reach: int
    ) -> None:
        self.keys = Keys(journal.kept_answers())
        self._outdated_keys: list[str] = []  # to be deleted with the next change
        self._file = signature(path)
        self.path, self.journal, self.reach = path, journal, reach
        self.learner, self.backbone = learner, backbone
        self.identity, self.number = journal.identity(), journal.last_number()
        self.bases = journal.bases()
        self.folded = journal.folded() or Folded(0, "", 0)
        self.recent = journal.newest(RECENT)
        self.copies: list[View] = []  # of which a lesson newer than them is taken back quickly
        self.made: list[Entry] = []  # by the last `change`
        self.untidy = False  # something deleted may be left in the write-ahead log
        self.fold_seconds = 0.0  # that the last fold took
        self._show()

    def _show(self) -> None:
        shown = copy.deepcopy(self.learner)
        snapshot = self.learner.snapshot() if self.learner.fitted else None
        undo_reaches = self.number - self.bases[0]
        self.view = View(self.identity, self.number, shown, snapshot, self.backbone, self.recent, undo_reaches)
        if self.number - max([self.bases[-1], *(one.number for one in self.copies)]) >= NEAR:
            self.copies = [*self.copies, self.view][-COPIES:]

    # ---- changing -------------------------------------------------------------------------------

    def change(self, jobs: list[tuple[Job, Kept | None]]) -> list[Taught | Change | ServeError]:
        """Do the jobs and put them on disk, all in one go; for each what to say. An undo comes alone.

        With a DiskProblem, which it raises, nothing was changed. `Kept` has no answer yet.
        """
        skipped: dict[int, ServeError] = {}
        while True:
            entries: list[Entry] = []
            outcomes: list[Taught | Change | ServeError] = []
            kept: list[Kept] = []
            try:
                for place, (job, key) in enumerate(jobs):
                    if place in skipped:
                        outcomes.append(skipped[place])
                        continue
                    try:
                        made, outcome = self._do(job, self.number + len(entries) + 1)
                    except ServeError as problem:
                        outcomes.append(problem)
                        continue
                    entries += made
                    outcomes.append(outcome)
                    if key is not None:
                        kept.append(key._replace(answer=as_json(outcome)))
                break
            except Exception as problem:  # the learner may be half changed: all but this job once more
                self._roll_back()
                skipped[place] = Failed(f"This could not be done: {type(problem).__name__}: {problem}.")
        self.made = []
        if entries:
            self._commit(entries, kept)
        return outcomes

    def _do(self, job: Job, number: int) -> tuple[list[Entry], Taught | Change]:
        if isinstance(job, Undo):
            return self._undo(job.lesson, number)
        if isinstance(job, Learn):
            if not self.learner.fitted:
                self.backbone = job.backbone  # of the first samples, or none where they came as numbers
            elif job.backbone is not None and self.backbone is None:
                raise BadRequest("The model was taught rows of numbers, not images: teach it such rows.")
            elif job.backbone and self.backbone and job.backbone["digest"] != self.backbone["digest"]:
                raise BadRequest("The model was taught through another backbone meanwhile: send the images again.")
        return perform(self.learner, job, number)

    def _commit(self, entries: list[Entry], kept: list[Kept]) -> None:
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
                if number - bases[-1] >= self.reach:
                    bases = self._next_base(bases, number)
                self.journal.drop_answers(self._outdated_keys)
                for each in kept:
                    self.journal.keep_answer(each)
        except (sqlite3.Error, OSError) as problem:
            self._roll_back()
            raise DiskProblem(f"The lesson could not be put on disk, and was not learned: {problem}.") from None
        except BaseException:
            self._roll_back()
            raise
        if undone is not None:
            self.copies = [one for one in self.copies if one.number < undone]
        self.untidy |= bases != self.bases or undone is not None
        self.number, self.bases, self.made = number, bases, entries
        self._outdated_keys = self.keys.keep(kept)
        self.recent = [
            entry._replace(undone_by=number) if entry.number == undone else entry
            for entry in (*(entry._replace(features=None) for entry in reversed(entries)), *self.recent)
        ][:RECENT]
        self._show()

    def _next_base(self, bases: list[int], number: int) -> list[int]:
        """Within a transaction: keep the state of now, and let go of what is older than the base before it."""
        self.journal.add_base(number, *base_parts(self.learner))
        bases = [*bases, number]
        if len(bases) > 2:
            self.journal.drop_bases(bases[0], bases[-3])
            self.journal.drop_changes(bases[-2])
        return bases[-2:]

    def _roll_back(self) -> None:
        self.learner, self.backbone = copy.deepcopy(self.view.learner), self.view.backbone

    # ---- taking back ----------------------------------------------------------------------------

    def _undo(self, lesson: int | None, number: int) -> tuple[list[Entry], Change]:
        if lesson is None and (lesson := self.journal.last_standing()) is None:
            raise Conflict("There is no lesson that could be taken back.")
        if not 0 < lesson <= self.number:
            raise NotThere(f"There is no lesson {lesson}.")
        entry = self.journal.entry(lesson)
        if entry is None:
            raise NotThere(f"Lesson {lesson} can no longer be taken back: undo reaches to lesson {self.bases[0] + 1}.")
        if entry.kind == "undo":
            raise Conflict(f"Lesson {lesson} is itself an undo: teach again what it took back.")
        if entry.undone_by is not None:
            raise AlreadyUndone(f"Lesson {lesson} was taken back already.")
        self.learner = self._without(lesson)
        about = {"lesson": lesson, "kind": entry.kind, **{key: entry.about[key] for key in _TOLD if key in entry.about}}
        return [Entry(number, number, "undo", about)], Change(number, "undo", about)

    def _without(self, lesson: int) -> Learner:
        """The state as if the change had never been."""
        near = [one for one in self.copies if one.number < lesson]
        base = max(base for base in self.bases if base < lesson)
        if near and near[-1].number >= base:
            start, learner = near[-1].number, copy.deepcopy(near[-1].learner)
        else:
            start, learner = base, self.learner_at(base)
        entries = [entry for entry in self.journal.entries(start) if entry.number != lesson]
        for call in calls_of(entries):
            try:
                make_again(learner, call)
            except ValueError as problem:
                raise Conflict(
                    f"Lesson {lesson} cannot be taken back alone: change {call[0].number} ({call[0].kind}) needs it "
                    f"({problem}). Take that back first."
                ) from None
        return learner

    def learner_at(self, base: int) -> Learner:
        return learner_from(self.journal, base, self.learner.device)

    # ---- the model file -------------------------------------------------------------------------

    @property
    def unfolded(self) -> int:
        """Changes that the model file does not have."""
        return self.number - self.folded.number

    def fold(self) -> None:
        """Bring the model file up to date. Raises OSError or sqlite3.Error; the lessons are safe in any case."""
        began = time.perf_counter()
        if signature(self.path) not in (None, self._file):
            raise OSError(errno.EEXIST, "it was changed by something else meanwhile, which stays. Restart the service")
        coming = Folded(self.number, fingerprint(self.learner) or "", samples_of(self.learner))
        with self.journal.transaction():
            self.journal.set_note("coming", coming)
        noted = note_classes(self.path, self.folded, self.journal.entries(self.folded.number), coming)
        if coming.fingerprint:
            model_files.write(self.path, *file_parts(self.learner, self.backbone))
        elif self.folded.fingerprint:  # its first lessons were taken back: there is no model again
            self.path.unlink(missing_ok=True)
            model_files.sync_folder(self.path.parent)
        self._file = signature(self.path)
        with self.journal.transaction():
            self.journal.set_note("folded", coming)
        self.folded = coming
        if noted:
            settle_notes(self.path, coming)
        self.tidy()
        self.fold_seconds = time.perf_counter() - began

    def tidy(self) -> None:
        self.journal.tidy()
        self.untidy = False


def signature(path: Path) -> tuple[int, int, int] | None:
    """By which a file is known to be the one that was read or written last; None where there is none."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


_TOLD = ("label", "old", "new", "samples")


def learner_from(journal: LessonsFile, base: int, device: str) -> Learner:
    """The learner that a base holds, which may have learned nothing yet."""
    learner: Learner = maker(device)(*journal.base(base))
    return learner


def base_parts(learner: Learner) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a learner, which may have learned nothing yet."""
    if learner.fitted:
        return learner.header(), arrays_of(learner)
    return {"learner": learner.name, "params": learner.get_params(deep=False)}, {}
