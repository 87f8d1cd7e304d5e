"""The application: routes, error handlers and middleware."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from votestream._version import __version__
from votestream.common.printing import shown
from votestream.serve.engine.messages import NoModelFile, NotReady, ReadOnly, ServeError, TooBusy
from votestream.serve.labelstudio import routes as labelstudio
from votestream.serve.labelstudio.connection import LabelStudioConnection
from votestream.serve.web import address_routes, event_routes, model_routes, page_routes, sample_routes
from votestream.serve.web.dependencies import Served, Service
from votestream.serve.web.limits import Limiter
from votestream.serve.web.options import Options
from votestream.serve.web.request_log import CatchErrors, RequestLog
from votestream.serve.web.security import AccessControl

DESCRIPTION = 'A model that learns and predicts at the same time. Errors are {"error": "A sentence."}.'
MODEL_ROUTERS = (sample_routes.router, model_routes.router, event_routes.router, labelstudio.of_model)


def create_app(engines: Mapping[str, Served], options: Options) -> FastAPI:
    """The service for models by name. It does not close the engines: the caller does."""
    app = FastAPI(title="VoteStream", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    service = Service(engines, options)
    app.state.service = service
    app.state.label_studio = LabelStudioConnection(options)
    for router in (model_routes.listing, address_routes.router, *MODEL_ROUTERS):
        app.include_router(router, prefix="/v1")
    for router in MODEL_ROUTERS:
        app.include_router(router, prefix="/v1/models/{name}", include_in_schema=len(engines) > 1)
    app.include_router(labelstudio.router, prefix="/v1/models/{name}/label-studio", include_in_schema=False)
    app.include_router(labelstudio.router, tags=["Label Studio"])
    app.include_router(page_routes.router)
    app.include_router(page_routes.page_routes())
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_exception_handler(ServeError, _service_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _parameter_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _routing_error)  # type: ignore[arg-type]
    app.add_middleware(CatchErrors)
    app.add_middleware(Limiter, limits=options.limits)
    app.add_middleware(AccessControl, options=options)
    app.add_middleware(RequestLog, counts=service.counts)
    logging.getLogger("votestream.serve.access").setLevel(logging.INFO if options.access_log else logging.WARNING)
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The content of openapi.json, with the parameter `name`, which the routes read without declaring it."""
    if app.openapi_schema is None:
        name = {
            "name": "name",
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": "The model.",
        }
        for path, methods in FastAPI.openapi(app)["paths"].items():
            for about in methods.values() if "{name}" in path else ():
                about["parameters"] = [name, *about.get("parameters", [])]
    assert app.openapi_schema is not None
    return app.openapi_schema


async def _service_error(request: Request, problem: ServeError) -> JSONResponse:
    body, headers = {"error": str(problem)}, {}
    if isinstance(problem, TooBusy):
        headers["retry-after"] = str(problem.retry_after)
    elif isinstance(problem, NotReady):
        headers["retry-after"] = "2"
    elif isinstance(problem, NoModelFile):
        headers |= {"etag": problem.version.tag, "cache-control": "no-cache"}
    elif isinstance(problem, ReadOnly):
        body["writer"] = headers["votestream-writer"] = problem.writer
    return JSONResponse(body, problem.status, headers)


async def _parameter_error(request: Request, problem: RequestValidationError) -> JSONResponse:
    """A sentence about the first wrong parameter."""
    first = problem.errors()[0]
    name = shown(first["loc"][-1])[:100]
    return JSONResponse({"error": f"The parameter {name} is wrong: {first['msg'].rstrip('.').lower()}."}, 422)


async def _routing_error(request: Request, problem: HTTPException) -> JSONResponse:
    sentence = {404: "There is no such page here: /docs lists the routes.", 405: "This route takes another method."}
    return JSONResponse(
        {"error": sentence.get(problem.status_code, f"{problem.detail}.")}, problem.status_code, problem.headers
    )
