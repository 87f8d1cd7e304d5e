"""Counting and logging requests: method, route, status and milliseconds, and nothing else."""

from __future__ import annotations

import logging
import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from votestream.serve.web.errors import refuse
from votestream.serve.web.metrics import Counts

access_log = logging.getLogger("votestream.serve.access")
problem_log = logging.getLogger("votestream.serve")
PREFIX = re.compile("/v1(/models/[^/]+(/label-studio(?=/))?(?=/))?")
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")


class RequestLog:
    """The outermost ASGI middleware: counts requests, and logs them if the access log is on."""

    def __init__(self, app: ASGIApp, counts: Counts) -> None:
        self.app, self.counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - begun
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = route_of(scope)
            self.counts.add(method, route, status, seconds)
            access_log.info("%s %s %d %.1f ms", method, route, status, 1000 * seconds)


class CatchErrors:
    """The innermost ASGI middleware: logs unexpected errors, and answers without details."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception:
            if scope["type"] != "http":
                raise
            problem_log.exception("%s %s failed", scope["method"], route_of(scope))
            if started:
                raise
            await refuse(send, 500, "Something went wrong inside the service; its log says what.")


def route_of(scope: Scope) -> str:
    """The template of the route. Paths may contain labels, while the number of templates is fixed."""
    route = str(getattr(scope.get("route"), "path", "none")).replace(":path", "")
    # Newer versions of FastAPI leave out the prefix that the router was included with.
    prefix = PREFIX.match(scope["path"])
    if route == "none" or prefix is None or route.startswith("/v1"):
        return route
    return re.sub("(?<=models/)[^/]+", "{name}", prefix[0]) + route
