"""How much is let in: requests at once, bytes of a body and of all bodies, and how long a body may take."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from votestream.serve.engine.messages import TooBusy
from votestream.serve.web.errors import TooLarge, TooSlow, refuse
from votestream.serve.web.options import Limits

BUSY = "The service is busy with other requests. Try again in a second."
SLOW = "The body of this request came too slowly."
# What a supervisor asks is answered however much is under way: a busy service is not a dead one.
HEALTH = ("/healthz", "/readyz")


class Limiter:
    """ASGI middleware that refuses what is too much; while a body is read, by the errors of `serve.messages`.

    Where the limits are reached, the body that arrives slowest gives way to a new request, so that a few slow clients
    cannot keep all others out.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.requests = self.held = 0
        self._arriving = set[_Body]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"] == "GET" and _is_free(scope["path"])):
            await self.app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            await refuse(send, 400, "The header Content-Length must be a number.")
            return
        announced = int(length)
        if announced > self.limits.body_bytes:
            await refuse(send, 413, _too_large(self.limits))
            return
        if not self.make_room(1, announced):
            await refuse(send, 429, BUSY, {"retry-after": "1"})
            return
        body = _Body(self, receive, announced)
        self._arriving.add(body)
        try:
            await self.app(scope, body.receive, send)
        finally:
            self.leave(body)

    def make_room(self, requests: int, size: int, of: _Body | None = None) -> bool:
        """Whether so many more requests and bytes fit in; slow bodies make way for them, but for that one."""
        while self.requests + requests > self.limits.requests or self.held + size > self.limits.held_bytes:
            now = asyncio.get_running_loop().time()
            slow = [body for body in self._arriving - {of} if now - body.begun >= self.limits.grace_seconds]
            if not slow:
                return False
            slowest = min(slow, key=lambda body: body.taken / (now - body.begun))
            self.leave(slowest)
            slowest.give_up()
        return True

    def arrived(self, body: _Body) -> None:
        self._arriving.discard(body)

    def leave(self, body: _Body) -> None:
        self._arriving.discard(body)
        self.requests -= body.counted
        self.held -= body.held
        body.counted = body.held = 0


class _Body:
    """The body of one request, counted while it arrives."""

    def __init__(self, limiter: Limiter, receive: Receive, announced: int) -> None:
        self.limiter, self.limits, self._receive = limiter, limiter.limits, receive
        self.counted, self.held = 1, announced  # a body without a length is counted while it arrives
        limiter.requests += 1
        limiter.held += announced
        self.taken, self.begun, self.over, self._given_up = 0, asyncio.get_running_loop().time(), False, False
        self._deadline = self.begun + self.limits.body_seconds
        self._waiting: asyncio.Timeout | None = None

    def give_up(self) -> None:
        self._given_up = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def receive(self) -> Message:
        if self.over:
            return await self._receive()
        message = await self._received()
        size = len(message.get("body", b""))
        if not message.get("more_body", False):
            self.over = True
            self.limiter.arrived(self)
        self.taken += size
        # It may be late by `body_seconds` at any moment: what came fast at first does not pay for a standstill later.
        late = asyncio.get_running_loop().time() + self.limits.body_seconds
        self._deadline = min(self._deadline + size / self.limits.slowest_rate, late)
        if self.taken > self.limits.body_bytes:
            raise TooLarge(_too_large(self.limits))
        if (more := self.taken - self.held) > 0:
            if not self.limiter.make_room(0, more, of=self):
                raise TooBusy(BUSY)
            self.limiter.held += more
            self.held = self.taken
        return message

    async def _received(self) -> Message:
        if self._given_up:
            raise TooSlow(SLOW)
        try:
            async with asyncio.timeout_at(self._deadline) as self._waiting:
                return await self._receive()
        except TimeoutError:
            raise TooSlow(SLOW) from None
        finally:
            self._waiting = None


def _is_free(path: str) -> bool:
    """Whether a GET of that path is not counted here: readers of events stay for hours, and their route counts them."""
    return path in HEALTH or path.endswith("/events")


def _too_large(limits: Limits) -> str:
    return f"A request may have {limits.body_bytes >> 20} MiB: send fewer images at once."
