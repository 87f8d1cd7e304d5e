"""The images of Label Studio's tasks: part of the request, or fetched from the Label Studio in the options."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from votestream.serve.engine.messages import BadRequest, ServeError, TooBusy
from votestream.serve.labelstudio.studio import Studio, StudioError, StudioStatus
from votestream.serve.web.options import Limits

T = TypeVar("T")
SECONDS = 20.0  # for all images of one request
FOLDERS = ("/data/", "/storage-data/", "/tasks/")  # where Label Studio serves the files of tasks
BASE64 = re.compile(r"[A-Za-z0-9+/\s]{64,}={0,2}\s*")
ADDRESS = re.compile(r"[\x21-\x7e]+")


class TaskImages:
    """Reads images in threads of its own, so that a slow Label Studio delays only its own requests."""

    def __init__(self, studio: Studio | None, limits: Limits) -> None:
        self.studio, self.limits = studio, limits
        self._held = 0  # bytes fetched for all current requests
        self._lock = Lock()
        # An annotation must not wait for the many images of a prediction or of a project.
        threads = {"predict": 4, "annotate": 2, "sync": 2}
        self._pools = {kind: ThreadPoolExecutor(n, f"images to {kind}") for kind, n in threads.items()}

    @asynccontextmanager
    async def of(self, values: Sequence[object], kind: str) -> AsyncIterator[list[bytes | BadRequest]]:
        """An image for each value, or the error. Their bytes count as held until the end of the block.

        Raises BadRequest if the images of this request are too large together, TooBusy if those of all requests are.
        """
        fetched = _FetchedBytes(self)
        deadline = time.monotonic() + SECONDS
        try:
            yield await asyncio.gather(*(self._image(value, fetched, deadline, kind) for value in values))
        finally:
            fetched.end()

    async def in_pool(self, kind: str, work: Callable[..., T], *about: Any) -> T:
        """Call a function that waits for Label Studio, in a thread for requests of this kind."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[kind], work, *about)

    async def _image(self, value: object, fetched: _FetchedBytes, deadline: float, kind: str) -> bytes | BadRequest:
        try:
            if (sent := await asyncio.to_thread(image_in, value)) is not None:
                return sent
            target = target_of(str(value), self.studio)
            return await self.in_pool(kind, self._fetch, target, fetched, deadline)
        except _TooLarge:
            raise
        except BadRequest as problem:
            return problem

    def _fetch(self, target: str, fetched: _FetchedBytes, deadline: float) -> bytes:
        assert self.studio is not None
        try:
            fetched.count(0)  # send no request once there is too much
            return self.studio.get(target, fetched.count, deadline)
        except StudioStatus as problem:
            raise BadRequest(f"Label Studio did not send the image: status {problem.code}.") from None
        except StudioError as problem:
            raise BadRequest(f"Label Studio did not send the image. {problem}") from None

    def hold(self, size: int) -> None:
        with self._lock:
            if self._held + size > self.limits.held_bytes:
                raise TooBusy("Too many images of Label Studio are being fetched: try again in a second.")
            self._held += size

    def release(self, size: int) -> None:
        with self._lock:
            self._held -= size


class _TooLarge(BadRequest):
    """The images of one request are too large together."""


class _FetchedBytes:
    """Counts the bytes that one request has fetched in several threads."""

    def __init__(self, images: TaskImages) -> None:
        self._images, self._bytes = images, 0
        self._refused: ServeError | None = None
        self._lock = Lock()

    def count(self, size: int) -> None:
        with self._lock:
            if self._refused is None:
                most = self._images.limits.body_bytes
                try:
                    if self._bytes + size > most:
                        raise _TooLarge(f"The images of this request have more than {most >> 20} MiB together.")
                    self._images.hold(size)
                    self._bytes += size
                    return
                except ServeError as problem:
                    self._refused = problem
            raise self._refused

    def end(self) -> None:
        """Release the bytes, and refuse those that still arrive."""
        with self._lock:
            self._refused = self._refused or BadRequest("The request has ended.")
            self._images.release(self._bytes)
            self._bytes = 0


def image_in(value: object) -> bytes | None:
    """The image of a task in base64. None if the task has an address instead."""
    if not isinstance(value, str) or not value:
        raise BadRequest("The task has no image.")
    if value.startswith("data:"):
        head, comma, data = value.partition(",")
        if not comma or not head.endswith(";base64"):
            raise BadRequest("An image in a data: address must be written in base64.")
        return _decoded(data)
    return _decoded(value) if BASE64.fullmatch(value) else None


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(re.sub(r"\s", "", data), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("The image is not base64.") from None


def target_of(value: str, studio: Studio | None) -> str:
    """The path and query of an image. Raises BadRequest if it is not a file of this Label Studio's tasks."""
    if studio is None:
        raise BadRequest(
            "The service does not fetch images: start it with --label-studio-url ADDRESS to fetch them from that Label "
            "Studio, or send images as data: addresses."
        )
    base = urlsplit(studio.url)
    try:
        named = urlsplit(value)
        same = (named.scheme, named.netloc.lower()) in (("", ""), (base.scheme, base.netloc.lower()))
    except ValueError:
        same = False
    if not same:
        raise BadRequest(f"The service fetches images only from {studio.url}.")
    path = named.path if not named.netloc else named.path.removeprefix(base.path)
    if not ADDRESS.fullmatch(value) or not path.startswith(FOLDERS) or _leaves_folder(path):
        raise BadRequest("The service fetches only uploaded and stored files of tasks.")
    return f"{path}?{named.query}" if named.query else path


def _leaves_folder(path: str) -> bool:
    """Whether a path may leave its folder, also if a server decodes it several times.

    >>> [_leaves_folder(path) for path in ("/data/a%20b", "/data/%2e%2e/api", "/data/%252e%252e/api", "/data/..%5capi")]
    [False, True, True, True]
    """
    while True:
        parts = path.replace("\\", "/").split("/")
        if ".." in parts or "\\" in path or not path.isprintable():
            return True
        plain = unquote(path)
        if plain == path:
            return False
        path = plain
