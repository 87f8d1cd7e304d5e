"""The images of tasks: what is fetched, from where, how much and how long."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from serve.http_client import HERE, serving
from serve.labelstudio.fake_studio import BROKEN, fake_studio
from serve.labelstudio.payloads import CONFIG, PROJECT, counts, data_uri, deleted, event, task
from votestream.serve.engine.messages import BadRequest
from votestream.serve.labelstudio import task_images
from votestream.serve.labelstudio.studio import Studio, check_studio
from votestream.serve.labelstudio.task_images import target_of
from votestream.serve.web.options import LabelStudio, Limits

STUDIO = Studio(LabelStudio("http://studio.example:8080", "secret"))
STRANGE = [
    "http://evil.example/data/a.jpg",
    "http://studio.example:8080@evil.example/data/a.jpg",
    "http://studio.example/data/a.jpg",
    "https://studio.example:8080/data/a.jpg",
    "http://[studio.example/data/a.jpg",
    "//evil.example/data/a.jpg",
    "/api/users",
    "/data/../api/users",
    "/data/%2e%2e/api/users",
    "/data/%252e%252e/api",
    "/data/%25252e%25252e/api",
    "/data/%252e%252e%252fapi",
    "/data/..%255c..%255capi",
    "/data/a\r\nHost: evil",
    "/data/a%0d%0aHost: evil",
    "/data/a%2500",
    "file:///data/a.jpg",
    "ftp://studio.example:8080/data/a",
    "/data/a\\..\\..\\b",
    "/data/a b",
    "%2Fdata/x",
    "\\data\\x",
    "data/x",
    "/data/größe.png",
    " ",
]


@pytest.fixture
def studio():
    with fake_studio() as server:
        yield server


@pytest.fixture
def client(tmp_path, studio):
    limits = Limits(body_bytes=1 << 20, held_bytes=4 << 20)
    with serving(tmp_path, label_studio=LabelStudio(studio.url, "secret"), limits=limits) as client:
        yield client


def predicted(client, *values):
    answer = client.post("/predict", json={"tasks": [task(value) for value in values], "label_config": CONFIG})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("/data/upload/1/a.jpg", "/data/upload/1/a.jpg"),
        ("/data/upload/1/gr%C3%B6%C3%9Fe%20%25.jpg", "/data/upload/1/gr%C3%B6%C3%9Fe%20%25.jpg"),
        ("http://studio.example:8080/data/local-files/?d=a.jpg", "/data/local-files/?d=a.jpg"),
    ],
)
def test_images_are_fetched_from_the_label_studio_that_was_named(value, target):
    assert target_of(value, STUDIO) == target


@pytest.mark.parametrize("value", STRANGE)
def test_nothing_else_is_fetched(value):
    with pytest.raises(BadRequest):
        target_of(value, STUDIO)


def test_nothing_is_fetched_unless_a_label_studio_was_named():
    with pytest.raises(BadRequest, match="--label-studio-url"):
        target_of("/data/upload/1/a.jpg", None)


@pytest.mark.parametrize("url", ["studio", "http://", "http://a:99999", "http://a b", "http://u:p@a", "http://a?b"])
def test_an_address_that_cannot_be_one_of_a_label_studio_is_refused(url):
    with pytest.raises(ValueError, match="the address of Label Studio must be"):
        check_studio(url)


def test_a_fetched_image_is_learned_and_the_token_is_sent_once_to_the_studio(client, studio):
    assert client.post("/webhook", json=event("ANNOTATION_CREATED", "red", value="/data/red.png")).status_code == 201
    assert counts(client) == {"red": 1}
    assert studio.seen == [("/data/red.png", "Token secret")]


@pytest.mark.parametrize("value", [*STRANGE, *BROKEN])
def test_a_strange_address_or_a_misbehaving_studio_is_named_and_changes_nothing(client, studio, value):
    answer = client.post("/webhook", json=event("ANNOTATION_CREATED", "red", value=value))
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].endswith(".")
    assert counts(client) == {}
    assert [target for target, _ in studio.seen] == ([value] if value in BROKEN else [])


def test_a_task_whose_image_cannot_be_fetched_leaves_the_others_predicted(client):
    client.teach("red", 2)
    client.teach("green", 2)
    results = predicted(client, *STRANGE, "/data/green.png", *BROKEN, "/data/red.png", None, 7)
    chosen = [one["result"][0]["value"]["choices"][0] for one in results if one["result"]]
    assert chosen == ["green", "red"]
    assert all(one["problem"].endswith(".") for one in results if not one["result"])


def test_images_that_are_too_large_together_are_refused_while_they_are_downloaded(client, studio):
    client.teach("red", 2)
    tasks = [task(f"/data/large-{900_000 + number}") for number in range(60)]
    for _ in range(6):
        studio.sent = 0
        answer = client.post("/predict", json={"tasks": tasks, "label_config": CONFIG})
        assert answer.status_code == 422
        assert "1 MiB together" in answer.json()["error"]
        assert studio.sent < 8 << 20  # of 54 MB; what is in the sockets' buffers counts here
    assert predicted(client, "/data/red.png")[0]["result"]  # nothing is held any more


def test_the_images_of_all_requests_together_are_bounded(client, studio):
    client.teach("red", 2)
    images = client.app.state.label_studio.images
    images.hold(4 << 20)
    busy = client.post("/predict", json={"tasks": [task("/data/red.png")], "label_config": CONFIG})
    assert busy.status_code == 429
    images.release(4 << 20)
    assert predicted(client, "/data/red.png")[0]["result"]


@pytest.mark.parametrize("value", ["/data/drip", "/data/drip-header"])
def test_a_studio_that_drips_is_left_after_a_time_and_the_other_tasks_are_predicted(client, monkeypatch, value):
    client.teach("red", 2)
    monkeypatch.setattr(task_images, "SECONDS", 0.6)
    began = time.monotonic()
    results = predicted(client, "/data/red.png", *[value] * 12)
    assert time.monotonic() - began < 5  # not 0.6 s for each four of them
    assert results[0]["result"]
    assert all("too slowly" in one["problem"] for one in results[1:])


def side_by_side(client, *requests):
    """The answers to requests that are sent at once, and the order in which they came."""
    finished = []

    async def sent():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url=HERE, timeout=30) as http:

            async def one(number, method, path, body, after):
                while after is not None and not after.is_set():
                    await asyncio.sleep(0.01)
                answer = await http.request(method, path, json=body)
                finished.append(number)
                return answer

            return await asyncio.gather(*(one(number, *request) for number, request in enumerate(requests)))

    return asyncio.run(sent()), finished


def test_a_dripping_studio_keeps_no_other_request_waiting(client, studio, monkeypatch):
    client.teach("red", 2)
    monkeypatch.setattr(task_images, "SECONDS", 1.0)
    slow = [("POST", "/predict", {"tasks": [task("/data/drip")] * 5, "label_config": CONFIG}, None) for _ in range(12)]
    others = [
        ("GET", "/v1/model", None, studio.dripping),
        ("POST", "/webhook", event("ANNOTATION_CREATED", "green", value="/data/green.png"), studio.dripping),
    ]
    answers, finished = side_by_side(client, *slow, *others)
    assert [answer.status_code for answer in answers] == [200] * 13 + [201]
    assert set(finished[:2]) == {12, 13}


def test_an_annotation_does_not_wait_for_the_image_of_another_one(client, studio):
    late = event("ANNOTATION_CREATED", "red", 17, "/data/late")
    quick = event("ANNOTATION_CREATED", "green", 18, data_uri("green"))
    answers, finished = side_by_side(
        client, ("POST", "/webhook", late, None), ("POST", "/webhook", quick, studio.dripping)
    )
    assert [answer.status_code for answer in answers] == [201, 201]
    assert finished == [1, 0]


@pytest.mark.parametrize(
    ("then", "known"),
    [
        (deleted(17), {}),
        ({"action": "TASKS_DELETED", "tasks": [{"id": 19}], "project": PROJECT}, {}),
        (event("ANNOTATION_UPDATED", None, 17), {}),
        (event("ANNOTATION_UPDATED", "green", 17, data_uri("green")), {"green": 1}),
    ],
)
def test_changes_of_an_annotation_keep_their_order_however_long_an_image_takes(client, studio, then, known):
    late = event("ANNOTATION_CREATED", "red", 17, "/data/late")
    side_by_side(client, ("POST", "/webhook", late, None), ("POST", "/webhook", then, studio.dripping))
    assert counts(client) == known
