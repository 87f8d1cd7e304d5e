"""The routes of the page, the documentation, the health checks and the metrics."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from importlib import resources
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from votestream.serve.engine.messages import NotFound
from votestream.serve.replica.follower import Follower
from votestream.serve.web import metrics
from votestream.serve.web.dependencies import service_of

TYPES = {".js": "text/javascript; charset=utf-8", ".webmanifest": "application/manifest+json"}
TYPES |= {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


class PageFile(NamedTuple):
    """A file that is sent to browsers."""

    data: bytes
    packed: bytes  # gzipped, as all browsers accept
    kind: str
    tag: str


def files_in(package: str, folder: str) -> dict[str, PageFile]:
    """The files of a folder, in memory, so that the path of a request never becomes a path on the disk."""
    found = {}
    for file in (resources.files(package) / folder).iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if file.is_file() and suffix != ".py":
            kind = TYPES.get(suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            data = file.read_bytes()
            tag = f'"{hashlib.blake2b(data, digest_size=8).hexdigest()}"'
            found[file.name] = PageFile(data, gzip.compress(data, mtime=0), kind, tag)
    return found


def page_routes() -> APIRouter:
    """The routes of the page (/ and /page/) and of the documentation (/docs)."""
    router = APIRouter(include_in_schema=False)
    page, docs = files_in("votestream.serve", "page"), files_in("votestream.serve.web", "docs")

    @router.get("/")
    async def index(request: Request) -> Response:
        return _sent(request, page, "index.html")

    @router.get("/page/{name}")
    async def of_page(request: Request, name: str) -> Response:
        return _sent(request, page, name)

    @router.get("/docs")
    async def documentation(request: Request) -> Response:
        return _sent(request, docs, "docs.html")

    @router.get("/docs/{name}")
    async def of_documentation(request: Request, name: str) -> Response:
        return _sent(request, docs, name)

    return router


def _sent(request: Request, files: dict[str, PageFile], name: str) -> Response:
    if name not in files:
        raise NotFound("There is no such page here.")
    file = files[name]
    # Browsers ask every time, and get the file if it has changed.
    headers = {"etag": file.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    encodings = request.headers.get("accept-encoding", "").replace(" ", "").split(",")
    if "gzip" not in encodings:
        return Response(file.data, headers=headers, media_type=file.kind)
    return Response(file.packed, headers={**headers, "content-encoding": "gzip"}, media_type=file.kind)


router = APIRouter()


@router.get("/healthz", summary="Whether the service runs")
async def health() -> JSONResponse:
    return JSONResponse({"status": "ok"})


@router.get("/readyz", summary="Whether the service is ready to predict")
async def readiness(request: Request) -> JSONResponse:
    """503 while a model is being loaded or the service stops. A full disk is a problem, but predictions go on.

    A follower also says whether its copy is stale. With --max-stale, a stale copy gives 503.
    """
    service = service_of(request)
    states = {engine.state for engine in service.engines.values()} | ({"stopping"} if service.stopping else set())
    ready = states == {"ready"}
    # Everybody may read this, so it names no model and no path.
    problem = any(engine.problem for engine in service.engines.values())
    problems = [f"A model is {state}." for state in sorted(states - {"ready"})]
    problems += [
        "Something keeps a model from learning, or a file or a copy from being up to date: see /v1/model."
    ] * problem
    about: dict[str, Any] = {"ready": ready, "problems": problems}
    if copies := [engine for engine in service.engines.values() if isinstance(engine, Follower)]:
        about |= {"following": True, "stale": any(copy.stale for copy in copies)}
    return JSONResponse(about, 200 if ready else 503)


@router.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse)
async def numbers(request: Request) -> Response:
    service = service_of(request)
    of_models = {name: engine.statistics() for name, engine in service.engines.items()}
    return Response(metrics.text(service.counts, of_models), headers={"content-type": metrics.TYPE})
