"""Opening an address over HTTP for as long as its server keeps sending: one that only drips is let go."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from typing import Any

PATIENCE = 60.0  # seconds: how long we wait for a byte, and how long a server has for each LEAST bytes
LEAST = 64 * 1024  # about 1 kB a second, a fifth of what a telephone modem brought


def open_url(request: urllib.request.Request) -> http.client.HTTPResponse:
    """The answer to a request; redirections are followed, from HTTP to HTTP only."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        _Redirected,
        _Plain,
        _Secure,
    ):
        opener.add_handler(handler())
    return opener.open(request, timeout=PATIENCE)


class _Paced(io.RawIOBase):
    """What comes from a socket, headers included, as long as enough of it comes."""

    def __init__(self, source: Any) -> None:
        self.source, self.since, self.came = source, time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self.source.readinto(buffer)
        self.came += count or 0
        now = time.monotonic()
        if now - self.since >= PATIENCE:
            if count and self.came < LEAST:
                raise TimeoutError(f"the server is too slow: {self.came:,} bytes in {now - self.since:.0f} seconds")
            self.since, self.came = now, 0
        return count

    def close(self) -> None:
        self.source.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Paced(self.fp.detach()))


class _PlainConnection(http.client.HTTPConnection):
    response_class = _Response


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _Response


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PlainConnection, req)


class _Secure(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _Redirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, *about: Any) -> urllib.request.Request | None:
        fp.close()  # or its body, however long, would be read before we go where it points
        return super().redirect_request(req, fp, *about)
