"""Routes about a model itself: what it knows, its file, and corrections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from votestream.serve.engine.messages import BadRequest, Change
from votestream.serve.web import request_body as bodies
from votestream.serve.web.dependencies import Served, TheEngine, TheKey, TheTaught, done, the_service

PIECE = 1 << 20  # bytes of a model file that are handed to the network at once

router = APIRouter()
listing = APIRouter()


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """What the documentation says of a JSON body."""
    return {"requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": properties}}}}}


@listing.get("/models", summary="The models that are served")
async def models(request: Request) -> JSONResponse:
    found = []
    for name, engine in the_service(request).engines.items():
        about = await asyncio.to_thread(engine.describe)
        known = {"images": about["images"], "classes": len(about["classes"]), "lesson": about["lesson"]}
        found.append({"name": name, "state": engine.state, **known})
    return JSONResponse({"models": found})


@router.get("/model", summary="What the model knows")
async def model(engine: TheEngine) -> JSONResponse:
    """Classes with their counts, tasks, settings, track record, the newest lessons."""
    return JSONResponse(await asyncio.to_thread(engine.describe))


@router.get("/model/file", summary="The model file")
async def model_file(request: Request, engine: TheEngine) -> Response:
    """A safetensors file that `votestream.load` and all commands read. Its ETag changes when the model does."""
    async with the_service(request).packing:  # those who wait here get the newest state, all of them the same bytes
        version, data = await asyncio.to_thread(engine.model_file)
    headers = {"etag": version.tag, "cache-control": "no-cache"}
    known = request.headers.get("if-none-match", "").split(",")
    if headers["etag"] in [one.strip().removeprefix("W/") for one in known]:
        return Response(status_code=304, headers=headers)
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(engine.name)}"
    headers["content-length"] = str(len(data))
    return StreamingResponse(_pieces(data), headers=headers, media_type="application/octet-stream")


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    """A whole file would be copied for each reader who is slower than we are."""
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


@router.post("/undo", summary="Take a lesson back", openapi_extra=_object(lesson={"type": ["integer", "null"]}))
async def undo(request: Request, engine: TheTaught, key: TheKey = None) -> JSONResponse:
    """The lesson of that number, or without one the newest change that still stands, whatever its kind."""
    body = await bodies.json_object(request, the_service(request).options.limits, ("lesson",))
    number = body.get("lesson")
    if not (number is None or (type(number) is int and 1 <= number < 1 << 63)):
        raise BadRequest("lesson must be the number of a lesson, or null for the newest.")
    return _changed(await done(engine.undo(number, key)), "undone")


@router.post(
    "/classes/{label:path}/rename",
    summary="Rename a class, or merge it into another",
    openapi_extra=_object(to={"type": "string"}, merge={"type": "boolean"}),
)
async def rename(request: Request, engine: TheTaught, label: str, key: TheKey = None) -> JSONResponse:
    """A name that is taken is refused with 409, unless `merge` is true."""
    body = await bodies.json_object(request, the_service(request).options.limits, ("to", "merge"))
    merge = body.get("merge", False)
    if not isinstance(merge, bool):
        raise BadRequest("merge must be true or false.")
    new = bodies.as_label(body.get("to"))
    return _changed(await done(engine.rename(label, new, merge, key)), "renamed")


@router.delete("/classes/{label:path}", summary="Forget a class")
async def forget(engine: TheTaught, label: str, key: TheKey = None) -> JSONResponse:
    return _changed(await done(engine.forget(label, key)), "forgotten")


def _changed(change: Change, word: str) -> JSONResponse:
    return JSONResponse({"lesson": change.lesson, word: change.about})


@router.get("/model/onnx", summary="The model as an ONNX file")
async def onnx(request: Request, engine: TheEngine) -> Response:
    """What `votestream export` writes: docs/export.md tells how to use it."""
    return await _file(request, engine, "onnx", "application/octet-stream")


@router.get("/model/page", summary="The model as one HTML page that works offline")
async def page(request: Request, engine: TheEngine) -> Response:
    """What `votestream export --page` writes. The first time, the server fetches ONNX Runtime Web from npm."""
    return await _file(request, engine, "html", "text/html; charset=utf-8")


async def _file(request: Request, engine: Served, kind: str, media_type: str) -> Response:
    async with the_service(request).packing:  # it takes much memory: one at a time
        data = await asyncio.to_thread(engine.exported, kind)
    name = quote(f"{engine.name.removesuffix('.safetensors')}.{kind}")
    return Response(
        data, headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"}, media_type=media_type
    )
