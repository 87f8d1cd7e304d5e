"""What all routes share: the models by name, the options, and whether the service is about to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import NotThere, ReadOnly
from votestream.serve.replica.follower import Follower
from votestream.serve.web.metrics import Counts
from votestream.serve.web.options import Options

Served = Engine | Follower
T = TypeVar("T")
KEY_HELP = "The same key with the same request gives the first answer again, and learns nothing twice."


class Service:
    """The models that are served, and how."""

    def __init__(self, engines: Mapping[str, Served], options: Options) -> None:
        self.engines, self.options = dict(engines), options
        self.counts = Counts()
        self.streams = 0  # readers of events
        self.packing = asyncio.Lock()  # of model files
        self.stopping = False

    def engine(self, name: str | None) -> Served:
        """The model of that name, or the only one."""
        if name is None and len(self.engines) == 1:
            return next(iter(self.engines.values()))
        if name is None:
            raise NotThere("Several models are served here: use /v1/models/NAME/ (GET /v1/models lists them).")
        if name not in self.engines:
            raise NotThere("No model of that name is served here: GET /v1/models lists them.")
        return self.engines[name]


def the_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def the_engine(request: Request) -> Served:
    return the_service(request).engine(request.path_params.get("name"))


async def the_taught(request: Request) -> Engine:
    """For what changes a model: a copy is refused before anything of the body is read."""
    engine = await the_engine(request)
    if isinstance(engine, Follower):
        raise ReadOnly(engine.writer)
    return engine


async def done(work: Future[T]) -> T:
    """What the engine's threads make of it, without keeping others waiting."""
    return await asyncio.wrap_future(work)


TheEngine = Annotated[Served, Depends(the_engine)]
TheTaught = Annotated[Engine, Depends(the_taught)]
TheKey = Annotated[str | None, Header(alias="idempotency-key", description=KEY_HELP)]
