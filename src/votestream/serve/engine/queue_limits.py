"""Limits on how much may wait in a queue, over all requests together."""

from __future__ import annotations

import threading

from votestream.serve.engine.messages import BadRequest, TooBusy


class QueueLimit:
    """Counts items and bytes in a queue. Raises TooBusy when it is full, BadRequest when a request can never fit.

    >>> limit = QueueLimit("images", max_count=2, max_bytes=100)
    >>> limit.enter(2, 80)
    >>> limit.enter(1, 1)
    Traceback (most recent call last):
    ...
    votestream.serve.engine.messages.TooBusy: Too many images are waiting just now: try again in a second.
    >>> limit.leave(2, 80)
    >>> limit.enter(1, 101)
    Traceback (most recent call last):
    ...
    votestream.serve.engine.messages.BadRequest: A request may have at most 2 images and 100 bytes, got 1 and 101.
    """

    def __init__(self, what: str, max_count: int, max_bytes: int) -> None:
        self.what, self.max_count, self.max_bytes = what, max_count, max_bytes
        self.waiting = self.bytes_waiting = self.refused = 0
        self._lock = threading.Lock()

    def enter(self, count: int, size: int) -> None:
        if count > self.max_count or size > self.max_bytes:
            raise BadRequest(
                f"A request may have at most {self.max_count:,} {self.what} and {self.max_bytes:,} bytes, "
                f"got {count:,} and {size:,}."
            )
        with self._lock:
            if self.waiting + count > self.max_count or self.bytes_waiting + size > self.max_bytes:
                self.refused += 1
                raise TooBusy(f"Too many {self.what} are waiting just now: try again in a second.")
            self.waiting += count
            self.bytes_waiting += size

    def leave(self, count: int, size: int) -> None:
        with self._lock:
            self.waiting -= count
            self.bytes_waiting -= size
