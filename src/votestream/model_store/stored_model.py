"""A model file with its sidecar and its journal, written so that they agree even if a run is killed.

They are written in this order: the sidecar, the journal, the model. What sidecar and journal say beyond the model on
disk is either ignored (see `sidecar`) or done again (see `journal`).
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
    ClassChange,
    Journal,
    LearnerMaker,
    TrainingCall,
    fingerprint,
    is_journal,
    open_journal,
    write_journal,
)
from votestream.model_store.paths import ModelStoreError, check_own_file, journal_path, sidecar_path
from votestream.model_store.sidecar import LearnedPhotos, PhotoEntry
from votestream.pipeline import ImageClassifier

JOURNAL_PHOTOS = 1000  # photos in a journal, unless another number is given
CALL_PHOTOS = 100  # photos of one training call at most: a journal can only begin where a call does


def learner_maker(device: str) -> LearnerMaker:
    """A function that makes the learner of a journal's base, which may not have been trained yet."""

    def make(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Learner:
        if "classes" in header:
            return from_parts("the journal", header, arrays, device)
        return create(header["learner"], **{**header["params"], "device": device})

    return make


class StoredModel:
    """A model of photos and the files beside it, opened for changes. The caller holds the model's lock.

    `keep` is the number of photos in its journal; 0 keeps no journal.
    """

    def __init__(self, path: Path, model: ImageClassifier, keep: int = JOURNAL_PHOTOS) -> None:
        self.path, self.keep = path, keep
        self.run = f"{datetime.now():%Y-%m-%d %H:%M:%S} {secrets.token_hex(4)}"  # two may begin in one second
        check_own_file(journal_path(path), "keeps the newest photos' features", is_journal)
        learner = model.current_learner()
        self._saved = fingerprint(learner)
        opened = open_journal(journal_path(path), learner, learner_maker(learner.device))
        self.journal: Journal = opened.journal
        self.problem, self.finished = opened.problem, opened.finished
        self.model = ImageClassifier(model.backbone_, opened.learner) if opened.finished else model
        self.unsaved = opened.finished
        self.sidecar = self._open_sidecar()
        # Trimmed at once, so that its length does not depend on when an earlier run was killed.
        self._journal_outdated = self.trim() or bool(opened.problem)

    def _open_sidecar(self) -> LearnedPhotos:
        pairs = [(key, folder_name(label)) for key, label in self.journal.current]
        try:
            return LearnedPhotos(self.path, self.total, pairs, fingerprint(self.model.current_learner()))
        except OSError as problem:
            reason = problem.strerror or problem
            raise ModelStoreError(f"{sidecar_path(self.path)} cannot be read: {reason}.") from None

    @property
    def labels(self) -> list[Any]:
        return self.model.classes_.tolist() if self.model.fitted else []

    @property
    def total(self) -> int:
        """The number of photos learned."""
        return int(self.model.class_counts_.sum()) if self.model.fitted else 0

    def learn(
        self,
        features: NDArray[np.float32],
        labels: list[Any],
        task: str | None,
        digests: list[str],
        names: list[str] | None = None,
    ) -> None:
        """Train the model on the features of photos, in calls of whole mini-batches."""
        rows = self.model.current_learner().batch_size
        step = max(1, CALL_PHOTOS // rows) * rows
        for start in range(0, len(labels), step):
            call = slice(start, start + step)
            self.model.partial_fit_features(features[call], labels[call], task)
            if self.keep:
                call_names = None if names is None else names[call]
                self.journal.add(features[call], labels[call], task, digests[call], call_names, self.run)
                self.journal.mark(self.model.current_learner(), max(1, self.keep // 2))
        self.sidecar.note(zip(digests, map(folder_name, labels), strict=True))
        self.unsaved = True

    def replace(self, learner: Learner, photos: Iterable[tuple[str, str]]) -> None:
        """Replace the learner by one that was trained elsewhere on these photos, (digest, folder) each.

        The journal is deleted: it does not contain these photos.
        """
        self.model = ImageClassifier(self.model.backbone_, learner)
        self.sidecar.note(photos)
        self.keep, self.unsaved = 0, True
        self.close()

    def place_in_journal(self, digest: str, label: str) -> int | None:
        """The number of a photo of this class in the journal; None if the journal does not contain it."""
        if not self.keep:
            return None
        for number, (key, learned) in enumerate(zip(self.journal.keys, self.journal.labels, strict=True)):
            if number >= self.journal.since_change and key == digest and folder_name(learned) == label:
                return number
        return None

    def correct(self, changes: dict[int, Any]) -> None:
        """Give photos of the journal other labels, as if they had been learned with these labels."""
        keys = self.journal.keys
        self.save()
        self._replay(self.journal.relabelled({number: (label, keys[number]) for number, label in changes.items()}))

    def take_back(self, steps: int) -> list[TrainingCall | ClassChange]:
        """Undo the last photos and changes of classes, and return them, the newest first."""
        journal, undone = self.journal.split(steps)
        changes = [step for step in undone if isinstance(step, ClassChange)]
        if not changes:
            self._replay(journal)
            return undone
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
        self._write_with(older)
        return undone

    def change_class(self, old: Any, new: Any = None, for_good: bool = False) -> None:
        """Rename a class, or delete it if there is no new name; `for_good` makes that permanent."""
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
            older += [(digest, folder_name(label)) for digest, label in self.journal.current]
            self.journal, self.keep = Journal(self.model.learner_), 0
        self._write_with(older)

    def _older(self) -> list[PhotoEntry]:
        """The photos that stand in the sidecar and not in the journal."""
        self.sidecar.write()
        self.sidecar = self._open_sidecar()
        entries = self.sidecar.entries()
        return entries[: len(entries) - len(self.journal.current)]

    def _write_with(self, older: list[PhotoEntry]) -> None:
        """Write all files; the sidecar lists these photos and those of the journal."""
        self.sidecar.adopt(older, fingerprint(self.model.learner_))
        self.unsaved = True
        self.close()
        self.sidecar = self._open_sidecar()
        self.sidecar.write()

    def _replay(self, journal: Journal) -> None:
        self.sidecar.write()  # `_open_sidecar` reads it again
        self.journal = journal
        self.model = ImageClassifier(self.model.backbone_, journal.replayed())
        self.sidecar = self._open_sidecar()
        self.unsaved = True

    def save(self) -> None:
        """Write what has changed."""
        if not self.unsaved:
            return
        after = fingerprint(self.model.learner_)
        try:
            self.sidecar.write()
            self._write_journal(after)
            self.model.save(self.path)
        except OSError as problem:
            raise ModelStoreError(f"{self.path} cannot be written: {problem.strerror or problem}.") from None
        self._saved, self.unsaved, self._journal_outdated = after, False, True
        if self.keep:
            self.journal.trim(self.keep, to_a_mark=True)

    def close(self) -> None:
        """Save, then write a journal of the right length that marks the change as finished; or delete the journal."""
        self.save()
        if self.trim() or self._journal_outdated or not self.keep:
            try:
                self._write_journal(self._saved)
            except OSError as problem:
                reason = problem.strerror or problem
                raise ModelStoreError(f"{journal_path(self.path)} cannot be written: {reason}.") from None

    def trim(self) -> bool:
        """Shorten the journal to `keep` photos; during training it may be longer."""
        return self.keep > 0 and self.journal.trim(self.keep)

    def _write_journal(self, after: str | None) -> None:
        path = journal_path(self.path)
        if self.keep:
            write_journal(path, self.journal, self._saved, after)
        else:
            path.unlink(missing_ok=True)


def folder_name(label: object) -> str:
    """The name of the folder that holds the photos of a class."""
    return composed(str(label))
