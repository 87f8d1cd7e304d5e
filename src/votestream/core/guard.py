"""What lets threads predict while one learns: a lock for what was learned, and the predictor made from it last."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from votestream.core.predictor import Prepared

T = TypeVar("T")


class Guard:
    """A learner's lock and prepared predictions. A copy of a learner starts with a guard of its own."""

    def __init__(self, torn: bool = False) -> None:
        self.lock = threading.RLock()
        self.torn = (
            torn  # this process was forked while another thread held the lock, which may have left half a change
        )
        _GUARDS.add(self)
        self.now: Prepared | None = None  # None: learning has gone on since
        self.before: Prepared | None = None  # what predicted before it went on
        self.changed: set[int] = set()  # classes learned since then
        self.checked: tuple[Any, ...] = ()  # parameters last found right

    def learned(self, numbers: Mapping[Any, int], labels: Iterable[Any]) -> None:
        """The prepared predictions are out of date, by the classes of these labels."""
        self.before, self.now = self.now or self.before, None
        if self.before is not None:
            self.changed.update(numbers[label] for label in set(labels) if label in numbers)

    def forget(self) -> None:
        """Nothing that was prepared is right any more."""
        self.now = self.before = None
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


def learned(read: Callable[[Any], T]) -> T:
    """A property of what was learned: read under the learner's lock, refused before anything was.

    To type checkers the property is what it gives.
    """

    @wraps(read)
    def locked(self: Any) -> T:
        with self.guard.lock:
            self.check_fitted()
            return read(self)

    return property(locked)  # type: ignore[return-value]
