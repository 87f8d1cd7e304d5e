"""The journal of a model: its newest training examples and the model before them, for undo and corrections.

A training example is one row of features with its label. The journal keeps examples in the calls of `partial_fit` that
trained on them, because learners form mini-batches from the start of a call. Replaying the same calls on the same
device gives the same model, bit for bit. Changes of classes (renamed, forgotten) stand between the calls.

A journal file is written before its model, and holds fingerprints of the model before and after the change. If a run is
killed between the two writes, the model has the first fingerprint, and `open_journal` finishes the change by replay.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.core.files import arrays_of
from votestream.io import model_files
from votestream.io.array_checks import demand, take
from votestream.io.model_files import joined, part_of

Label = str | int
Arrays = dict[str, NDArray[Any]]
LearnerMaker = Callable[[dict[str, Any], Arrays], Any]  # makes a learner from a header and arrays (none if untrained)


@dataclass(frozen=True)
class TrainingCall:
    """The training examples of one call of `partial_fit`."""

    features: NDArray[np.float32]
    labels: list[Label]
    task: Label | None
    keys: list[str]  # identify each example for the owner of the journal, such as a digest
    names: list[str]  # shown to people, such as file names; empty if there are none
    run: str = ""  # the same for all calls of one run

    def first(self, n: int) -> TrainingCall:
        return replace(
            self, features=self.features[:n], labels=self.labels[:n], keys=self.keys[:n], names=self.names[:n]
        )

    def replay(self, learner: Any) -> None:
        learner.partial_fit(self.features, self.labels, task=self.task)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class ClassChange:
    """A class that was renamed, or forgotten (then `new` is None)."""

    old: Label
    new: Label | None
    keys: list[str]  # of the class's examples that are older than the journal
    run: str = ""

    def replay(self, learner: Any) -> None:
        if self.new is None:
            learner.forget(self.old)
        else:
            learner.rename(self.old, self.new)

    def __len__(self) -> int:
        return 0


class Journal:
    """Training calls and changes of classes since `base`, a learner that may be untrained.

    >>> import votestream as vs
    >>> journal = Journal(vs.NearestClassMean())
    >>> journal.add([[0.0], [9.0]], ["low", "high"], None, ["a", "b"])
    >>> journal.add([[5.0]], ["middle"], None, ["c"])
    >>> journal.replayed().classes_.tolist(), journal.without_last(1).replayed().classes_.tolist()
    (['high', 'low', 'middle'], ['high', 'low'])
    >>> journal.relabelled({1: ("low", "b")}).replayed().classes_.tolist()
    ['low', 'middle']
    """

    def __init__(self, base: Any, calls: list[TrainingCall | ClassChange] | None = None) -> None:
        self.base = base
        self.calls: list[TrainingCall | ClassChange] = calls or []
        self._marks: list[tuple[int, Any]] = []  # after so many calls, a copy of the learner, for `trim`

    def __len__(self) -> int:
        """The number of training examples."""
        return sum(map(len, self.calls))

    @property
    def labels(self) -> list[Label]:
        """The label of each example, as it was learned."""
        return [label for call in self.calls if isinstance(call, TrainingCall) for label in call.labels]

    @property
    def keys(self) -> list[str]:
        return [key for call in self.calls if isinstance(call, TrainingCall) for key in call.keys]

    @property
    def current(self) -> list[tuple[str, Label]]:
        """Key and label of each example after all changes of classes."""
        found: list[tuple[str, Label]] = []
        for call in self.calls:
            if isinstance(call, TrainingCall):
                found += zip(call.keys, call.labels, strict=True)
            elif call.new is None:
                found = [(key, label) for key, label in found if label != call.old]
            else:
                found = [(key, call.new if label == call.old else label) for key, label in found]
        return found

    @property
    def since_change(self) -> int:
        """The number of the first example after the last change of classes."""
        changes = [place for place, call in enumerate(self.calls) if isinstance(call, ClassChange)]
        return sum(map(len, self.calls[: changes[-1]])) if changes else 0

    def add(
        self,
        features: Any,
        labels: list[Label],
        task: Label | None,
        keys: list[str],
        names: list[str] | None = None,
        run: str = "",
    ) -> None:
        self.calls.append(TrainingCall(np.asarray(features, np.float32), labels, task, keys, names or [], run))

    def add_change(self, old: Label, new: Label | None, keys: list[str], run: str = "") -> None:
        """Add a renamed or forgotten class; `keys` of older examples are needed to undo it."""
        self.calls.append(ClassChange(old, new, keys, run))

    def replayed(self) -> Any:
        """The learner after all calls and changes; `base` is not changed."""
        learner = copy.deepcopy(self.base)
        for call in self.calls:
            call.replay(learner)
        return learner

    def split(self, n: int) -> tuple[Journal, list[TrainingCall | ClassChange]]:
        """The journal without its last n steps (examples and changes of classes), and these steps, newest first."""
        calls, taken = list(self.calls), list[TrainingCall | ClassChange]()
        while n > 0 and calls:
            call = calls.pop()
            if isinstance(call, ClassChange) or len(call) <= n:
                n -= len(call) or 1
                taken.append(call)
                continue
            left = len(call) - n
            calls.append(call.first(left))
            kept = replace(call, features=call.features[left:], labels=call.labels[left:], keys=call.keys[left:])
            taken.append(replace(kept, names=call.names[left:]))
            n = 0
        return Journal(self.base, calls), taken

    def without_last(self, n: int) -> Journal:
        """The journal without its last n steps: examples and changes of classes."""
        return self.split(n)[0]

    @property
    def steps(self) -> int:
        """The number of steps: examples and changes of classes."""
        return sum(len(call) or 1 for call in self.calls)

    @property
    def last_run(self) -> int:
        """The number of steps of the newest run."""
        found = 0
        for call in reversed(self.calls):
            if call.run != self.calls[-1].run:
                break
            found += len(call) or 1
        return found

    def relabelled(self, changes: dict[int, tuple[Label, str]]) -> Journal:
        """The journal with other labels and keys for some examples, by their number from 0."""
        calls, start = list[TrainingCall | ClassChange](), 0
        for call in self.calls:
            if isinstance(call, ClassChange):
                calls.append(call)
                continue
            old = enumerate(zip(call.labels, call.keys, strict=True), start)
            new = [changes.get(number, pair) for number, pair in old]
            calls.append(replace(call, labels=[label for label, _ in new], keys=[key for _, key in new]))
            start += len(new)
        return Journal(self.base, calls)

    def mark(self, learner: Any, every: int) -> None:
        """Keep a copy of the learner after the last call, if the last copy is `every` examples old."""
        last = self._marks[-1][0] if self._marks else 0
        if sum(map(len, self.calls[last:])) >= every:
            self._marks.append((len(self.calls), copy.deepcopy(learner)))

    def trim(self, keep: int, to_a_mark: bool = False) -> bool:
        """Move the oldest calls into the base and keep at least `keep` examples; returns whether any were moved.

        With `to_a_mark`, stop at a copy that `mark` has kept, so that no call is replayed.
        """
        left, old = len(self), 0
        while old < len(self.calls) and left - len(self.calls[old]) >= keep:
            left -= len(self.calls[old])
            old += 1
        passed = [mark for mark in self._marks if mark[0] <= old]
        done, base = passed[-1] if passed else (0, self.base)
        if to_a_mark:
            old = done
        self.base = Journal(base, self.calls[done:old]).replayed() if old > done else base
        self.calls = self.calls[old:]
        self._marks = [(number - old, learner) for number, learner in self._marks if number > old]
        return old > 0


class OpenedJournal(NamedTuple):
    """A journal whose replay gives the learner."""

    journal: Journal
    learner: Any
    finished: bool = False  # an interrupted change was finished: the caller has to save the learner
    problem: str = ""  # why the journal on disk could not be used; then this one is empty


def open_journal(path: Path, learner: Any, make: LearnerMaker) -> OpenedJournal:
    """The journal of a saved learner; an empty one if there is none, or if it belongs to another model."""
    fresh = OpenedJournal(Journal(copy.deepcopy(learner)), learner)
    now = fingerprint(learner)
    if now is None or not path.exists():
        return fresh
    try:
        journal, before, after = read_journal(path, make)
    except ValueError:
        return fresh._replace(problem=f"{path} is damaged, or not a journal that this version can read")
    if now == after:
        return OpenedJournal(journal, learner)
    if now == before and fingerprint(made := journal.replayed()) == after:
        return OpenedJournal(journal, made, finished=True)
    return fresh._replace(problem=f"{path} does not belong to the model as it is now")


def write_journal(path: Path, journal: Journal, before: str | None, after: str | None) -> None:
    """Write the whole file or nothing. `before` is the fingerprint of the model on disk, `after` of the changed one."""
    base = journal.base
    fitted = base.fitted
    calls = [call for call in journal.calls if isinstance(call, TrainingCall)]
    changes = [
        [place, call.old, call.new, call.keys, call.run]
        for place, call in enumerate(journal.calls)
        if isinstance(call, ClassChange)
    ]
    header = {
        "journal": 2 if changes else 1,  # version 0.2.0 reads 1 only: it would ignore the changes
        "before": before,
        "after": after,
        "calls": [[len(call), call.task] for call in calls],
        "runs": [call.run for call in calls],
        "names": [call.names for call in calls],
        "changes": changes,
        "labels": journal.labels,
        "keys": journal.keys,
        "base": base.header() if fitted else {"learner": base.name, "params": base.get_params(deep=False)},
    }
    arrays = joined({"base": arrays_of(base) if fitted else {}})
    if calls:
        arrays["features"] = np.concatenate([call.features for call in calls])
    model_files.write(path, header, arrays)


def read_journal(path: Path, make: LearnerMaker) -> tuple[Journal, str | None, str | None]:
    """The journal and both fingerprints; raises ValueError if the file holds anything else."""
    header, arrays = model_files.read(path)
    try:
        demand(header["journal"] in (1, 2), f"{path} is a journal of another version")
        sizes = [n for n, _ in header["calls"]]
        n, labels, keys = sum(sizes), header["labels"], header["keys"]
        demand(len(labels) == len(keys) == n and all(size > 0 for size in sizes), f"{path} holds other examples")
        features = take(arrays, "features", np.float32, (n, None)) if n else np.empty((0, 0), np.float32)
        runs, names = header.get("runs", [""] * len(sizes)), header.get("names", [[]] * len(sizes))
        demand(len(runs) == len(names) == len(sizes), f"{path} holds other examples")
        calls, start = list[TrainingCall | ClassChange](), 0
        for (size, task), run, named in zip(header["calls"], runs, names, strict=True):
            rows = slice(start, start + size)
            demand(len(named) in (0, size) and isinstance(run, str), f"{path} holds other examples")
            calls.append(
                TrainingCall(features[rows], labels[rows], task, keys[rows], [str(name) for name in named], run)
            )
            start += size
        for place, old, new, of_class, run in header.get("changes", []):
            demand(isinstance(place, int) and 0 <= place <= len(calls), f"{path} holds other changes")
            calls.insert(place, ClassChange(old, new, [str(key) for key in of_class], str(run)))
        return Journal(make(header["base"], part_of(arrays, "base")), calls), header["before"], header["after"]
    except (KeyError, TypeError) as problem:
        raise model_files.ModelFileError(f"{path} is no journal ({problem!r})") from None


def journal_length(path: Path) -> int | None:
    """The number of examples in a journal file; None if it cannot be read."""
    try:
        return len(model_files.read(path)[0]["labels"])
    except (KeyError, OSError, TypeError, ValueError):
        return None


def is_journal(start: bytes) -> bool:
    """Whether a file with these first bytes is a journal, or the rest of a damaged one.

    >>> is_journal(b""), is_journal(b"Dear diary")
    (True, False)
    """
    return not start or any(b'\\"journal\\": %d' % version in start for version in (1, 2))


TASK_NAMES = {"named": "_named", "clock": "_clock", "last_seen": "_last_seen", "blocks": "_blocks"}


def fingerprint(learner: Any) -> str | None:
    """A digest of all that was learned, the same on every device; None for an untrained learner."""
    if not learner.fitted:
        return None
    header = {name: value for name, value in learner.header().items() if name != "params"}
    # With the names of version 0.2.0, so that its journals still match their models.
    header["tasks"] = {TASK_NAMES.get(name, name): value for name, value in header["tasks"].items()}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays_of(learner).items()}
    return model_files.digest(json.dumps(header, sort_keys=True), arrays)
