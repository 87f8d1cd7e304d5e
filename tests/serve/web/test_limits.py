"""How much gets in: bytes, files, requests at once, and time."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from votestream.serve.engine.messages import ServeError
from votestream.serve.web import request_body
from votestream.serve.web.limits import Limiter
from votestream.serve.web.options import Limits

SMALL = Limits(
    body_bytes=1000, json_bytes=1000, held_bytes=2500, files=3, requests=2, body_seconds=0.2, slowest_rate=100_000
)


class Place:
    """An app behind the limits, that waits while `gate` is closed."""

    def __init__(self, limits=SMALL):
        self.limits, self.gate = limits, asyncio.Event()
        self.gate.set()
        routes = [Route(f"/{name}", getattr(self, name), methods=["POST"]) for name in ("images", "json", "rows")]
        app = Starlette(routes=routes, exception_handlers={ServeError: self.problem})
        self.limiter = Limiter(app, limits)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.limiter), base_url="http://here")

    async def problem(self, request, error):
        return JSONResponse({"error": str(error)}, error.status)

    async def images(self, request):
        found = await request_body.images_in(request, self.limits)
        await self.gate.wait()
        return JSONResponse([[upload.name, len(upload.data)] for upload in found])

    async def json(self, request):
        return JSONResponse(await request_body.json_object(request, self.limits, ("a", "b")))

    async def rows(self, request):
        if "width" in request.query_params:
            rows = await request_body.rows_of_floats(request, self.limits, int(request.query_params["width"]))
        else:
            rows = await request_body.rows_of_json((await request_body.any_json(request, self.limits)).get("rows"))
        assert rows.dtype == np.float32
        return JSONResponse(rows.tolist())

    def post(self, path, **how):
        return asyncio.run(self.client.post(path, **how))


async def in_pieces(n, size, pause=0.0):
    for _ in range(n):
        await asyncio.sleep(pause)
        yield bytes(size)


def test_a_body_may_be_as_large_as_the_limit_and_no_larger():
    assert Place().post("/images", content=bytes(1000)).json() == [["the image", 1000]]
    assert Place().post("/images", content=bytes(1001)).status_code == 413


def test_a_body_without_a_length_is_counted_while_it_arrives():
    assert Place().post("/images", content=in_pieces(10, 100)).status_code == 200
    assert Place().post("/images", content=in_pieces(11, 100)).status_code == 413


def test_a_form_without_a_length_is_counted_too():
    async def endless():
        yield PART
        for _ in range(11):
            yield bytes(100)

    assert Place().post("/images", content=endless(), headers=BOUNDARY).status_code == 413


def test_a_body_that_does_not_arrive_is_given_up():
    answer = Place().post("/images", content=in_pieces(5, 1, pause=0.09))
    assert answer.status_code == 408


def test_a_body_that_came_fast_may_not_stand_still_for_that():
    async def fast_and_then_not_at_all():
        yield bytes(900)
        await asyncio.sleep(0.3)
        yield bytes(1)

    limits = Limits(body_bytes=1000, body_seconds=0.1, slowest_rate=1000)  # 900 bytes may take as many milliseconds
    assert Place(limits).post("/images", content=fast_and_then_not_at_all()).status_code == 408
    assert Place(limits).post("/images", content=in_pieces(4, 50, pause=0.05)).status_code == 200


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "9" * 30, "١"])
def test_a_length_that_is_no_number_is_refused(length):
    headers = [(b"content-length", length.encode())]
    assert Place().post("/images", headers=headers, content=in_pieces(1, 1)).status_code == 400


def test_too_many_requests_at_once_are_refused_until_later():
    async def crowd():
        place = Place()
        place.gate.clear()
        first = [asyncio.create_task(place.client.post("/images", content=b"1")) for _ in range(2)]
        await asyncio.sleep(0.02)
        third = await place.client.post("/images", content=b"1")
        place.gate.set()
        return third, [answer.status_code for answer in await asyncio.gather(*first)], place.limiter

    third, statuses, limiter = asyncio.run(crowd())
    assert third.status_code == 429
    assert third.headers["retry-after"] == "1"
    assert statuses == [200, 200]
    assert (limiter.requests, limiter.held) == (0, 0)


def test_the_bodies_of_all_requests_together_are_bounded():
    async def crowd():
        place = Place(Limits(body_bytes=1000, held_bytes=1500, requests=10))
        place.gate.clear()
        first = asyncio.create_task(place.client.post("/images", content=bytes(900)))
        await asyncio.sleep(0.02)
        whole = await place.client.post("/images", content=bytes(900))
        in_parts = await place.client.post("/images", content=in_pieces(9, 100))
        place.gate.set()
        return whole.status_code, in_parts.status_code, (await first).status_code, place.limiter.held

    assert asyncio.run(crowd()) == (429, 429, 200, 0)


def form(*names, data=b"x"):
    return [("file", (name, data, "image/png")) for name in names]


def test_the_files_of_a_form_come_with_their_names_and_without_their_folders():
    answer = Place().post("/images", files=form("a.png", "../../etc/b.png", "C:\\c.png"))
    assert answer.json() == [["a.png", 1], ["b.png", 1], ["c.png", 1]]


def test_fields_of_a_form_that_are_no_files_are_ignored():
    assert Place().post("/images", files=form("a.png"), data={"label": "oak"}).json() == [["a.png", 1]]


def test_a_form_with_too_many_parts_is_refused():
    assert Place().post("/images", files=form("a", "b", "c", "d")).status_code == 413


BOUNDARY = {"content-type": "multipart/form-data; boundary=b"}
PART = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        (BOUNDARY, PART + b"data\r\n--b--\r\n", 200),
        (BOUNDARY, PART + b"data", 400),  # no end
        (BOUNDARY, b"not a form", 400),
        (BOUNDARY, b"--b--\r\n", 422),  # no file
        (BOUNDARY, PART + b"\r\n--b--\r\n", 422),  # an empty one
        (BOUNDARY, b"--b\r\nContent-Disposition\r\n\r\n", 400),
        (BOUNDARY, b"--b\r\n" + b"a: b\r\n" * 3000, 413),
        ({"content-type": "multipart/form-data"}, PART, 400),
        ({"content-type": "multipart/form-data; boundary=" + "b" * 71}, PART, 400),
        ({"content-type": "multipart/mixed; boundary=b"}, PART, 415),
        ({"content-type": "application/json"}, b"{}", 415),
        ({"content-type": "text/plain"}, b"image", 415),
        ({"content-type": "image/png"}, b"image", 200),
        ({}, b"image", 200),
        ({}, b"", 422),
    ],
)
def test_bodies_that_are_no_images_are_named(headers, content, status):
    answer = Place().post("/images", headers=headers, content=content)
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"].endswith(".")


def test_the_headers_of_a_part_are_bounded():
    answer = Place(Limits()).post("/images", headers=BOUNDARY, content=b"--b\r\nX: " + b"a" * 20_000 + b"\r\n\r\n")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"a": 1}', 200),
        (b"", 200),
        (b'{"c": 1}', 422),
        (b"[]", 422),
        (b"NaN", 400),
        (b'{"a": Infinity}', 400),
        (b"{", 400),
        (b"\xff", 400),
        (b'{"a": ' + b"1" * 900 + b"}", 200),
        (b"[" * 1000, 400),
        (b'{"a": "' + b"x" * 1000 + b'"}', 413),
    ],
)
def test_json_is_read_strictly(content, status):
    answer = Place().post("/json", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status


def test_json_nested_without_end_and_numbers_without_end_are_refused():
    large = Limits()
    for content in (b"[" * 2_000_000, b'{"a":' * 500_000, b'{"a": ' + b"9" * 100_000 + b"}"):
        assert (
            Place(large).post("/json", content=content, headers={"content-type": "application/json"}).status_code == 400
        )


def test_json_must_say_that_it_is_json():
    """A form of another site cannot say so without being asked about it first."""
    assert Place().post("/json", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415


def test_rows_come_as_json_or_as_float32():
    rows = np.array([[1.5, -2.0], [0.25, 3.0]], np.float32)
    assert Place().post("/rows", json={"rows": rows.tolist()}).json() == rows.tolist()
    raw = rows.astype("<f4").tobytes()
    assert Place().post("/rows?width=2", content=raw).json() == rows.tolist()


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        [[]],
        [[1], [1, 2]],
        [["1"]],
        [[True]],
        [[None]],
        [1],
        "1",
        [[[1]]],
        {"a": 1},
        [[10**400]],
        [[1e39]],
        [[1], 2],
    ],
)
def test_rows_that_are_no_rows_are_refused(rows):
    assert Place().post("/rows", json={"rows": rows}).status_code == 422


@pytest.mark.parametrize("raw", [b"", b"123", bytes(12), np.array([np.nan, 1], "<f4").tobytes()])
def test_float32_rows_that_do_not_fit_are_refused(raw):
    assert Place().post("/rows?width=2", content=raw).status_code == 422
