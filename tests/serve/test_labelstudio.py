"""Label Studio's ML backend, with payloads in the shape that Label Studio sends (its webhook and ML guides)."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from serve.asking import image, serving
from votestream.serve.messages import BadRequest
from votestream.serve.web.labelstudio_config import choices_of
from votestream.serve.web.labelstudio_images import address_of, image_of
from votestream.serve.web.options import LabelStudio

CONFIG = (
    '<View>\n  <Image name="image" value="$image"/>\n  <Choices name="choice" toName="image">\n'
    '    <Choice value="red"/>\n    <Choice value="green" background="green"/>\n  </Choices>\n</View>\n'
    '<!-- {"data": {"image": "/static/samples/sample.jpg"}} -->'
)
PROJECT = {
    "id": 2,
    "title": "New Project #2",
    "description": "",
    "label_config": CONFIG,
    "expert_instruction": "",
    "show_instruction": False,
    "enable_empty_annotation": True,
    "maximum_annotations": 1,
    "min_annotations_to_start_training": 10,
    "control_weights": {"choice": {"overall": 1.0, "type": "Choices", "labels": {"red": 1.0, "green": 1.0}}},
    "model_version": "",
    "is_draft": False,
    "created_at": "2021-08-17T13:49:34.326416Z",
    "organization": 1,
    "created_by": 1,
}


def data_uri(label, number=0):
    return "data:image/png;base64," + base64.b64encode(image(label, number)).decode()


def task(value, number=19):
    return {
        "id": number,
        "data": {"image": value},
        "meta": {},
        "created_at": "2021-08-17T13:51:02.590839Z",
        "updated_at": "2021-08-17T13:51:02.590873Z",
        "is_labeled": True,
        "overlap": 1,
        "inner_id": 1,
        "project": 2,
        "file_upload": 46,
        "comment_authors": [],
    }


def event(action, label, number=17, value=None, **more):
    """An annotation that was created or updated."""
    chosen = {"value": {"choices": [label]}, "id": "WArqkkifYE", "from_name": "choice", "to_name": "image"}
    annotation = {
        "id": number,
        "result": [] if label is None else [{**chosen, "type": "choices", "origin": "manual"}],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2021-08-17T13:52:48.536303Z",
        "updated_at": "2021-08-17T13:52:48.536370Z",
        "lead_time": 37.13,
        "prediction": {},
        "result_count": 0,
        "task": 19,
        "completed_by": 1,
        **more,
    }
    return {"action": action, "annotation": annotation, "project": PROJECT, "task": task(value or data_uri("red"))}


def deleted(*numbers):
    return {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": number} for number in numbers], "project": PROJECT}


def counts(client):
    return {one["label"]: one["count"] for one in client.get("/v1/model").json()["classes"]}


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


def test_an_updated_annotation_takes_its_old_lesson_back(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red"))
    client.post("/webhook", json=event("ANNOTATION_CREATED", "green", 18, data_uri("green")))
    for label in ("green", "red", "green"):
        assert client.post("/webhook", json=event("ANNOTATION_UPDATED", label)).status_code == 201
    assert counts(client) == {"green": 2}
    assert client.post("/webhook", json=event("ANNOTATION_UPDATED", "green")).status_code == 201  # nothing new
    assert counts(client) == {"green": 2}


def test_a_deleted_annotation_is_taken_back(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red", 17))
    client.post("/webhook", json=event("ANNOTATION_CREATED", "green", 18, data_uri("green")))
    answer = client.post("/webhook", json=deleted(17, 99)).json()["annotations"]
    assert [one["undone"] for one in answer] == [1, None]
    assert counts(client) == {"green": 1}
    assert client.post("/webhook", json=deleted(17)).status_code == 201  # again: nothing happens
    assert counts(client) == {"green": 1}


def test_an_annotation_whose_choice_was_taken_away_or_that_was_skipped_is_taken_back(client):
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red", 17))
    client.post("/webhook", json=event("ANNOTATION_CREATED", "red", 18, data_uri("red", 1)))
    client.post("/webhook", json=event("ANNOTATION_UPDATED", None, 17))
    assert counts(client) == {"red": 1}
    client.post("/webhook", json=event("ANNOTATION_UPDATED", "red", 18, was_cancelled=True))
    assert counts(client) == {}


def test_an_annotation_that_was_taken_back_and_returns_is_learned_anew(client):
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


@pytest.mark.parametrize("action", ["PROJECT_UPDATED", "TASKS_CREATED", "START_TRAINING", None])
def test_other_events_are_passed_over(client, action):
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


@pytest.mark.parametrize(
    "config",
    [
        None,
        "",
        "<View>",
        "<View></View>",
        '<!DOCTYPE a [<!ENTITY b "c">]><View/>',
        '<View><Text name="t" value="$t"/><Choices name="c" toName="t"/></View>',
        '<View><Image name="i" value="$i"/><Choices name="c" toName="i" choice="multiple"/></View>',
    ],
)
def test_a_labeling_interface_without_choices_for_an_image_is_refused(config):
    with pytest.raises(BadRequest):
        choices_of(config)


STUDIO = LabelStudio("http://studio.example:8080", "secret")


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("/data/upload/1/a.jpg", "http://studio.example:8080/data/upload/1/a.jpg"),
        (
            "http://studio.example:8080/data/local-files/?d=a.jpg",
            "http://studio.example:8080/data/local-files/?d=a.jpg",
        ),
    ],
)
def test_images_are_fetched_from_the_label_studio_that_was_named(value, address):
    assert address_of(value, STUDIO) == address


@pytest.mark.parametrize(
    "value",
    [
        "http://evil.example/data/a.jpg",
        "http://studio.example:8080@evil.example/data/a.jpg",
        "http://studio.example/data/a.jpg",
        "https://studio.example:8080/data/a.jpg",
        "//evil.example/data/a.jpg",
        "/api/users",
        "/data/../api/users",
        "/data/%2e%2e/api/users",
        "/data/a\r\nHost: evil",
        "file:///data/a.jpg",
        "ftp://studio.example:8080/data/a",
        "/data/a\\..\\..\\b",
    ],
)
def test_nothing_else_is_fetched(value):
    with pytest.raises(BadRequest):
        address_of(value, STUDIO)


def test_nothing_is_fetched_unless_a_label_studio_was_named():
    with pytest.raises(BadRequest, match="--label-studio-url"):
        image_of("/data/upload/1/a.jpg", None, 1000)


class StudioServer(HTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Studio)
        self.seen = []


class Studio(BaseHTTPRequestHandler):
    server: StudioServer

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        if self.path.startswith("/data/away"):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/secret")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * (2000 if "large" in self.path else 10))

    def log_message(self, *args):
        pass


@pytest.fixture
def studio():
    server = StudioServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_fetching_sends_the_token_and_follows_no_redirect_and_no_large_file(studio):
    where = LabelStudio(f"http://127.0.0.1:{studio.server_port}", "secret")
    assert image_of("/data/upload/1/a.jpg", where, 1000) == b"x" * 10
    assert studio.seen == [("/data/upload/1/a.jpg", "Token secret")]
    with pytest.raises(BadRequest, match="302"):
        image_of("/data/away", where, 1000)
    with pytest.raises(BadRequest, match="more than"):
        image_of("/data/large", where, 1000)
