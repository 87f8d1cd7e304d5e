"""An HTTP response with a deadline, for servers that send slowly or not at all."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any


class TimedResponse(http.client.HTTPResponse):
    """Reading raises TimeoutError after `deadline` (of `time.monotonic`), even if bytes still arrive one by one.

    At first, the deadline for the status line and the headers is `seconds` from now.
    """

    def __init__(self, sock: socket.socket, *args: Any, seconds: float, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.deadline = time.monotonic() + seconds
        self.fp = io.BufferedReader(_TimedStream(self, sock, self.fp.detach()))


class _TimedStream(io.RawIOBase):
    """The bytes of a socket until the deadline of the response."""

    def __init__(self, answer: TimedResponse, sock: socket.socket, stream: io.RawIOBase) -> None:
        self._answer, self._socket, self._stream = answer, sock, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._answer.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server answers too slowly")
        self._socket.settimeout(left)
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()
