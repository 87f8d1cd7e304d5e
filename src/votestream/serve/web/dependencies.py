"""What FastAPI passes to the routes: the service, the model of the address, and the idempotency key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Header, Request

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import NotFound, ReadOnly
from votestream.serve.replica.follower import Follower
from votestream.serve.web.metrics import Counts
from votestream.serve.web.options import Limits, Options

Served = Engine | Follower
KEY_HELP = "A request that is repeated with the same key gets the first answer again. Nothing is learned twice."


class Service:
    """The models by name, the options, and what all requests share."""

    def __init__(self, engines: Mapping[str, Served], options: Options) -> None:
        self.engines, self.options = dict(engines), options
        self.counts = Counts()
        self.streams = 0  # clients that read events
        self.file_lock = asyncio.Lock()  # model files are made one at a time
        self.stopping = False


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def limits_of(request: Request) -> Limits:
    return service_of(request).options.limits


async def any_engine(request: Request) -> Served:
    """The model that the address names, or the only one."""
    engines, name = service_of(request).engines, request.path_params.get("name")
    if name is None and len(engines) == 1:
        return next(iter(engines.values()))
    if name is None:
        raise NotFound("Several models are served here: use /v1/models/NAME/ (GET /v1/models lists them).")
    if name not in engines:
        raise NotFound("No model of that name is served here: GET /v1/models lists them.")
    return engines[name]


async def writable_engine(request: Request) -> Engine:
    """As `any_engine`, for requests that change the model. A copy refuses them before their body is read."""
    engine = await any_engine(request)
    if isinstance(engine, Follower):
        raise ReadOnly(engine.writer)
    return engine


AnyEngine = Annotated[Served, Depends(any_engine)]
WritableEngine = Annotated[Engine, Depends(writable_engine)]
IdempotencyKey = Annotated[str | None, Header(alias="idempotency-key", description=KEY_HELP)]
