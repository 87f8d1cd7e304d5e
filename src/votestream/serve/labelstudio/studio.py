"""The HTTP client of Label Studio. It limits the time and the size of every answer."""

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

CHUNK_BYTES = 1 << 16
CONNECT_SECONDS = 10.0
SECONDS = 60.0  # for an answer of its API
MAX_JSON_BYTES = 64 << 20  # in an answer of its API
PERSONAL = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+")  # a JSON web token
ACCESS_SECONDS = 120.0  # of the five minutes that an access token lasts by default


class StudioError(ServeError):
    """Label Studio does not answer as expected."""

    status = 502


class StudioStatus(StudioError):
    """Label Studio answers with a status other than 200."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Label Studio answers with status {code}.")
        self.code = code


def check_studio(url: str) -> str:
    """Check the address of a Label Studio. Raises ValueError if it is wrong.

    >>> check_studio("http://localhost:8081/")
    'http://localhost:8081'
    """
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:  # the port is not a number
        named = False
    if not named or parts.query or parts.fragment or "@" in parts.netloc or not re.fullmatch(r"[\x21-\x7e]+", url):
        raise ValueError(f"the address of Label Studio must be such as http://localhost:8081, got {url!r}")
    return url.rstrip("/")


class Studio:
    """The Label Studio at an address. Redirects are not followed, since they may lead anywhere.

    The token is a legacy token, which is sent as it is, or a personal access token, which Label Studio exchanges for
    access tokens that last some minutes.
    """

    def __init__(self, options: LabelStudio) -> None:
        self.url, self._token = options.url, options.token
        self._base = urlsplit(options.url)
        self._lock = threading.Lock()
        self._access, self._access_ends = "", 0.0

    def get(self, target: str, count: Callable[[int], None], deadline: float) -> bytes:
        """The body of `target`, a path with its query.

        `count` is called with the size of each chunk before it is kept, and may raise. The request ends at `deadline`,
        a time of `time.monotonic`.
        """
        return self._request("GET", target, None, self._authorization(deadline), count, deadline)

    def read(self, target: str) -> Any:
        """The JSON answer of `target` in Label Studio's API."""
        return _parsed(self.get(target, _ByteLimit(MAX_JSON_BYTES), time.monotonic() + SECONDS))

    def _authorization(self, deadline: float) -> str | None:
        if self._token is None or not PERSONAL.fullmatch(self._token):
            return None if self._token is None else f"Token {self._token}"
        with self._lock:
            if time.monotonic() >= self._access_ends:
                body = json.dumps({"refresh": self._token}).encode()
                reply = _parsed(
                    self._request("POST", "/api/token/refresh/", body, None, _ByteLimit(MAX_JSON_BYTES), deadline)
                )
                access = reply.get("access") if isinstance(reply, dict) else None
                if not isinstance(access, str) or not PERSONAL.fullmatch(access):
                    raise StudioError("Label Studio does not accept this personal access token.")
                self._access, self._access_ends = access, time.monotonic() + ACCESS_SECONDS
            return f"Bearer {self._access}"

    def _request(
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
                chunks = []
                while chunk := answer.read1(CHUNK_BYTES):
                    count(len(chunk))
                    chunks.append(chunk)
                if answer.length:
                    raise http.client.IncompleteRead(b"", answer.length)
                return b"".join(chunks)
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


class _ByteLimit:
    """Counts bytes, and raises StudioError beyond the limit."""

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
        raise StudioError("Label Studio does not send JSON.") from None
