"""The routes of a model as a whole: its description, its file, its exports, and corrections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from votestream.serve.engine.messages import BadRequest, Correction
from votestream.serve.web.dependencies import AnyEngine, IdempotencyKey, Served, WritableEngine, limits_of, service_of
from votestream.serve.web.request_body import as_label, json_object

CHUNK_BYTES = 1 << 20  # bytes of a model file that are sent at once

router = APIRouter()
listing = APIRouter()


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """The documentation of a JSON body."""
    return {"requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": properties}}}}}


@listing.get("/models", summary="The models that are served")
async def models(request: Request) -> JSONResponse:
    found = []
    for name, engine in service_of(request).engines.items():
        about = await asyncio.to_thread(engine.describe)
        known = {"images": about["images"], "classes": len(about["classes"]), "lesson": about["lesson"]}
        found.append({"name": name, "state": engine.state, **known})
    return JSONResponse({"models": found})


@router.get("/model", summary="A description of the model")
async def model(engine: AnyEngine) -> JSONResponse:
    """Classes with their counts, tasks, settings, track record, and the newest changes."""
    return JSONResponse(await asyncio.to_thread(engine.describe))


@router.get("/model/file", summary="The model file")
async def model_file(request: Request, engine: AnyEngine) -> Response:
    """A safetensors file that `votestream.load` and all commands read. Its ETag changes when the model does."""
    async with service_of(request).file_lock:  # clients that wait here all get the newest state, and the same bytes
        version, data = await asyncio.to_thread(engine.model_file)
    headers = {"etag": version.tag, "cache-control": "no-cache"}
    known = request.headers.get("if-none-match", "").split(",")
    if headers["etag"] in [one.strip().removeprefix("W/") for one in known]:
        return Response(status_code=304, headers=headers)
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(engine.name)}"
    headers["content-length"] = str(len(data))
    return StreamingResponse(_chunks(data), headers=headers, media_type="application/octet-stream")


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    """In chunks, since a whole file would be copied for every slow client."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


@router.post("/undo", summary="Undo a change", openapi_extra=_object(lesson={"type": ["integer", "null"]}))
async def undo(request: Request, engine: WritableEngine, key: IdempotencyKey = None) -> JSONResponse:
    """The change with this number. Without a number, the newest change that is not undone, of any kind."""
    body = await json_object(request, limits_of(request), ("lesson",))
    number = body.get("lesson")
    if not (number is None or (type(number) is int and 1 <= number < 1 << 63)):
        raise BadRequest("lesson must be the number of a lesson, or null for the newest.")
    return _changed(await asyncio.wrap_future(engine.undo(number, key)), "undone")


@router.post(
    "/classes/{label:path}/rename",
    summary="Rename a class, or merge it into another",
    openapi_extra=_object(to={"type": "string"}, merge={"type": "boolean"}),
)
async def rename(request: Request, engine: WritableEngine, label: str, key: IdempotencyKey = None) -> JSONResponse:
    """The name of another class is refused with 409, unless `merge` is true."""
    body = await json_object(request, limits_of(request), ("to", "merge"))
    merge = body.get("merge", False)
    if not isinstance(merge, bool):
        raise BadRequest("merge must be true or false.")
    new = as_label(body.get("to"))
    return _changed(await asyncio.wrap_future(engine.rename(label, new, merge, key)), "renamed")


@router.delete("/classes/{label:path}", summary="Forget a class")
async def forget(engine: WritableEngine, label: str, key: IdempotencyKey = None) -> JSONResponse:
    return _changed(await asyncio.wrap_future(engine.forget(label, key)), "forgotten")


def _changed(change: Correction, word: str) -> JSONResponse:
    return JSONResponse({"lesson": change.lesson, word: change.about})


@router.get("/model/onnx", summary="The model as an ONNX file")
async def onnx(request: Request, engine: AnyEngine) -> Response:
    """What `votestream export` writes: docs/export.md explains how to use it."""
    return await _file(request, engine, "onnx", "application/octet-stream")


@router.get("/model/page", summary="The model as one HTML page that works offline")
async def page(request: Request, engine: AnyEngine) -> Response:
    """What `votestream export --page` writes. The first time, the server fetches ONNX Runtime Web from npm."""
    return await _file(request, engine, "html", "text/html; charset=utf-8")


async def _file(request: Request, engine: Served, kind: str, media_type: str) -> Response:
    async with service_of(request).file_lock:  # one at a time, since it takes much memory
        data = await asyncio.to_thread(engine.exported, kind)
    name = quote(f"{engine.name.removesuffix('.safetensors')}.{kind}")
    return Response(
        data, headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"}, media_type=media_type
    )
