"""The application: all routes, what they raise as sentences, and what stands before them."""

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
from votestream.serve.engine.messages import NoFile, NotReady, ReadOnly, ServeError, TooBusy
from votestream.serve.labelstudio import routes as labelstudio
from votestream.serve.labelstudio.connection import Connection
from votestream.serve.web import address_routes as addresses
from votestream.serve.web import event_routes as events
from votestream.serve.web import model_routes as models
from votestream.serve.web import page_routes as pages
from votestream.serve.web import sample_routes as teaching
from votestream.serve.web.dependencies import Served, Service
from votestream.serve.web.limits import Limiter
from votestream.serve.web.options import Options
from votestream.serve.web.request_log import Catch, Record
from votestream.serve.web.security import Guard

DESCRIPTION = 'Learns images and predicts at the same time. Errors are {"error": "A sentence."}.'
OF_A_MODEL = (teaching.router, models.router, events.router, labelstudio.of_model)


def create_app(engines: Mapping[str, Served], options: Options) -> FastAPI:
    """The service for some models by name. The engines stay open when it ends: whoever opened them closes them."""
    app = FastAPI(title="VoteStream", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    service = Service(engines, options)
    app.state.service = service
    app.state.label_studio = Connection(options)
    for router in (models.listing, addresses.router, *OF_A_MODEL):
        app.include_router(router, prefix="/v1")
    for router in OF_A_MODEL:
        app.include_router(router, prefix="/v1/models/{name}", include_in_schema=len(engines) > 1)
    app.include_router(labelstudio.router, prefix="/v1/models/{name}/label-studio", include_in_schema=False)
    app.include_router(labelstudio.router, tags=["Label Studio"])
    app.include_router(pages.router)
    app.include_router(pages.page_routes())
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    app.add_exception_handler(ServeError, _of_service)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _of_parameters)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _of_routing)  # type: ignore[arg-type]
    app.add_middleware(Catch)
    app.add_middleware(Limiter, limits=options.limits)
    app.add_middleware(Guard, options=options)
    app.add_middleware(Record, counts=service.counts)
    logging.getLogger("votestream.serve.access").setLevel(logging.INFO if options.access_log else logging.WARNING)
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """What openapi.json says. The routes find the model by its name without declaring it: it is added here."""
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


async def _of_service(request: Request, problem: ServeError) -> JSONResponse:
    body, headers = {"error": str(problem)}, {}
    if isinstance(problem, TooBusy):
        headers["retry-after"] = str(problem.retry_after)
    elif isinstance(problem, NotReady):
        headers["retry-after"] = "2"
    elif isinstance(problem, NoFile):
        headers |= {"etag": problem.version.tag, "cache-control": "no-cache"}
    elif isinstance(problem, ReadOnly):
        body["writer"] = headers["votestream-writer"] = problem.writer
    return JSONResponse(body, problem.status, headers)


async def _of_parameters(request: Request, problem: RequestValidationError) -> JSONResponse:
    """The first parameter that is wrong, in a sentence."""
    first = problem.errors()[0]
    name = shown(first["loc"][-1])[:100]
    return JSONResponse({"error": f"The parameter {name} is wrong: {first['msg'].rstrip('.').lower()}."}, 422)


async def _of_routing(request: Request, problem: HTTPException) -> JSONResponse:
    sentence = {404: "There is no such page here: /docs lists the routes.", 405: "This route takes another method."}
    return JSONResponse(
        {"error": sentence.get(problem.status_code, f"{problem.detail}.")}, problem.status_code, problem.headers
    )
