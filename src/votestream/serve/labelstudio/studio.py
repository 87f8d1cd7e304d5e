"""Reading from the one Label Studio that the options name, with its token, within a time and a number of bytes."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from votestream.serve.engine.messages import ServeError
from votestream.serve.timed_response import TimedResponse
from votestream.serve.web.options import LabelStudio

PIECE = 1 << 16
CONNECT_SECONDS = 10.0
SECONDS = 60.0  # for an answer of the API
MOST_JSON = 64 << 20  # bytes of an answer of the API
PERSONAL = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+")  # a JSON web token
ACCESS_SECONDS = 120.0  # of the five minutes that one given for a personal access token lasts by default


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


class Studio:
    """Label Studio at an address. Redirects, which may lead anywhere, are not followed.

    The token is a legacy token, which is sent as it is, or a personal access token, for which Label Studio gives others
    that last some minutes.
    """

    def __init__(self, options: LabelStudio) -> None:
        self.url, self._token = options.url, options.token
        self._base = urlsplit(options.url)
        self._lock = threading.Lock()
        self._access, self._access_ends = "", 0.0

    def get(self, target: str, count: Callable[[int], None], deadline: float) -> bytes:
        """The body of `target`, a path with its query.

        `count` is called with the number of bytes of each piece before it is kept, and may raise. Nothing is waited for
        after `deadline`, of `time.monotonic`.
        """
        return self._asked("GET", target, None, self._authorization(deadline), count, deadline)

    def read(self, target: str) -> Any:
        """What `target` of Label Studio's API says in JSON."""
        return _parsed(self.get(target, _Counter(MOST_JSON), time.monotonic() + SECONDS))

    def _authorization(self, deadline: float) -> str | None:
        if self._token is None or not PERSONAL.fullmatch(self._token):
            return None if self._token is None else f"Token {self._token}"
        with self._lock:
            if time.monotonic() >= self._access_ends:
                body = json.dumps({"refresh": self._token}).encode()
                told = _parsed(self._asked("POST", "/api/token/refresh/", body, None, _Counter(MOST_JSON), deadline))
                access = told.get("access") if isinstance(told, dict) else None
                if not isinstance(access, str) or not PERSONAL.fullmatch(access):
                    raise StudioError("Label Studio gives no access for this personal access token.")
                self._access, self._access_ends = access, time.monotonic() + ACCESS_SECONDS
            return f"Bearer {self._access}"

    def _asked(
        self,
        method: str,
        target: str,
        body: bytes | None,
        authorization: str | None,
        count: Callable[[int], None],
        deadline: float,
    ) -> bytes:
        headers = {"Accept-Encoding": "identity", "Connection": "close"}
        if authorization is not None:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection: http.client.HTTPConnection | None = None
        try:
            if (seconds := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            connection = self._connection(min(seconds, CONNECT_SECONDS))
            connection.connect()
            connection.response_class = partial(  # type: ignore[assignment]
                TimedResponse, seconds=deadline - time.monotonic()
            )
            connection.request(method, f"{self._base.path}{target}", body, headers)
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

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._base.hostname or "", self._base.port
        if self._base.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=seconds)


class _Counter:
    """Counts bytes up to a bound."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise StudioError("Label Studio sends too much at once.")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (RecursionError, ValueError):
        raise StudioError("Label Studio sends no JSON.") from None
