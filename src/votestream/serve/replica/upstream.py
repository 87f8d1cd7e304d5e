"""The HTTP client of a follower: it reads the writer's model file and events.

The writer's answers are not trusted. Their size and time are limited, and certificates must be valid. Redirects are not
followed, so that the token goes only to the address that the user gave.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from votestream.common.printing import shown
from votestream.serve.engine.messages import ModelVersion
from votestream.serve.timed_response import TimedResponse

SECONDS = 10.0  # to connect, until the headers of an answer are here, and without a byte of a model file
MAX_SILENCE_SECONDS = 40.0  # without an event: the writer sends a comment every 15 seconds
CHUNK_BYTES = 1 << 20
MIN_BYTES_PER_SECOND = 16 << 10  # of a model file, which may be late by SECONDS at any moment
MAX_LINE_BYTES = 1 << 16  # of events
TEMPORARY_STATUSES = {429, 500, 502, 503, 504}  # worth another attempt


class Unreachable(Exception):
    """The writer does not answer, or cannot answer now. The message is a sentence."""


class Unusable(Exception):
    """The writer's answer cannot be followed. The message is a sentence for the user who started the follower."""


class SentModel(NamedTuple):
    """A state of the model while it is received."""

    version: ModelVersion
    chunks: Iterator[bytes]  # of the file; empty if nothing was learned yet


class WriterEvent(NamedTuple):
    """A line of the writer's event stream: the number of a change, or that events were lost, or neither."""

    lesson: int | None = None
    lost: bool = False


def check_writer(url: str) -> str:
    """Check the address of a service to follow. Raises ValueError if it is wrong.

    >>> check_writer("http://writer:8080/")
    'http://writer:8080'
    """
    parts = urlsplit(url)
    usual = parts.scheme in ("http", "https") and parts.hostname and url.isascii() and url.isprintable()
    if not usual or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"the address to follow must be such as http://writer:8080, got {shown(url)!r}")
    parts.port  # noqa: B018  raises ValueError if it is not a number
    return url.rstrip("/")


class Upstream:
    """The model of a service at `url`, or one of its models, as http://writer:8080/v1/models/shop."""

    def __init__(self, url: str, token: str | None = None, most_bytes: int = 4 << 30) -> None:
        self.url, self._token, self._most_bytes = check_writer(url), token, most_bytes
        parts = urlsplit(self.url)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        named = re.search("/v1(/|$)", parts.path)
        self._routes = parts.path if named else f"{parts.path}/v1"
        self.page = f"{parts.scheme}://{parts.netloc}{parts.path[: named.start()] if named else parts.path}"
        self._lock = threading.Lock()
        self._closed = False
        self._sockets: set[socket.socket] = set()

    def close(self) -> None:
        """End all requests, and start no more. Any thread may call this."""
        with self._lock:
            self._closed = True
            for open_now in self._sockets:
                with suppress(OSError):
                    open_now.shutdown(socket.SHUT_RDWR)

    # ---- the model file -------------------------------------------------------------------------

    @contextmanager
    def file(self, known: ModelVersion | None) -> Iterator[SentModel | None]:
        """The newest state. None if that is the `known` one."""
        headers = {} if known is None else {"If-None-Match": known.tag}
        with self._get("/model/file", headers, (200, 304, 409)) as answer:
            if answer.status == 304:
                yield None
                return
            try:
                version = ModelVersion.from_tag(answer.getheader("ETag", ""))
            except ValueError:
                raise Unusable(
                    f"{self.url} sends no model that can be followed: it may run an older version."
                ) from None
            empty = answer.status == 409
            if empty != (not version.digest):
                raise Unusable(f"{self.url} contradicts itself: status {answer.status} for {version.tag}.")
            yield SentModel(version, iter(()) if empty else self._chunks(answer))

    def _chunks(self, answer: TimedResponse) -> Iterator[bytes]:
        wanted = answer.length
        if wanted is None or wanted > self._most_bytes:
            most = f"{self._most_bytes:,} bytes"
            raise Unusable(f"{self.url} must say how long its model file is, at most {most}, got {wanted}.")
        received = 0
        answer.deadline = time.monotonic() + SECONDS
        while received < wanted:
            with _readable_errors(self.url):
                try:
                    chunk = answer.read1(min(CHUNK_BYTES, wanted - received))  # `read` would wait for all of it
                except TimeoutError:
                    raise Unreachable(
                        f"{self.url} sends its model file too slowly: less than {MIN_BYTES_PER_SECOND:,} bytes/s."
                    ) from None
            received += len(chunk)
            if not chunk:
                raise Unreachable(f"{self.url} broke off after {received:,} of {wanted:,} bytes.")
            answer.deadline = min(answer.deadline + len(chunk) / MIN_BYTES_PER_SECOND, time.monotonic() + SECONDS)
            yield chunk

    # ---- events ---------------------------------------------------------------------------------

    @contextmanager
    def events(self) -> Iterator[Iterator[WriterEvent]]:
        """The events from now on."""
        with self._get("/events", {}, (200,)) as answer:
            if answer.getheader("Content-Type", "").partition(";")[0] != "text/event-stream":
                raise Unusable(f"{self.url} sends no events.")
            yield self._read_events(answer)

    def _read_events(self, answer: TimedResponse) -> Iterator[WriterEvent]:
        while True:
            answer.deadline = time.monotonic() + MAX_SILENCE_SECONDS
            with _readable_errors(self.url):
                line = answer.readline(MAX_LINE_BYTES)
            if not line:
                raise Unreachable(f"{self.url} has ended the connection.")
            if not line.endswith(b"\n"):
                raise Unusable(f"{self.url} sends events that are too long.")
            yield WriterEvent(_number(line), line.startswith(b"event: gap"))

    # ---- requests -------------------------------------------------------------------------------

    @contextmanager
    def _get(self, path: str, headers: dict[str, str], accepted: tuple[int, ...]) -> Iterator[TimedResponse]:
        """The answer to a request. Raises Unreachable or Unusable if it has another status than these."""
        if self._token is not None:
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        connection = self._connection()
        plain: socket.socket | None = None
        answer: http.client.HTTPResponse | None = None
        try:
            with _readable_errors(self.url):
                connection.connect()
                plain = connection.sock
                with self._lock:
                    if self._closed:
                        raise OSError("the follower is stopping")
                    self._sockets.add(plain)
                connection.request("GET", f"{self._routes}{path}", headers=headers)
                answer = connection.getresponse()
                assert isinstance(answer, TimedResponse)
                if answer.status not in accepted:
                    raise self._refusal(answer)
            yield answer
        finally:
            with self._lock:
                self._sockets -= {plain}
            if answer is not None:
                answer.close()
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
        connection.response_class = partial(TimedResponse, seconds=SECONDS)  # type: ignore[assignment]
        return connection

    def _refusal(self, answer: http.client.HTTPResponse) -> Exception:
        status = answer.status
        if 300 <= status < 400:
            elsewhere = shown(answer.getheader("Location", "nowhere"))[:200]
            return Unusable(f"{self.url} redirects to {elsewhere}, and redirects are not followed: give that address.")
        if status == 401:
            said = "does not accept this token" if self._token else "needs a token"
            return Unusable(f"{self.url} {said}: give it in a file with --follow-token-file.")
        kind = Unreachable if status in TEMPORARY_STATUSES else Unusable
        return kind(f"{self.url} answers with status {status}{_reason(answer)}")


def _number(line: bytes) -> int | None:
    """The number of the change in a line of the event stream.

    >>> [_number(line) for line in (b'data: {"lesson": 12}', b'data: {"lost": 3}', b"data: [", b": here")]
    [12, None, None, None]
    """
    if not line.startswith(b"data:"):
        return None
    try:
        reply = json.loads(line.removeprefix(b"data:"))
        number = reply.get("lesson")
    except (AttributeError, RecursionError, ValueError):
        return None
    return number if type(number) is int and 0 <= number < 1 << 62 else None


def _reason(answer: http.client.HTTPResponse) -> str:
    """The sentence in an error of the service."""
    try:
        reply: Any = json.loads(answer.read(1 << 14))["error"]
    except (http.client.HTTPException, KeyError, OSError, RecursionError, TypeError, ValueError):
        return "."
    return f": {shown(reply)[:300]}"


@contextmanager
def _readable_errors(url: str) -> Iterator[None]:
    """Turn errors of the connection into Unreachable or Unusable."""
    try:
        yield
    except ssl.SSLCertVerificationError as problem:
        raise Unusable(f"The certificate of {url} is not valid here: {problem.verify_message}.") from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise Unreachable(f"{url} cannot be reached: {shown(reason)[:200].rstrip('.')}.") from None
