"""The route of a model's events: `GET /v1/events` sends every change when it happens (server-sent events)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from votestream.serve.engine.messages import TooBusy
from votestream.serve.web.dependencies import AnyEngine, Served, Service, service_of

CHECK_SECONDS = 0.5  # between two checks whether the service stops
HEARTBEAT_SECONDS = 15.0  # without an event; then a comment shows that the connection works

router = APIRouter()


@router.get("/events", summary="Changes of the model, as server-sent events")
async def events(request: Request, engine: AnyEngine) -> StreamingResponse:
    """`event: change` for every sample and correction. `event: gap` if a slow client has lost events."""
    service = service_of(request)
    if service.streams >= service.options.limits.streams:
        raise TooBusy("Too many clients read events.", retry_after=10)
    # A proxy in front must not buffer events.
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_stream(service, engine), media_type="text/event-stream", headers=headers)


async def _stream(service: Service, engine: Served) -> AsyncIterator[str]:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(woken.set)

    subscription = engine.subscribe(wake)
    service.streams += 1
    try:
        yield "retry: 2000\n: connected\n\n"
        last = loop.time()
        while not (service.stopping or subscription.closed):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(woken.wait(), CHECK_SECONDS)
            woken.clear()
            while (event := subscription.get()) is not None:
                last = loop.time()
                yield f"event: {'gap' if event['kind'] == 'gap' else 'change'}\ndata: {json.dumps(event)}\n\n"
            if loop.time() - last >= HEARTBEAT_SECONDS:
                last = loop.time()
                yield ": here\n\n"
    finally:
        service.streams -= 1
        subscription.close()
