"""Sending requests to the service without a network, and images to send."""

from __future__ import annotations

import asyncio
import io
from contextlib import contextmanager

import httpx
import numpy as np
from PIL import Image

from painted import COLOURS

HERE = "http://127.0.0.1:8080"


class Client:
    """Requests to an ASGI application, one after another."""

    def __init__(self, app, base_url=HERE, headers=None):
        self.app, self.base_url, self.headers = app, base_url, headers

    def request(self, method, path, **how):
        async def sent():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url=self.base_url, headers=self.headers, timeout=30
            ) as client:
                return await client.request(method, path, **how)

        return asyncio.run(sent())

    def get(self, path, **how):
        return self.request("GET", path, **how)

    def post(self, path, **how):
        return self.request("POST", path, **how)

    def options(self, path, **how):
        return self.request("OPTIONS", path, **how)

    def delete(self, path, **how):
        return self.request("DELETE", path, **how)

    def teach(self, label, n=1, start=0, **how):
        """Learn some images of a colour."""
        files = [("file", (f"{label} {k}.png", image(label, k), "image/png")) for k in range(start, start + n)]
        answer = self.post("/v1/learn", params={"label": label}, files=files, **how)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def serving(folder, *names, settings=None, **options):
    """A client of the service with models in a folder, on features that are the pixels."""
    from votestream.serve.app import create_app
    from votestream.serve.engine import Engine
    from votestream.serve.engine.settings import EngineSettings
    from votestream.serve.web.options import Options

    settings = settings or EngineSettings(backbone="pixels", device="cpu")
    engines = {name: Engine.open(folder / f"{name}.safetensors", settings) for name in names or ("shop",)}
    try:
        yield Client(create_app(engines, Options(**options)))
    finally:
        for engine in engines.values():
            engine.close()


def image(label, number=0):
    """A PNG of nearly the colour of that name."""
    noise = np.random.default_rng([number, len(label)]).integers(-30, 31, (8, 8, 3))
    return png(np.array(COLOURS[label]) + noise)


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels).astype(np.uint8)).save(file, "png")
    return file.getvalue()
