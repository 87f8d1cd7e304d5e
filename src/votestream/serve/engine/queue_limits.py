"""Bounds on what waits: so many things and so many bytes, of all requests together."""

from __future__ import annotations

import threading

from votestream.serve.engine.messages import BadRequest, TooBusy


class Room:
    """Counts what is inside. Whoever does not fit in now is told to come again, whoever never fits is told so.

    >>> room = Room("images", most=2, most_bytes=100)
    >>> room.enter(2, 80)
    >>> room.enter(1, 1)
    Traceback (most recent call last):
    ...
    votestream.serve.engine.messages.TooBusy: Too many images are waiting just now: try again in a second.
    >>> room.leave(2, 80)
    >>> room.enter(1, 101)
    Traceback (most recent call last):
    ...
    votestream.serve.engine.messages.BadRequest: A request may have at most 2 images and 100 bytes, got 1 and 101.
    """

    def __init__(self, what: str, most: int, most_bytes: int) -> None:
        self.what, self.most, self.most_bytes = what, most, most_bytes
        self.inside = self.bytes_inside = self.refused = 0
        self._lock = threading.Lock()

    def enter(self, n: int, size: int) -> None:
        if n > self.most or size > self.most_bytes:
            raise BadRequest(
                f"A request may have at most {self.most:,} {self.what} and {self.most_bytes:,} bytes, "
                f"got {n:,} and {size:,}."
            )
        with self._lock:
            if self.inside + n > self.most or self.bytes_inside + size > self.most_bytes:
                self.refused += 1
                raise TooBusy(f"Too many {self.what} are waiting just now: try again in a second.")
            self.inside += n
            self.bytes_inside += size

    def leave(self, n: int, size: int) -> None:
        with self._lock:
            self.inside -= n
            self.bytes_inside -= size
