"""The image of a Label Studio task: sent along, or fetched from the one Label Studio that the options name."""

from __future__ import annotations

import base64
import binascii
import re
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit

from votestream.serve.messages import BadRequest
from votestream.serve.web.options import LabelStudio

SECONDS = 10.0
FOLDERS = ("/data/", "/storage-data/", "/tasks/")  # where Label Studio serves the files of tasks
BASE64 = re.compile(r"[A-Za-z0-9+/\s]{64,}={0,2}\s*")


def check_studio(url: str) -> str:
    """The address of a Label Studio, or ValueError.

    >>> check_studio("http://localhost:8081/")
    'http://localhost:8081'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"the address of Label Studio must be such as http://localhost:8081, got {url!r}")
    return url.rstrip("/")


def image_of(value: object, where: LabelStudio | None, most: int) -> bytes:
    """The bytes of an image that a task names. May fetch it: call it in a thread."""
    if not isinstance(value, str) or not value:
        raise BadRequest("The task has no image.")
    if value.startswith("data:"):
        head, comma, data = value.partition(",")
        if not comma or not head.endswith(";base64"):
            raise BadRequest("An image in a data: address must be written in base64.")
        return _decoded(data)
    if BASE64.fullmatch(value):
        return _decoded(value)
    return _fetched(value, where, most)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(re.sub(r"\s", "", data), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("The image is no base64.") from None


def address_of(value: str, where: LabelStudio | None) -> str:
    """The address to fetch an image from, which is always one of that Label Studio's own."""
    if where is None:
        raise BadRequest(
            "Images are not fetched from anywhere: start the service with --label-studio-url ADDRESS, and only that "
            "Label Studio is asked, or send images as data: addresses."
        )
    base = urlsplit(where.url)
    try:
        named = urlsplit(value)
        same = (named.scheme, named.netloc.lower()) in (("", ""), (base.scheme, base.netloc.lower()))
    except ValueError:
        same = False
    if not same:
        raise BadRequest(f"Only images of {where.url} are fetched.")
    path = named.path if not named.netloc else named.path.removeprefix(base.path)
    plain = unquote(path).replace("\\", "/")
    if not plain.startswith(FOLDERS) or ".." in plain.split("/") or not (value.isascii() and value.isprintable()):
        raise BadRequest("Only uploaded and stored files of Label Studio's tasks are fetched.")
    return f"{where.url}{path}" + (f"?{named.query}" if named.query else "")


def _fetched(value: str, where: LabelStudio | None, most: int) -> bytes:
    address = address_of(value, where)
    assert where is not None
    headers = {} if where.token is None else {"Authorization": f"Token {where.token}"}
    try:
        with _OPENER.open(urllib.request.Request(address, headers=headers), timeout=SECONDS) as answer:
            data: bytes = answer.read(most + 1)
    except (urllib.error.URLError, OSError, ValueError) as problem:
        reason = getattr(problem, "code", None) or getattr(problem, "reason", None) or type(problem).__name__
        raise BadRequest(f"Label Studio did not send the image: {reason}.") from None
    if len(data) > most:
        raise BadRequest(f"The image has more than {most >> 20} MiB.")
    return data


class _StayThere(urllib.request.HTTPRedirectHandler):
    """A redirect may lead anywhere: none is followed."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


_OPENER = urllib.request.OpenerDirector()
for _handler in (
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
    _StayThere,
):
    _OPENER.add_handler(_handler())
