"""Sending requests to an application without a network."""

from __future__ import annotations

import asyncio

import httpx

HERE = "http://127.0.0.1:8080"


class Client:
    """Requests to an ASGI application, one after another."""

    def __init__(self, app, base_url=HERE):
        self.app, self.base_url = app, base_url

    def request(self, method, path, **how):
        async def sent():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=self.base_url) as client:
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
