"""The routes of the model as it runs elsewhere: as ONNX, and as one page that works offline."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from votestream.serve.web.service import Served, TheEngine, the_service

router = APIRouter()


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
