"""Label Studio's ML backend, with payloads in the shape that Label Studio sends."""

from __future__ import annotations

import pytest

from serve.http_client import image, serving
from serve.labelstudio.payloads import CONFIG, PROJECT, counts, data_uri, deleted, event, task
from votestream.serve.engine import Engine, idempotency
from votestream.serve.engine.messages import Upload
from votestream.serve.engine.settings import EngineSettings


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path) as client:
        yield client


def test_health_and_setup_answer_as_label_studio_expects(client):
    assert client.get("/health").json()["status"] == "UP"
    sent = {"project": "2.1629208174", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "t"}
    assert client.post("/setup", json=sent).json() == {"model_version": "shop-0"}


def test_an_annotation_is_learned_at_once(client):
    answer = client.post("/webhook", json=event("ANNOTATION_CREATED", "red"))
    assert answer.status_code == 201
    assert answer.json() == {"status": "ok", "annotations": [{"lesson": 1, "label": "red"}]}
    assert counts(client) == {"red": 1}


def test_a_webhook_that_is_sent_again_learns_nothing_twice(client):
    first, again = (client.post("/webhook", json=event("ANNOTATION_CREATED", "red")).json() for _ in range(2))
    assert first == again
    assert counts(client) == {"red": 1}


def test_an_updated_annotation_undoes_its_old_lesson(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red"))
    client.post("/webhook", json=event("ANNOTATION_CREATED", "green", 18, data_uri("green")))
    for label in ("green", "red", "green"):
        assert client.post("/webhook", json=event("ANNOTATION_UPDATED", label)).status_code == 201
    assert counts(client) == {"green": 2}
    assert client.post("/webhook", json=event("ANNOTATION_UPDATED", "green")).status_code == 201  # nothing new
    assert counts(client) == {"green": 2}


def test_a_deleted_annotation_is_undone(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red", 17))
    client.post("/webhook", json=event("ANNOTATION_CREATED", "green", 18, data_uri("green")))
    answer = client.post("/webhook", json=deleted(17, 99)).json()["annotations"]
    assert [one["undone"] for one in answer] == [1, None]
    assert counts(client) == {"green": 1}
    assert client.post("/webhook", json=deleted(17)).status_code == 201  # again: nothing happens
    assert counts(client) == {"green": 1}


def tasks_deleted(*numbers):
    return {"action": "TASKS_DELETED", "tasks": [{"id": number} for number in numbers], "project": PROJECT}


def of_task(number, *about):
    """An annotation of that task."""
    made = event("ANNOTATION_CREATED", *about)
    return {**made, "task": {**made["task"], "id": number}}


def test_deleted_tasks_undo_what_their_annotations_added_after_a_restart_too(tmp_path):
    with serving(tmp_path) as client:
        for number, label in enumerate(("red", "green", "red", "green")):
            client.post("/webhook", json=of_task(number // 2, label, number, data_uri(label, number)))
        other = {**of_task(0, "green", 9, data_uri("green", 9)), "project": {**PROJECT, "id": 3}}
        client.post("/webhook", json=other)
        client.post("/webhook", json=deleted(0))
        assert counts(client) == {"green": 3, "red": 1}
    with serving(tmp_path) as client:
        result = client.post("/webhook", json=tasks_deleted(0, 7)).json()["annotations"]
        assert [one["undone"] for one in result] == [2]
        assert counts(client) == {"green": 2, "red": 1}
        assert client.post("/webhook", json=tasks_deleted(0, 7)).json()["annotations"] == []
        client.post("/webhook", json=tasks_deleted(1))
        assert counts(client) == {"green": 1}  # of the other project


def test_keys_of_annotations_are_kept_longer_than_other_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(idempotency, "MAX_KEYS", 2)
    with serving(tmp_path) as client:
        client.post("/webhook", json=of_task(1, "red", 17))
        for number in range(4):
            client.teach("green", 1, number, headers={"idempotency-key": f"key {number}"})
    with serving(tmp_path) as client:
        client.post("/webhook", json=tasks_deleted(1))
        assert counts(client) == {"green": 4}


def test_an_annotation_of_an_earlier_version_is_known_by_the_name_that_its_image_had(tmp_path):
    engine = Engine.open(tmp_path / "shop.safetensors", EngineSettings(backbone="pixels", device="cpu"))
    engine.learn([Upload(image("red"))], "red", key="label-studio/2/17/1").result()
    engine.close()
    with serving(tmp_path) as client:
        client.post("/webhook", json=event("ANNOTATION_CREATED", "red"))
        assert counts(client) == {"red": 1}
        client.post("/webhook", json=event("ANNOTATION_UPDATED", "green"))
        assert counts(client) == {"green": 1}


def test_an_annotation_whose_choice_was_taken_away_or_that_was_skipped_is_undone(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red", 17))
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red", 18, data_uri("red", 1)))
    client.post("/webhook", json=event("ANNOTATION_UPDATED", None, 17))
    assert counts(client) == {"red": 1}
    client.post("/webhook", json=event("ANNOTATION_UPDATED", "red", 18, was_cancelled=True))
    assert counts(client) == {}


def test_an_annotation_that_was_undone_and_returns_is_learned_anew(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red"))
    client.post("/webhook", json=event("ANNOTATION_UPDATED", None))
    client.post("/webhook", json=event("ANNOTATION_UPDATED", "red"))
    assert counts(client) == {"red": 1}


def test_several_annotations_in_one_webhook_are_all_learned(client):
    first, second = event("ANNOTATION_CREATED", "red", 17), event("", "green", 18, data_uri("green"))
    sent = {"action": "ANNOTATIONS_CREATED", "annotation": [first["annotation"], second["annotation"]]}
    sent |= {"task": [first["task"], second["task"]], "project": PROJECT}
    assert len(client.post("/webhook", json=sent).json()["annotations"]) == 2
    assert counts(client) == {"green": 1, "red": 1}


def test_an_annotation_that_cannot_be_learned_keeps_no_other_of_its_webhook_from_being_learned(client):
    first, second = event("", "red", 17, "/data/a b"), event("", "green", 18, data_uri("green"))
    sent = {"action": "ANNOTATIONS_CREATED", "annotation": [first["annotation"], second["annotation"]]}
    sent |= {"task": [first["task"], second["task"]], "project": PROJECT}
    result = client.post("/webhook", json=sent).json()["annotations"]
    assert result[0]["problem"].endswith(".")
    assert counts(client) == {"green": 1}


def test_a_webhook_without_annotations_is_ignored(client):
    sent = {"action": "ANNOTATIONS_CREATED", "annotation": [], "task": [], "project": PROJECT}
    assert client.post("/webhook", json=sent).json()["status"] == "ignored"


@pytest.mark.parametrize("action", ["PROJECT_UPDATED", "TASKS_CREATED", None])
def test_other_events_are_ignored(client, action):
    assert client.post("/webhook", json={"action": action, "project": PROJECT}).json()["status"] == "ignored"


def test_predictions_come_as_label_studio_reads_them(client):
    client.teach("red", 3)
    client.teach("green", 3)
    client.teach("blue", 3)  # no choice of the project
    tasks = [task(data_uri("green", 9)), task(data_uri("blue", 9)), task("not an image")]
    sent = {"tasks": tasks, "model_version": "", "project": "2.1629208174", "label_config": CONFIG}
    sent |= {"params": {"login": None, "password": None, "context": None}}
    results = client.post("/predict", json=sent).json()["results"]
    assert len(results) == 3
    value = {"choices": ["green"]}
    assert results[0]["result"] == [{"from_name": "choice", "to_name": "image", "type": "choices", "value": value}]
    assert 0.5 < results[0]["score"] <= 1
    assert results[0]["model_version"] == "shop-9"
    assert results[1]["result"][0]["value"]["choices"][0] in ("red", "green")  # blue is none of its choices
    assert results[2]["result"] == []
    assert "--label-studio-url" in results[2]["problem"]


@pytest.mark.parametrize(
    "sent",
    [
        {"action": "ANNOTATION_CREATED"},
        {**event("ANNOTATION_CREATED", "red"), "project": 3},
        {**event("ANNOTATION_CREATED", "red"), "task": 19},
        {**event("ANNOTATION_CREATED", "red"), "annotation": None},
        event("ANNOTATION_CREATED", "red", "17"),
        event("ANNOTATION_CREATED", "red", value="data:image/png,AAAA"),
        event("ANNOTATION_CREATED", "red", value="http://169.254.169.254/latest/meta-data"),
        event("ANNOTATION_CREATED", "red", value="file:///etc/passwd"),
        event("ANNOTATION_CREATED", "red", value=7),
        event("ANNOTATION_CREATED", "red", value="data:image/png;base64,AAAA"),
    ],
)
def test_what_cannot_be_learned_is_named(client, sent):
    answer = client.post("/webhook", json=sent)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].endswith(".")
    assert counts(client) == {}


def test_classes_are_learned_and_predicted_by_their_aliases(client):
    config = CONFIG.replace('value="red"', 'value="Rot" alias="red"').replace('"green"', '"Grün" alias="green"', 1)
    client.teach("blue", 3)
    for number, label in enumerate(("red", "green")):
        annotated = event("ANNOTATION_CREATED", label, number, data_uri(label))  # Label Studio sends the alias
        annotated["project"] = {**PROJECT, "label_config": config}
        assert client.post("/webhook", json=annotated).status_code == 201
    results = client.post(
        "/predict", json={"tasks": [task(data_uri(label, 9)) for label in ("red", "green")], "label_config": config}
    ).json()["results"]
    assert [one["result"][0]["value"]["choices"] for one in results] == [["red"], ["green"]]
    assert all(one["score"] > 0.3 for one in results)
