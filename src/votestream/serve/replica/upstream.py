"""The service that a follower keeps a copy of: its model file, and its events, over HTTP.

Whatever it sends is untrusted: answers are bounded in size and time, redirects are not followed, so that the token goes
to the address that was named and nowhere else, and a certificate must be valid.
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
from votestream.serve.engine.messages import Version
from votestream.serve.timed_response import TimedResponse

SECONDS = 10.0  # to connect, to send the headers of an answer, and without a byte of a model file
SILENCE = 40.0  # without an event: the writer sends a sign of life every 15 seconds
PIECE = 1 << 20
SLOWEST = 16 << 10  # bytes a second of a model file, which may be late by SECONDS at any moment
LONGEST_LINE = 1 << 16  # of events
REFUSALS = {429, 500, 502, 503, 504}  # which pass


class Unreachable(Exception):
    """The writer does not answer, or cannot answer now: a sentence."""


class Unusable(Exception):
    """The writer answers, and not with what can be followed: a sentence for whoever started the follower."""


class Sent(NamedTuple):
    """A state of the model that is on its way."""

    version: Version
    pieces: Iterator[bytes]  # of the file; none where nothing was learned


class Heard(NamedTuple):
    """A sign of life of the writer: the number of a change, or that some were lost, or nothing but the sign."""

    lesson: int | None = None
    lost: bool = False


def check_writer(url: str) -> str:
    """The address of a service to follow, or ValueError.

    >>> check_writer("http://writer:8080/")
    'http://writer:8080'
    """
    parts = urlsplit(url)
    usual = parts.scheme in ("http", "https") and parts.hostname and url.isascii() and url.isprintable()
    if not usual or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"the address to follow must be such as http://writer:8080, got {shown(url)!r}")
    parts.port  # noqa: B018  a ValueError where it is none
    return url.rstrip("/")


class Upstream:
    """The model at `url`, the address of a service; or of one of its models, as http://writer:8080/v1/models/shop."""

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
        """End what is under way, and let nothing begin; from any thread."""
        with self._lock:
            self._closed = True
            for open_now in self._sockets:
                with suppress(OSError):
                    open_now.shutdown(socket.SHUT_RDWR)

    # ---- the model file -------------------------------------------------------------------------

    @contextmanager
    def file(self, known: Version | None) -> Iterator[Sent | None]:
        """The newest state; None where that is the `known` one."""
        headers = {} if known is None else {"If-None-Match": known.tag}
        with self._asked("/model/file", headers, (200, 304, 409)) as answer:
            if answer.status == 304:
                yield None
                return
            try:
                version = Version.from_tag(answer.getheader("ETag", ""))
            except ValueError:
                raise Unusable(f"{self.url} sends no model that can be followed: it may be an older version.") from None
            empty = answer.status == 409
            if empty != (not version.digest):
                raise Unusable(f"{self.url} contradicts itself: status {answer.status} for {version.tag}.")
            yield Sent(version, iter(()) if empty else self._pieces(answer))

    def _pieces(self, answer: TimedResponse) -> Iterator[bytes]:
        wanted = answer.length
        if wanted is None or wanted > self._most_bytes:
            most = f"{self._most_bytes:,} bytes"
            raise Unusable(f"{self.url} must say how long its model file is, at most {most}, got {wanted}.")
        came = 0
        answer.deadline = time.monotonic() + SECONDS
        while came < wanted:
            with _explained(self.url):
                try:
                    piece = answer.read1(min(PIECE, wanted - came))  # `read` would wait for all of it
                except TimeoutError:
                    raise Unreachable(
                        f"{self.url} sends its model file too slowly: less than {SLOWEST:,} bytes a second."
                    ) from None
            came += len(piece)
            if not piece:
                raise Unreachable(f"{self.url} broke off after {came:,} of {wanted:,} bytes.")
            answer.deadline = min(answer.deadline + len(piece) / SLOWEST, time.monotonic() + SECONDS)
            yield piece

    # ---- events ---------------------------------------------------------------------------------

    @contextmanager
    def events(self) -> Iterator[Iterator[Heard]]:
        """What is told from now on."""
        with self._asked("/events", {}, (200,)) as answer:
            if answer.getheader("Content-Type", "").partition(";")[0] != "text/event-stream":
                raise Unusable(f"{self.url} sends no events.")
            yield self._heard(answer)

    def _heard(self, answer: TimedResponse) -> Iterator[Heard]:
        while True:
            answer.deadline = time.monotonic() + SILENCE
            with _explained(self.url):
                line = answer.readline(LONGEST_LINE)
            if not line:
                raise Unreachable(f"{self.url} has ended the connection.")
            if not line.endswith(b"\n"):
                raise Unusable(f"{self.url} sends events that are too long.")
            yield Heard(_number(line), line.startswith(b"event: gap"))

    # ---- requests -------------------------------------------------------------------------------

    @contextmanager
    def _asked(self, path: str, headers: dict[str, str], taken: tuple[int, ...]) -> Iterator[TimedResponse]:
        """The answer to a request, where it has one of the statuses."""
        if self._token is not None:
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        connection = self._connection()
        plain: socket.socket | None = None
        answer: http.client.HTTPResponse | None = None
        try:
            with _explained(self.url):
                connection.connect()
                plain = connection.sock
                with self._lock:
                    if self._closed:
                        raise OSError("the follower is stopping")
                    self._sockets.add(plain)
                connection.request("GET", f"{self._routes}{path}", headers=headers)
                answer = connection.getresponse()
                assert isinstance(answer, TimedResponse)
                if answer.status not in taken:
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
            return Unusable(f"{self.url} leads elsewhere ({elsewhere}), and redirects are not followed: name that.")
        if status == 401:
            said = "does not take this token" if self._token else "needs its token"
            return Unusable(f"{self.url} {said}: give it in a file with --follow-token-file.")
        kind = Unreachable if status in REFUSALS else Unusable
        return kind(f"{self.url} answers with status {status}{_reason(answer)}")


def _number(line: bytes) -> int | None:
    """The number of the change that a line of an event tells of.

    >>> [_number(line) for line in (b'data: {"lesson": 12}', b'data: {"lost": 3}', b"data: [", b": here")]
    [12, None, None, None]
    """
    if not line.startswith(b"data:"):
        return None
    try:
        told = json.loads(line.removeprefix(b"data:"))
        number = told.get("lesson")
    except (AttributeError, RecursionError, ValueError):
        return None
    return number if type(number) is int and 0 <= number < 1 << 62 else None


def _reason(answer: http.client.HTTPResponse) -> str:
    """What an error of the service says."""
    try:
        told: Any = json.loads(answer.read(1 << 14))["error"]
    except (http.client.HTTPException, KeyError, OSError, RecursionError, TypeError, ValueError):
        return "."
    return f": {shown(told)[:300]}"


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """What can go wrong between here and there, as sentences."""
    try:
        yield
    except ssl.SSLCertVerificationError as problem:
        raise Unusable(f"The certificate of {url} is not valid here: {problem.verify_message}.") from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise Unreachable(f"{url} cannot be reached: {shown(reason)[:200].rstrip('.')}.") from None
