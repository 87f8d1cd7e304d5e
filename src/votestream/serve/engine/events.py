"""Events about changes of a model, with one bounded queue per subscriber, so that a slow subscriber delays nobody."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

MAX_WAITING = 256  # events that wait for one subscriber

Event = dict[str, Any]


class Subscription:
    """The events of one subscriber. `wake` is called from another thread when `get` has something to return."""

    def __init__(self, events: Events, wake: Callable[[], None] | None) -> None:
        self._events, self._wake = events, wake
        self._waiting: deque[Event] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        self.closed = False

    def put(self, event: Event) -> None:
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._lost += 1
                return
            self._put_gap()
            self._waiting.append(event)
            self._changed.notify()
        if self._wake is not None:
            self._wake()

    def get(self, timeout: float | None = 0.0) -> Event | None:
        """The next event. None if no event comes within `timeout` seconds, or if the subscription is closed.

        After events were lost, the next event is `{"kind": "gap", "lost": n}`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._lost or self.closed, timeout)
            if not self._waiting:
                self._put_gap()
            return self._waiting.popleft() if self._waiting else None

    def _put_gap(self) -> None:
        if self._lost:
            self._waiting.append({"kind": "gap", "lost": self._lost})
            self._lost = 0

    def close(self) -> None:
        self._events.unsubscribe(self)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        if self._wake is not None:
            self._wake()


class Events:
    """Sends every event to all subscribers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, wake: Callable[[], None] | None = None) -> Subscription:
        with self._lock:
            added = Subscription(self, wake)
            self._subscriptions = (*self._subscriptions, added)
            return added

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)

    def publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
