"""A model file, its sidecar and its journal: written in one order, so that they agree whenever a run is killed.

First the sidecar, then the journal, then the model. What sidecar and journal say beyond the model on disk either does
not count (see `sidecar`) or is done again (see `life.journal`).
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.core.registry import create, from_parts
from votestream.images.class_folders import composed
from votestream.learners import Learner
from votestream.model_store.journal import (
    Call,
    ClassChange,
    Journal,
    Make,
    fingerprint,
    is_journal,
    open_journal,
    write_journal,
)
from votestream.photos.finding import PhotoError
from votestream.photos.sidecar import Entry, LearnedPhotos, check_place, journal_of, sidecar_of
from votestream.pipeline import ImageClassifier

KEPT = 1000  # lessons in a journal unless another number is asked for
CALL = 100  # photos learned at once at most: a journal begins where a call does


def maker(device: str) -> Make:
    """Makes the learner of a journal's base, which may have learned nothing yet."""

    def make(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Learner:
        if "classes" in header:
            return from_parts("the journal", header, arrays, device)
        return create(header["learner"], **{**header["params"], "device": device})

    return make


class TaughtModel:
    """A model that photos are taught to, open for changes. `keep`: lessons in its journal, 0 for no journal."""

    def __init__(self, path: Path, model: ImageClassifier, keep: int = KEPT) -> None:
        self.path, self.keep = path, keep
        self.run = f"{datetime.now():%Y-%m-%d %H:%M:%S} {secrets.token_hex(4)}"  # two may begin in one second
        check_place(journal_of(path), "keeps the newest lessons", is_journal)
        learner = model.current_learner()
        self._saved = fingerprint(learner)
        opened = open_journal(journal_of(path), learner, maker(learner.device))
        self.journal: Journal = opened.journal
        self.problem, self.finished = opened.problem, opened.finished
        self.model = ImageClassifier(model.backbone_, opened.learner) if opened.finished else model
        self.unsaved = opened.finished
        self.sidecar = self._open_sidecar()
        # Trimmed at once, so that how far it reaches does not depend on when an earlier run was killed.
        self._journal_outdated = self.trim() or bool(opened.problem)

    def _open_sidecar(self) -> LearnedPhotos:
        pairs = [(key, folder_name(label)) for key, label in self.journal.now]
        try:
            return LearnedPhotos(self.path, self.total, pairs, fingerprint(self.model.current_learner()))
        except OSError as problem:
            raise PhotoError(f"{sidecar_of(self.path)} cannot be read: {problem.strerror or problem}.") from None

    @property
    def labels(self) -> list[Any]:
        return self.model.classes_.tolist() if self.model.fitted else []

    @property
    def total(self) -> int:
        """Photos learned."""
        return int(self.model.class_counts_.sum()) if self.model.fitted else 0

    def learn(
        self,
        features: NDArray[np.float32],
        labels: list[Any],
        task: str | None,
        digests: list[str],
        names: list[str] | None = None,
    ) -> None:
        """Learn photos by their features, in calls of whole mini-batches."""
        rows = self.model.current_learner().batch_size
        step = max(1, CALL // rows) * rows
        for start in range(0, len(labels), step):
            call = slice(start, start + step)
            self.model.partial_fit_features(features[call], labels[call], task)
            if self.keep:
                named = None if names is None else names[call]
                self.journal.add(features[call], labels[call], task, digests[call], named, self.run)
                self.journal.mark(self.model.current_learner(), max(1, self.keep // 2))
        self.sidecar.note(zip(digests, map(folder_name, labels), strict=True))
        self.unsaved = True

    def replace(self, learner: Learner, photos: Iterable[tuple[str, str]]) -> None:
        """The model is this from now on, by photos, digest and folder each, that no journal has seen; it is cleared."""
        self.model = ImageClassifier(self.model.backbone_, learner)
        self.sidecar.note(photos)
        self.keep, self.unsaved = 0, True
        self.close()

    def lesson_of(self, digest: str, label: str) -> int | None:
        """The journal's number of the lesson that taught this photo in this class; None where it does not reach."""
        if not self.keep:
            return None
        for number, (key, taught) in enumerate(zip(self.journal.keys, self.journal.labels, strict=True)):
            if number >= self.journal.since_change and key == digest and folder_name(taught) == label:
                return number
        return None

    def correct(self, changes: dict[int, Any]) -> None:
        """Give lessons of the journal other labels, as if they had been learned so."""
        keys = self.journal.keys
        self.save()
        self._replay(self.journal.relabelled({number: (label, keys[number]) for number, label in changes.items()}))

    def take_back(self, steps: int) -> list[Call | ClassChange]:
        """Take back the last lessons and changes of classes, as if they had never been; which these were."""
        journal, taken = self.journal.parted(steps)
        changes = [step for step in taken if isinstance(step, ClassChange)]
        if not changes:
            self._replay(journal)
            return taken
        older = self._older()
        for change in changes:
            old, left = folder_name(change.old), Counter(change.keys)
            if change.new is None:
                older += [(digest, old) for digest in change.keys]
            for place, (digest, label) in enumerate(older if change.new is not None else ()):
                if label == folder_name(change.new) and left[digest]:
                    left[digest] -= 1
                    older[place] = digest, old
        self.journal = journal
        self.model = ImageClassifier(self.model.backbone_, journal.replayed())
        self._put_with(older)
        return taken

    def change_class(self, old: Any, new: Any = None, for_good: bool = False) -> None:
        """Rename a class, or forget it where there is no new name; `for_good`, nothing is kept to take that back."""
        older = self._older()
        before, after = folder_name(old), None if new is None else folder_name(new)
        of_class = [digest for digest, label in older if label == before]
        if new is None:
            self.model.forget(old)
        else:
            self.model.rename(old, new)
        self.journal.add_change(old, new, of_class, self.run)
        older = [entry for entry in older if after is not None or entry[1] != before]
        older = [(digest, after if label == before else label) for digest, label in older]
        if for_good or not self.keep:
            older += [(digest, folder_name(label)) for digest, label in self.journal.now]
            self.journal, self.keep = Journal(self.model.learner_), 0
        self._put_with(older)

    def _older(self) -> list[Entry]:
        """The photos that the sidecar knows and the journal does not."""
        self.sidecar.write()
        self.sidecar = self._open_sidecar()
        entries = self.sidecar.entries()
        return entries[: len(entries) - len(self.journal.now)]

    def _put_with(self, older: list[Entry]) -> None:
        """Put model and journal on disk, and these photos beside those of the journal."""
        self.sidecar.adopt(older, fingerprint(self.model.learner_))
        self.unsaved = True
        self.close()
        self.sidecar = self._open_sidecar()
        self.sidecar.write()

    def _replay(self, journal: Journal) -> None:
        self.sidecar.write()  # it is read anew
        self.journal = journal
        self.model = ImageClassifier(self.model.backbone_, journal.replayed())
        self.sidecar = self._open_sidecar()
        self.unsaved = True

    def save(self) -> None:
        """Put on disk what has changed."""
        if not self.unsaved:
            return
        after = fingerprint(self.model.learner_)
        try:
            self.sidecar.write()
            self._write_journal(after)
            self.model.save(self.path)
        except OSError as problem:
            raise PhotoError(f"{self.path} cannot be written: {problem.strerror or problem}.") from None
        self._saved, self.unsaved, self._journal_outdated = after, False, True
        if self.keep:
            self.journal.trim(self.keep, to_a_mark=True)

    def close(self) -> None:
        """Save, and leave a journal of the length asked for that says that no change is under way; or none."""
        self.save()
        if self.trim() or self._journal_outdated or not self.keep:
            try:
                self._write_journal(self._saved)
            except OSError as problem:
                raise PhotoError(f"{journal_of(self.path)} cannot be written: {problem.strerror or problem}.") from None

    def trim(self) -> bool:
        """Bring the journal to the length asked for; while photos are learned it may be longer."""
        return self.keep > 0 and self.journal.trim(self.keep)

    def _write_journal(self, after: str | None) -> None:
        path = journal_of(self.path)
        if self.keep:
            write_journal(path, self.journal, self._saved, after)
        else:
            path.unlink(missing_ok=True)


def folder_name(label: object) -> str:
    """A class's name as its folder has it."""
    return composed(str(label))
