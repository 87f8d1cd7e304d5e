"""Bringing a model in step with a project. With the real Label Studio: tests_labelstudio/."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from typer.testing import CliRunner

from serve.http_client import HERE, Client
from serve.labelstudio.fake_studio import fake_studio, whole
from serve.labelstudio.payloads import CONFIG, PROJECT, counts, data_uri, event
from votestream.cli.main import app
from votestream.serve.app import create_app
from votestream.serve.engine import Engine
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.labelstudio.event_order import EventOrder
from votestream.serve.labelstudio.studio import Studio
from votestream.serve.labelstudio.sync import Sync
from votestream.serve.labelstudio.task_images import TaskImages
from votestream.serve.web.options import LabelStudio, Limits, Options

REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
NOT_THERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def studio():
    with fake_studio() as server:
        yield server


@pytest.fixture
def engine(tmp_path):
    engine = Engine.open(tmp_path / "shop.safetensors", EngineSettings(backbone="pixels", device="cpu"))
    yield engine
    engine.close()


def says(studio, annotations, listed=None):
    """Have the studio's project 2 hold these annotations: label and image by number; `listed` come with their tasks."""
    studio.api.clear()
    studio.api["/api/projects/2/"] = whole(json.dumps({"id": 2, "label_config": CONFIG}).encode())
    tasks = []
    for number, (label, value) in annotations.items():
        about = event("", label, number)["annotation"]
        studio.api[f"/api/annotations/{number}/"] = whole(json.dumps(about).encode())
        if listed is None or number in listed:
            tasks.append({"id": number + 100, "data": {"image": value}, "annotations": [about]})
    studio.api["/api/tasks"] = whole(json.dumps({"tasks": tasks, "total": len(tasks)}).encode())


def synced(engine, studio, token="secret", outdated=()):
    one_studio = Studio(LabelStudio(studio.url, token))
    one = Sync(engine, one_studio, TaskImages(one_studio, Limits()), EventOrder(), 2)
    one.outdated.update(outdated)
    asyncio.run(one.run())
    return one.outcome


def known(engine):
    return {one["label"]: one["count"] for one in engine.describe()["classes"]}


THREE = {
    17: ("red", "/data/red.png"),
    18: ("green", "/data/green.png"),
    19: ("red", data_uri("red", 1)),
}


def test_annotations_are_learned_corrected_and_undone_and_nothing_is_fetched_twice(engine, studio):
    says(studio, THREE)
    assert synced(engine, studio)["learned"] == 3
    assert known(engine) == {"green": 1, "red": 2}
    studio.seen.clear()
    assert synced(engine, studio)["unchanged"] == 3
    assert not [target for target, _ in studio.seen if target.startswith("/data")]
    says(studio, {17: ("green", "/data/red.png"), 19: (None, data_uri("red", 1)), 20: ("red", data_uri("red", 2))})
    studio.api["/api/annotations/18/"] = NOT_THERE
    outcome = synced(engine, studio)
    assert {kind: outcome[kind] for kind in ("state", "learned", "corrected", "undone", "failed")} == {
        "state": "done",
        "learned": 1,
        "corrected": 1,
        "undone": 2,
        "failed": 0,
    }
    assert known(engine) == {"green": 1, "red": 1}


def test_an_annotation_that_a_page_of_tasks_leaves_out_is_undone_only_if_it_is_deleted(engine, studio):
    says(studio, THREE)
    synced(engine, studio)
    says(studio, THREE, listed=[17])
    studio.api["/api/annotations/18/"] = NOT_THERE
    assert synced(engine, studio)["undone"] == 1
    assert known(engine) == {"red": 2}


def test_a_webhook_that_comes_meanwhile_has_precedence(engine, studio):
    says(studio, THREE)
    outcome = synced(engine, studio, outdated=["label-studio/2/17", "label-studio/2/task 118"])
    assert outcome["learned"] == 1
    assert known(engine) == {"red": 1}


def test_what_was_undone_on_the_page_stays_undone(engine, studio):
    says(studio, THREE)
    synced(engine, studio)
    engine.undo().result()
    assert synced(engine, studio)["unchanged"] == 3
    assert sum(known(engine).values()) == 2


def test_an_image_that_cannot_be_fetched_is_named_and_keeps_none_of_the_others(engine, studio):
    says(studio, {**THREE, 18: ("green", "/data/not-there"), 20: ("green", "data:image/png;base64,AAAA")})
    outcome = synced(engine, studio)
    assert (outcome["state"], outcome["learned"], outcome["failed"]) == ("done", 2, 2)
    assert sorted(problem[:9] for problem in outcome["problems"]) == ["Task 118:", "Task 120:"]
    assert known(engine) == {"red": 2}


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        ("/api/projects/2/", REFUSED, "does not let this token read"),
        ("/api/projects/2/", NOT_THERE, "has no /api/projects/2/"),
        ("/api/projects/2/", whole(b"[]"), "expected data"),
        ("/api/projects/2/", whole(b"[" * 100_000), "not send JSON"),
        ("/api/projects/2/", whole(b"{}"), "labeling interface"),
        ("/api/tasks", REFUSED, "does not let this token read"),
        ("/api/tasks", whole(b'{"tasks": [1]}'), "expected data"),
        ("/api/tasks", whole(b'{"tasks": [{"annotations": [{"id": "x"}]}]}'), "whole number"),
        ("/api/annotations/17/", b"HTTP/1.1 500 No\r\n\r\n", "status 500"),
    ],
)
def test_a_studio_that_does_not_answer_as_it_should_undoes_nothing(engine, studio, path, answer, why):
    says(studio, THREE)
    synced(engine, studio)
    says(studio, {})
    for number in THREE:
        studio.api[f"/api/annotations/{number}/"] = b"HTTP/1.1 500 No\r\n\r\n"
    studio.api[path] = answer
    outcome = synced(engine, studio)
    assert why in outcome.get("error", " ".join(outcome["problems"]))
    assert known(engine) == {"green": 1, "red": 2}


def test_a_personal_access_token_is_exchanged_for_one_that_is_sent(engine, studio):
    says(studio, THREE)
    studio.api["/api/token/refresh/"] = whole(b'{"access": "a.b.c"}')
    assert synced(engine, studio, token="x.y.z")["learned"] == 3
    assert studio.seen[0] == ("/api/token/refresh/", None)
    assert {token for _, token in studio.seen[1:]} == {"Bearer a.b.c"}


def through_routes(engine, studio, path, body):
    """Begin a synchronisation, and ask how far it is until it is over; what was answered first, and last."""
    service = create_app({"shop": engine}, Options(label_studio=LabelStudio(studio.url, "secret")))

    async def sent():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=HERE, timeout=30) as http:
            begun = await http.post(path, json=body)
            for _ in range(200):
                state = (await http.get("/v1/label-studio/sync", params={"project": 2})).json()
                if state.get("state") != "running":
                    break
                await asyncio.sleep(0.05)
            return begun, state

    return asyncio.run(sent())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/webhook", {"action": "START_TRAINING", "project": PROJECT}, 201),
        ("/train", {"project": "2.1629208174", "annotations": [], "label_config": CONFIG}, 201),
        ("/v1/label-studio/sync", {"project": 2}, 202),
        ("/v1/models/shop/label-studio/sync", {"project": 2}, 202),
    ],
)
def test_train_and_the_route_begin_a_synchronisation(engine, studio, path, body, status):
    says(studio, THREE)
    begun, state = through_routes(engine, studio, path, body)
    assert (begun.status_code, begun.json()["state"]) == (status, "running")
    assert (state["state"], state["learned"]) == ("done", 3)
    assert known(engine) == {"green": 1, "red": 2}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/webhook", {"action": "START_TRAINING", "project": {"id": "2"}}),
        ("/train", {"project": "²"}),
        ("/train", {}),
        ("/v1/label-studio/sync", {"project": True}),
        ("/v1/label-studio/sync", {"project": 1 << 64}),
    ],
)
def test_a_project_that_is_none_is_refused(engine, studio, path, body):
    begun, state = through_routes(engine, studio, path, body)
    assert begun.status_code == 422
    assert "has not been synchronised" in state["error"]


def test_without_the_address_of_label_studio_a_synchronisation_is_refused_with_a_sentence(engine):
    client = Client(create_app({"shop": engine}, Options()))
    answer = client.post("/v1/label-studio/sync", json={"project": 2})
    assert answer.status_code == 422
    assert "--label-studio-url" in answer.json()["error"]
    assert counts(client) == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["m.safetensors"], "--label-studio-url"),
        (["m.safetensors", "--label-studio-url", "studio"], "the address of Label Studio must be"),
        (["http://127.0.0.1:1", "--label-studio-url", "http://127.0.0.1:2"], "leave --label-studio-url out"),
        (["http://127.0.0.1:1"], "cannot be reached"),
    ],
)
def test_a_command_that_cannot_work_says_what_is_missing(arguments, why):
    done = CliRunner().invoke(app, ["label-studio", "sync", *arguments, "--project", "2"])
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split())
