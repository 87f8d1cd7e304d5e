"""Hundreds of requests that are wrong in some way: a sentence for each, and the model stays as it is."""

from __future__ import annotations

import asyncio
import json
from random import Random
from urllib.parse import unquote

import pytest

from serve.http_client import serving
from serve.malformed import KINDS, wrong_request

TOKEN = "a-token-of-some-letters"


async def status_of(app, wrong):
    """The status and the body that come back, without a client that would mend the request."""
    path, _, query = wrong.target.partition("?")
    headers = [("Host", wrong.host), *wrong.all_headers(TOKEN)]
    scope = {"type": "http", "method": wrong.method, "path": unquote(path), "raw_path": path.encode()}
    scope |= {"query_string": query.encode(), "http_version": "1.1", "scheme": "http", "asgi": {"spec_version": "2.3"}}
    scope["headers"] = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    got = {"body": b""}

    async def receive():
        return {"type": "http.request", "body": wrong.body, "more_body": False}

    async def send(message):
        got["status"] = message.get("status", got.get("status"))
        got["body"] += message.get("body", b"")

    await app(scope, receive, send)
    return got["status"], got["body"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("fuzz"), token=TOKEN) as client:
        client.headers = {"authorization": f"Bearer {TOKEN}"}
        for label in ("red", "green"):
            client.teach(label, 3)
        yield client


@pytest.mark.parametrize("seed", range(10))
def test_wrong_requests_are_refused_and_the_model_stays_as_it_is(client, seed):
    rng = Random(seed)
    before = client.get("/v1/model/file").headers["etag"]

    async def all_of_them():
        for wrong in [kind(rng) for kind in KINDS] + [wrong_request(rng) for _ in range(25)]:
            status, body = await status_of(client.app, wrong)
            assert 400 <= status < 500, (status, body, wrong)
            assert json.loads(body)["error"].endswith("."), wrong

    asyncio.run(all_of_them())
    assert client.get("/v1/model/file").headers["etag"] == before
