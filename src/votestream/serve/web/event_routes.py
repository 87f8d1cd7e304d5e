"""`GET /v1/events`: what changes in a model, told while it happens (server-sent events)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from votestream.serve.engine.messages import TooBusy
from votestream.serve.web.dependencies import Served, Service, TheEngine, the_service

LOOK_EVERY = 0.5  # seconds after which it is looked whether the service stops
HEARTBEAT = 15.0  # seconds without an event after which a comment shows that the connection lives

router = APIRouter()


@router.get("/events", summary="Changes of the model, as server-sent events")
async def events(request: Request, engine: TheEngine) -> StreamingResponse:
    """`event: change` for each lesson and correction; `event: gap` where a slow reader has lost some."""
    service = the_service(request)
    if service.streams >= service.options.limits.streams:
        raise TooBusy("Too many readers of events are connected.", retry_after=10)
    # Without buffering by a proxy in front.
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_stream(service, engine), media_type="text/event-stream", headers=headers)


async def _stream(service: Service, engine: Served) -> AsyncIterator[str]:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    subscription = engine.subscribe(wake)
    service.streams += 1
    try:
        yield "retry: 2000\n: connected\n\n"
        last = loop.time()
        while not (service.stopping or subscription.closed):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(woken.wait(), LOOK_EVERY)
            woken.clear()
            while (event := subscription.get()) is not None:
                last = loop.time()
                yield f"event: {'gap' if event['kind'] == 'gap' else 'change'}\ndata: {json.dumps(event)}\n\n"
            if loop.time() - last >= HEARTBEAT:
                last = loop.time()
                yield ": here\n\n"
    finally:
        service.streams -= 1
        subscription.close()
