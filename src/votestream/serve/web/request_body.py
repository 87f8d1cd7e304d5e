"""Reading the body of a request: images, rows of features, or JSON. Bodies are never written to the disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from votestream.common.printing import shown
from votestream.serve.engine.messages import BadRequest, Label, Upload
from votestream.serve.web.errors import MalformedRequest, TooLarge, UnsupportedType
from votestream.serve.web.options import Limits

MAX_INLINE_BYTES = 100_000  # of JSON; a larger body is parsed in a thread, so that other requests go on
MAX_NAME_LENGTH = 200
HEADER_BYTES = 8192  # of one part
# The second is what curl --data-binary sends.
FLOAT_TYPES = ("application/octet-stream", "application/x-www-form-urlencoded", "")


async def images_in(request: Request, limits: Limits) -> list[Upload]:
    """The images of a request: its body, or the files of a multipart form."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == b"multipart/form-data":
        found = await _parts(request, options.get(b"boundary", b""), limits)
    elif kind in (b"application/json",) or kind.startswith((b"text/", b"multipart/")):
        raise UnsupportedType("Send the image itself as the body, or a multipart form with files.")
    else:
        found = [Upload(await _read(request, limits.body_bytes))]
    if not found:
        raise BadRequest("There is no file in this form.")
    if not any(upload.data for upload in found):
        raise BadRequest("There is no image in this request: its body is empty.")
    return found


async def json_object(request: Request, limits: Limits, fields: Collection[str]) -> dict[str, Any]:
    """A JSON object with no other fields than these."""
    value = await any_json(request, limits)
    if not isinstance(value, dict):
        raise BadRequest("The body must be a JSON object.")
    if unknown := sorted(set(value) - set(fields)):
        raise BadRequest(f"There is no field {shown(unknown[0])[:MAX_NAME_LENGTH]!r}: use {' and '.join(fields)}.")
    return value


async def any_json(request: Request, limits: Limits) -> Any:
    """The value of a JSON body. An empty body counts as an empty object."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    if kind not in (b"application/json", b""):
        raise UnsupportedType("Send JSON, with the header Content-Type: application/json.")
    body = await _read(request, limits.json_bytes)
    return await _in_thread_if_large(len(body), lambda: _parsed(body))


async def rows_of_floats(request: Request, limits: Limits, width: int) -> NDArray[np.float32]:
    """Rows of float32 numbers, little-endian, one after another."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in FLOAT_TYPES:
        raise UnsupportedType("Send float32 numbers, with the header Content-Type: application/octet-stream, or JSON.")
    body = await _read(request, limits.body_bytes)
    if not body or len(body) % (4 * width):
        raise BadRequest(f"Rows of {width} float32 numbers have {4 * width} bytes each, got {len(body)} bytes in all.")
    return _finite(np.frombuffer(body, "<f4").reshape(-1, width).astype(np.float32, copy=False))


async def rows_of_json(value: object) -> NDArray[np.float32]:
    """Rows of numbers in JSON."""
    size = len(value) * len(value[0]) if isinstance(value, list) and value and isinstance(value[0], list) else 0
    return await _in_thread_if_large(8 * size, lambda: _rows(value))


def as_label(value: object) -> Label:
    """A label in JSON. The engine checks its characters."""
    if isinstance(value, str) or (type(value) is int and abs(value) < 1 << 63):
        return value
    raise BadRequest("A label must be a string or a whole number below 2**63.")


def _rows(value: object) -> NDArray[np.float32]:
    sentence = "rows must be a list of lists of numbers, all of one length."
    if not isinstance(value, list) or not value or not all(isinstance(row, list) and row for row in value):
        raise BadRequest(sentence)
    try:
        rows = np.array(value)
    except (ValueError, OverflowError, RecursionError):
        raise BadRequest(sentence) from None
    if rows.dtype.kind not in "iuf" or rows.ndim != 2:  # NumPy would convert text and booleans to numbers
        raise BadRequest(sentence)
    with np.errstate(over="ignore"):
        return _finite(rows.astype(np.float32))


def _finite(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(rows).all():
        raise BadRequest("rows must hold finite numbers that float32 can hold.")
    return rows


async def _in_thread_if_large(size: int, work: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(work) if size > MAX_INLINE_BYTES else work()


def _parsed(body: bytes) -> Any:
    if not body:
        return {}
    try:
        return json.loads(body, parse_constant=_no_number)
    except RecursionError:
        raise MalformedRequest("This JSON is nested too deeply.") from None
    except ValueError as problem:  # also for text that is not UTF-8, and for numbers with thousands of digits
        raise MalformedRequest(f"This is not JSON: {shown(problem)[:MAX_NAME_LENGTH]}.") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


async def _read(request: Request, most: int) -> bytes:
    chunks, taken = [], 0
    async for chunk in _chunks(request):
        taken += len(chunk)
        if taken > most:
            raise TooLarge(f"This body may have {most >> 20} MiB.")
        chunks.append(chunk)
    return b"".join(chunks)


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect:
        raise MalformedRequest("The connection was closed before the request was complete.") from None


async def _parts(request: Request, boundary: bytes, limits: Limits) -> list[Upload]:
    if not 1 <= len(boundary) <= 70:
        raise MalformedRequest("A multipart form must name its boundary in the header Content-Type.")
    form = _FormReader(limits)
    parser = MultipartParser(boundary, form.callbacks)  # type: ignore[arg-type]
    try:
        async for chunk in _chunks(request):
            parser.write(chunk)
        parser.finalize()
    except FormParserError as problem:
        raise MalformedRequest(f"This is not a multipart form: {shown(problem)[:MAX_NAME_LENGTH]}.") from None
    if not form.ended:
        raise MalformedRequest("This multipart form is not complete.")
    return form.files


class _FormReader:
    """Collects the files of a multipart form in memory. Other fields are ignored."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.files, self.ended = limits, list[Upload](), False
        self._parts = self._header_bytes = 0
        self._field, self._value = b"", b""
        self._name: str | None = None
        self._data = bytearray()
        self.callbacks = {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._name, self._data, self._header_bytes = None, bytearray(), 0
        self._parts += 1
        if self._parts > self.limits.files:
            raise TooLarge(f"A request may have {self.limits.files} files: send the others in further requests.")

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES:
            raise MalformedRequest("The headers of a part of this form are too long.")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            if b"filename" in options:
                name = options[b"filename"].decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
                self._name = shown(name)[:MAX_NAME_LENGTH] or f"file {self._parts}"
        self._field = self._value = b""

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._name is not None:
            self._data += memoryview(data)[start:end]

    def _part_end(self) -> None:
        if self._name is not None:
            self.files.append(Upload(bytes(self._data), self._name))

    def _end(self) -> None:
        self.ended = True
