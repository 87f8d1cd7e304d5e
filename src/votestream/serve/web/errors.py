"""Errors of HTTP requests, and the answer that middleware sends for them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.types import Send

from votestream.serve.engine.messages import ServeError


class TooLarge(ServeError):
    """The body is too large, or it has too many files."""

    status = 413


class TooSlow(ServeError):
    """The body arrives too slowly."""

    status = 408


class UnsupportedType(ServeError):
    """The route does not accept this content type."""

    status = 415


class MalformedRequest(ServeError):
    """The request cannot be read: wrong JSON, a wrong form, or contradictory headers."""

    status = 400


async def refuse(send: Send, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
    """Send an error as a JSON answer."""
    body = json.dumps({"error": sentence}).encode()
    sent = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    start = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
