"""Answers that are sent without asking the application: a sentence, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.types import Send

from votestream.serve.engine.messages import ServeError


class TooLarge(ServeError):
    """A body, or a number of files, beyond the limit."""

    status = 413


class TooSlow(ServeError):
    """A body that does not arrive."""

    status = 408


class NotThisType(ServeError):
    """A body of a content type that the route does not take."""

    status = 415


class Malformed(ServeError):
    """A request that cannot be read: no JSON, no multipart, headers that contradict each other."""

    status = 400


async def refuse(send: Send, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
    """Send a whole answer that says no."""
    body = json.dumps({"error": sentence}).encode()
    sent = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    start = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
