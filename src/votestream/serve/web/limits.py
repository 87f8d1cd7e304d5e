"""How much is let in: requests at once, bytes of a body and of all bodies, and how long a body may take."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from votestream.serve.messages import TooBusy
from votestream.serve.web.options import Limits
from votestream.serve.web.refusals import TooLarge, TooSlow, refuse

BUSY = "The service is busy with other requests. Try again in a second."


class Limiter:
    """ASGI middleware that refuses what is too much; while a body is read, by the errors of `serve.messages`."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.requests = self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A reader of events stays for hours: these are counted by their route.
        if scope["type"] != "http" or (scope["method"] == "GET" and scope["path"].endswith("/events")):
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
        if self.requests >= self.limits.requests or self.held + announced > self.limits.held_bytes:
            await refuse(send, 429, BUSY, {"retry-after": "1"})
            return
        body = _Body(self, receive, announced)
        self.requests += 1
        try:
            await self.app(scope, body.receive, send)
        finally:
            self.requests -= 1
            self.held -= body.held


class _Body:
    """The body of one request, counted while it arrives."""

    def __init__(self, limiter: Limiter, receive: Receive, announced: int) -> None:
        self.limiter, self.limits, self._receive = limiter, limiter.limits, receive
        self.held = announced  # a body without a length is counted while it arrives
        limiter.held += announced
        self.taken, self.begun, self.over = 0, asyncio.get_running_loop().time(), False

    async def receive(self) -> Message:
        if self.over:
            return await self._receive()
        allowed = self.begun + self.limits.body_seconds + self.taken / self.limits.slowest_rate
        try:
            message = await asyncio.wait_for(self._receive(), allowed - asyncio.get_running_loop().time())
        except asyncio.TimeoutError:
            raise TooSlow("The body of this request came too slowly.") from None
        self.over = not message.get("more_body", False)
        self.taken += len(message.get("body", b""))
        if self.taken > self.limits.body_bytes:
            raise TooLarge(_too_large(self.limits))
        if self.taken > self.held:
            if self.limiter.held + self.taken - self.held > self.limits.held_bytes:
                raise TooBusy(BUSY)
            self.limiter.held += self.taken - self.held
            self.held = self.taken
        return message


def _too_large(limits: Limits) -> str:
    return f"A request may have {limits.body_bytes >> 20} MiB: send fewer images at once."
