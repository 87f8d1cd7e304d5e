"""What lets threads predict while one learns: a lock for what was learned, and the predictor made from it last."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import as_label_array
from votestream.tracking import Answers

T = TypeVar("T")


class Predictor(Protocol):
    """A prepared way to answer. It never changes and shares no memory with what goes on learning.

    Classes are numbers, counted in order of first appearance. Rows are checked, float32.
    """

    def decide(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """The class of each row, (n,)."""

    def probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """(n, C), rows sum to 1; the largest is the class that `decide` names."""

    # A predictor may have a third method, `as_module() -> torch.nn.Module`: on a float32 tensor of rows the module
    # gives both, as tensors, by operations that `torch.export` can trace. Models that have one can be exported.


def leading(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of classes with the same largest probability the first has a little more, so that it leads in any order.

    >>> shares = leading(np.array([[0.5, 0.5]]))
    >>> bool(shares[0, 0] > shares[0, 1]), shares.round(9).tolist()
    (True, [[0.5, 0.5]])
    """
    rows, first = np.arange(len(shares)), shares.argmax(1)
    tied = shares == shares[rows, first][:, None]
    tied[rows, first] = False
    if tied.any():
        shares[tied] *= 1 - 8 * np.finfo(np.float64).eps
    return shares


class Naming(NamedTuple):
    """The labels of the classes; `order` lists class numbers as `classes_` does, sorted, numbers before strings."""

    seen: NDArray[Any]  # (C,) in order of first appearance
    order: NDArray[np.intp]

    @classmethod
    def of(cls, labels: list[str | int]) -> Naming:
        order = sorted(range(len(labels)), key=lambda number: (isinstance(labels[number], str), labels[number]))
        return cls(as_label_array(labels), np.array(order, np.intp))

    @property
    def sorted(self) -> NDArray[Any]:
        return self.seen[self.order]


class Prepared(NamedTuple):
    """All that answering takes."""

    naming: Naming
    predictor: Any  # None where the learner answers from what it learns with
    settings: tuple[Any, ...]  # constructor arguments that the predictor was made with
    answers: Answers | None = None  # where the learner keeps a track record

    def probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """(n, C), calibrated where there is a track record; columns as `classes_`."""
        return self.in_order(self.predictor.probabilities(X))

    def in_order(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a predictor gives out, as users get it."""
        shares = leading(shares)
        return (shares if self.answers is None else self.answers.calibration(shares))[:, self.naming.order]

    def vote(self, X: NDArray[Any]) -> Any:
        """How each decision falls, for predictors that vote."""
        return self.predictor.vote(X, self.naming.seen, None if self.answers is None else self.answers.calibration)

    def unknown_scores(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """(n,) in [0, 1)."""
        if self.answers is None:
            raise ValueError(
                "unknown_score needs a track record, which this model has not kept: make it with track=True"
            )
        return self.answers.unknowns.scores(X)


class Guard:
    """A learner's lock and working copies. A copy of a learner starts with a guard of its own."""

    def __init__(self, torn: bool = False) -> None:
        self.lock = threading.RLock()
        self.torn = torn  # this process was forked while another thread held the lock: who knows what it had done
        _GUARDS.add(self)
        self.now: Prepared | None = None  # None: learning has gone on since
        self.before: Prepared | None = None  # what answered before it went on
        self.changed: set[int] = set()  # classes learned since then
        self.naming: Naming | None = None
        self.checked: tuple[Any, ...] = ()  # constructor arguments last found right

    def learned(self, index: Mapping[Any, int], labels: Iterable[Any]) -> None:
        """What answers is out of date, by the classes of these labels."""
        self.before, self.now = self.now or self.before, None
        if self.before is not None:
            self.changed.update(index[label] for label in set(labels) if label in index)

    def forget(self) -> None:
        self.now = self.before = self.naming = None
        self.changed, self.torn = set(), False

    def __reduce__(self) -> tuple[type[Guard], tuple[bool]]:
        return Guard, (self.torn,)


_GUARDS: weakref.WeakSet[Guard] = weakref.WeakSet()


def _renew_locks() -> None:
    """In a forked process, which has none of the other threads: nobody would ever release what they hold."""
    for guard in list(_GUARDS):
        if guard.lock.acquire(blocking=False):
            guard.lock.release()
        else:
            guard.lock, guard.torn = threading.RLock(), True


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_locks)


class Guarded:
    """What has a guard."""

    @property
    def _guard(self) -> Guard:
        return self.__dict__.get("_own_guard") or self.__dict__.setdefault("_own_guard", Guard())


def learned(read: Callable[[Any], T]) -> T:
    """A property of what was learned: read under the learner's lock, refused before anything was."""

    @wraps(read)
    def locked(self: Any) -> T:
        with self._guard.lock:
            self._check_fitted()
            return read(self)

    return property(locked)  # type: ignore[return-value]
