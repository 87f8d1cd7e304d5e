"""Those who want to hear of every change: each with a bounded queue, so that a slow one delays nobody."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

MOST = 256  # events that wait for one reader

Event = dict[str, Any]


class Subscription:
    """Take events with `get`. `wake` is called, from another thread, whenever there is something to take."""

    def __init__(self, events: Events, wake: Callable[[], None] | None) -> None:
        self._events, self._wake = events, wake
        self._waiting: deque[Event] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        self.closed = False

    def put(self, event: Event) -> None:
        with self._changed:
            if len(self._waiting) >= MOST:
                self._lost += 1
                return
            self._tell_lost()
            self._waiting.append(event)
            self._changed.notify()
        if self._wake is not None:
            self._wake()

    def get(self, timeout: float | None = 0.0) -> Event | None:
        """The next event, or None where none comes within so many seconds; None for ever once it is closed.

        After events were lost, the next is `{"kind": "gap", "lost": n}`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._lost or self.closed, timeout)
            if not self._waiting:
                self._tell_lost()
            return self._waiting.popleft() if self._waiting else None

    def _tell_lost(self) -> None:
        if self._lost:
            self._waiting.append({"kind": "gap", "lost": self._lost})
            self._lost = 0

    def close(self) -> None:
        self._events.leave(self)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        if self._wake is not None:
            self._wake()


class Events:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: tuple[Subscription, ...] = ()

    def __len__(self) -> int:
        return len(self._readers)

    def subscribe(self, wake: Callable[[], None] | None = None) -> Subscription:
        with self._lock:
            made = Subscription(self, wake)
            self._readers = (*self._readers, made)
            return made

    def leave(self, reader: Subscription) -> None:
        with self._lock:
            self._readers = tuple(one for one in self._readers if one is not reader)

    def tell(self, event: Event) -> None:
        for reader in self._readers:
            reader.put(event)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()
