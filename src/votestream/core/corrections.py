"""Correcting what a model has learned: forgetting a class, renaming one, joining two."""

from __future__ import annotations

from typing import Any, TypeVar

from votestream.common.parameters import shown
from votestream.common.validation import as_labels, check_known_labels
from votestream.core.guard import Guarded
from votestream.core.tasks import TaskLedger
from votestream.tracking import Tracker

C = TypeVar("C", bound="Corrections")


class Corrections(Guarded):
    """The part of `Learner` that takes things back. A learner that can forget a class writes `_forget`, one that can
    make one class of two writes `_join`; the others refuse with a sentence.
    """

    _index: dict[str | int, int]
    _tasks: TaskLedger
    _tracker: Tracker | None
    _broken: bool

    def forget(self: C, label: str | int) -> C:
        """Take a class out of the model: what is kept of it, its label, and its task if that has no other class.

        docs/life.md says how exact that is for each learner.

        >>> import votestream as vs
        >>> model = vs.NearestClassMean().partial_fit([[0.0], [1.0], [9.0]], ["a", "b", "c"])
        >>> model.forget("b").classes_.tolist()
        ['a', 'c']
        """
        with self._guard.lock:
            number = self._number_of(label)
            if not _writes(self, "_forget"):
                raise ValueError(f"a {type(self).__name__} cannot forget a class: {self._why_not}")
            if len(self._index) == 1:
                raise ValueError(f"{shown(label)} is the only class that the model knows; start a new model instead")
            self._correct(number, self._forget, number)
        return self

    def rename(self: C, old: str | int, new: str | int) -> C:
        """Give a class another label. Where that label is a class already, the two become one, in the other's place.

        >>> import votestream as vs
        >>> model = vs.NearestClassMean().partial_fit([[0.0], [1.0], [9.0]], ["cat", "kat", "dog"])
        >>> model.rename("kat", "cat").class_means_.tolist()
        [[0.5], [9.0]]
        """
        with self._guard.lock:
            number = self._number_of(old)
            (label,) = as_labels([new], 1)
            check_known_labels([label], self._index, list(self._index), None)
            if label not in self._index:
                self._index = {label if own == number else known: own for known, own in self._index.items()}
                self._guard.forget()
            elif self._index[label] != number:
                if not _writes(self, "_join"):
                    raise ValueError(f"a {type(self).__name__} cannot make one class of two: {self._why_not}")
                into = self._index[label]
                self._correct(number, self._join, number, into)
        return self

    def _correct(self, number: int, change: Any, *arguments: int) -> None:
        """Apply a change after which there is no class of that number, and later ones count one less."""
        try:
            self._tasks.forget(number)
            kept = [label for label, own in self._index.items() if own != number]
            self._index = {label: place for place, label in enumerate(kept)}
            change(*arguments)
            if self._tracker is not None:
                (self._tracker.forget if len(arguments) == 1 else self._tracker.join)(*arguments)
        except BaseException:  # as in partial_fit
            self._broken = True
            raise
        finally:
            self._guard.forget()

    def _number_of(self, label: str | int) -> int:
        self._check_fitted()
        (known,) = as_labels([label], 1)
        if known not in self._index:
            raise ValueError(f"the model knows no class {shown(label)}")
        return self._index[known]

    # ---- for subclasses -------------------------------------------------------------------------

    _why_not = "it is trained step by step on one stream; teach a new model"

    def _check_fitted(self) -> None:
        raise NotImplementedError

    def _forget(self, number: int) -> None:
        """Take the class out of what was learned; classes above it count one less from now on."""
        raise NotImplementedError

    def _join(self, number: int, into: int) -> None:
        """Make the class a part of another; numbers as before, and from now on classes above `number` count one less.

        `self._index` and `self._tasks` know that already.
        """
        raise NotImplementedError


def _writes(model: Any, name: str) -> bool:
    return getattr(type(model), name) is not getattr(Corrections, name)
