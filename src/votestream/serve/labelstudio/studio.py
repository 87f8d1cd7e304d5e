"""Reading from the one Label Studio that the options name, with its token, within a time and a number of bytes."""

from __future__ import annotations

import http.client
import re
import ssl
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from votestream.serve.messages import ServeError
from votestream.serve.timed_response import TimedResponse
from votestream.serve.web.options import LabelStudio

PIECE = 1 << 16
CONNECT_SECONDS = 10.0


class StudioError(ServeError):
    """Label Studio does not send what it was asked for."""

    status = 502


class StudioStatus(StudioError):
    """Label Studio answers with a status other than 200."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Label Studio answers with status {code}.")
        self.code = code


def check_studio(url: str) -> str:
    """The address of a Label Studio, or ValueError.

    >>> check_studio("http://localhost:8081/")
    'http://localhost:8081'
    """
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:  # a port that is none
        named = False
    if not named or parts.query or parts.fragment or "@" in parts.netloc or not re.fullmatch(r"[\x21-\x7e]+", url):
        raise ValueError(f"the address of Label Studio must be such as http://localhost:8081, got {url!r}")
    return url.rstrip("/")


def fetch(studio: LabelStudio, target: str, count: Callable[[int], None], deadline: float) -> bytes:
    """The body of `target`, a path with its query. Redirects, which may lead anywhere, are not followed.

    `count` is called with the number of bytes of each piece before it is kept, and may raise. Nothing is waited for
    after `deadline`, of `time.monotonic`.
    """
    base = urlsplit(studio.url)
    headers = {"Accept-Encoding": "identity", "Connection": "close"}
    if studio.token is not None:
        headers["Authorization"] = f"Token {studio.token}"
    seconds = deadline - time.monotonic()
    connection: http.client.HTTPConnection | None = None
    try:
        if seconds <= 0:
            raise TimeoutError
        connection = _connection(base.scheme, base.hostname or "", base.port, min(seconds, CONNECT_SECONDS))
        connection.connect()
        connection.response_class = partial(  # type: ignore[assignment]
            TimedResponse, seconds=deadline - time.monotonic()
        )
        connection.request("GET", f"{base.path}{target}", headers=headers)
        with connection.getresponse() as answer:
            if answer.status != 200:
                raise StudioStatus(answer.status)
            pieces = []
            while piece := answer.read1(PIECE):
                count(len(piece))
                pieces.append(piece)
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            return b"".join(pieces)
    except TimeoutError:
        raise StudioError("Label Studio answers too slowly.") from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        raise StudioError(f"Label Studio cannot be read: {reason}.") from None
    finally:
        if connection is not None:
            connection.close()


def _connection(scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=seconds)
