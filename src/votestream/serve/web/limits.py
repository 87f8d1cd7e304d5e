"""Limits on requests: how many at once, how large their bodies are, and how long a body may take."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from votestream.serve.engine.messages import TooBusy
from votestream.serve.web.errors import TooLarge, TooSlow, refuse
from votestream.serve.web.options import Limits

BUSY = "The service is busy with other requests. Try again in a second."
SLOW = "The body of this request came too slowly."
# Health checks are always answered: a busy service must not look like a dead one.
HEALTH = ("/healthz", "/readyz")


class Limiter:
    """ASGI middleware that refuses requests beyond the limits. While a body is read, it raises a ServeError instead.

    When the limits are reached, the body that arrives slowest is dropped for a new request, so that a few slow clients
    cannot block all others.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.requests = self.held = 0
        self.arriving = set[_Body]()

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
        self.arriving.add(body)
        try:
            await self.app(scope, body.receive, send)
        finally:
            self.leave(body)

    def make_room(self, requests: int, size: int, of: _Body | None = None) -> bool:
        """Whether this many more requests and bytes fit. Slow bodies, except `of`, are dropped for them."""
        while self.requests + requests > self.limits.requests or self.held + size > self.limits.held_bytes:
            now = asyncio.get_running_loop().time()
            slow = [body for body in self.arriving - {of} if now - body.begun >= self.limits.grace_seconds]
            if not slow:
                return False
            slowest = min(slow, key=lambda body: body.taken / (now - body.begun))
            self.leave(slowest)
            slowest.give_up()
        return True

    def leave(self, body: _Body) -> None:
        self.arriving.discard(body)
        self.requests -= body.counted
        self.held -= body.held
        body.counted = body.held = 0


class _Body:
    """The body of one request while it arrives."""

    def __init__(self, limiter: Limiter, receive: Receive, announced: int) -> None:
        self.limiter, self.limits, self._receive = limiter, limiter.limits, receive
        self.counted, self.held = 1, announced  # a body without an announced length is counted while it arrives
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
        if self._given_up:
            raise TooSlow(SLOW)
        try:
            async with asyncio.timeout_at(self._deadline) as self._waiting:
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(SLOW) from None
        finally:
            self._waiting = None
        size = len(message.get("body", b""))
        if not message.get("more_body", False):
            self.over = True
            self.limiter.arriving.discard(self)
        self.taken += size
        # The deadline is never more than `body_seconds` away: a fast start does not allow a long pause later.
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


def _is_free(path: str) -> bool:
    """Whether a GET of this path is not counted. Clients read events for hours, and the route itself counts them."""
    return path in HEALTH or path.endswith("/events")


def _too_large(limits: Limits) -> str:
    return f"A request may have {limits.body_bytes >> 20} MiB: send fewer images at once."
