"""The images of Label Studio's tasks: sent along, or fetched from the Label Studio that the options name."""

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
SECONDS = 20.0  # for all the images of one request
FOLDERS = ("/data/", "/storage-data/", "/tasks/")  # where Label Studio serves the files of tasks
BASE64 = re.compile(r"[A-Za-z0-9+/\s]{64,}={0,2}\s*")
ADDRESS = re.compile(r"[\x21-\x7e]+")


class TaskImages:
    """Reads images in a few threads of its own, so that a slow Label Studio delays nothing but its own requests."""

    def __init__(self, studio: Studio | None, limits: Limits) -> None:
        self.studio, self.limits = studio, limits
        self._held = 0  # bytes fetched for all requests under way
        self._lock = Lock()
        # An annotation does not wait behind the many images of a prediction or of a whole project.
        threads = {"predict": 4, "annotate": 2, "sync": 2}
        self._pools = {kind: ThreadPoolExecutor(n, f"images to {kind}") for kind, n in threads.items()}

    @asynccontextmanager
    async def of(self, values: Sequence[object], kind: str) -> AsyncIterator[list[bytes | BadRequest]]:
        """An image for each value, or what is wrong with it; their bytes count as held until the end of the block.

        Raises BadRequest where the images of this request are too large together, TooBusy where those of all are.
        """
        fetched = _Fetched(self)
        deadline = time.monotonic() + SECONDS
        try:
            yield await asyncio.gather(*(self._image(value, fetched, deadline, kind) for value in values))
        finally:
            fetched.end()

    async def in_pool(self, kind: str, work: Callable[..., T], *about: Any) -> T:
        """Do what waits for Label Studio in a thread for its kind."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[kind], work, *about)

    async def _image(self, value: object, fetched: _Fetched, deadline: float, kind: str) -> bytes | BadRequest:
        try:
            if (sent := await asyncio.to_thread(image_in, value)) is not None:
                return sent
            target = target_of(str(value), self.studio)
            return await self.in_pool(kind, self._fetch, target, fetched, deadline)
        except _TooLarge:
            raise
        except BadRequest as problem:
            return problem

    def _fetch(self, target: str, fetched: _Fetched, deadline: float) -> bytes:
        assert self.studio is not None
        try:
            fetched.count(0)  # nothing more is asked for once there is too much
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

    def let_go(self, size: int) -> None:
        with self._lock:
            self._held -= size


class _TooLarge(BadRequest):
    """The images of one request are too large together."""


class _Fetched:
    """The bytes that one request has fetched so far, in several threads."""

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
        """Let go of what was fetched; what is still being fetched is refused."""
        with self._lock:
            self._refused = self._refused or BadRequest("The request has ended.")
            self._images.let_go(self._bytes)
            self._bytes = 0


def image_in(value: object) -> bytes | None:
    """The image that a task brings along in base64; None where it names an address."""
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
        raise BadRequest("The image is no base64.") from None


def target_of(value: str, studio: Studio | None) -> str:
    """The path and query to fetch an image from; BadRequest where that is not a file of that Label Studio's tasks."""
    if studio is None:
        raise BadRequest(
            "Images are not fetched from anywhere: start the service with --label-studio-url ADDRESS, and only that "
            "Label Studio is asked, or send images as data: addresses."
        )
    base = urlsplit(studio.url)
    try:
        named = urlsplit(value)
        same = (named.scheme, named.netloc.lower()) in (("", ""), (base.scheme, base.netloc.lower()))
    except ValueError:
        same = False
    if not same:
        raise BadRequest(f"Only images of {studio.url} are fetched.")
    path = named.path if not named.netloc else named.path.removeprefix(base.path)
    if not ADDRESS.fullmatch(value) or not path.startswith(FOLDERS) or _leads_out(path):
        raise BadRequest("Only uploaded and stored files of Label Studio's tasks are fetched.")
    return f"{path}?{named.query}" if named.query else path


def _leads_out(path: str) -> bool:
    """Whether a path may leave its folder, however often a server decodes it.

    >>> [_leads_out(path) for path in ("/data/a%20b", "/data/%2e%2e/api", "/data/%252e%252e/api", "/data/..%5capi")]
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
