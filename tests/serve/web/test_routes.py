"""What each route takes and sends."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import httpx
import numpy as np
import pytest

import votestream as vs
from serve.http_client import HERE, image, png, serving
from votestream.serve.engine.settings import EngineSettings

TOKEN = "a-token-of-some-letters"


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path) as client:
        yield client


@pytest.fixture
def trained(client):
    for label in ("red", "green", "blue"):
        client.teach(label, 3)
    return client


def test_an_image_is_learned_and_the_previous_prediction_is_returned(client):
    first = client.post("/v1/learn?label=red", content=image("red")).json()
    assert {key: first[key] for key in ("lesson", "label", "new_class", "was")} == {
        "lesson": 1,
        "label": "red",
        "new_class": True,
        "was": None,
    }
    second = client.post("/v1/learn?label=green", content=image("green"), headers={"content-type": "image/png"}).json()
    assert second["was"]["label"] == "red"
    assert second["lesson"] == 2


def test_a_new_class_of_nearly_a_known_name_is_returned_with_that_name_and_so_is_its_repeated_answer(client):
    client.post("/v1/learn?label=old%20paper", content=image("red"))
    key = {"idempotency-key": "abc"}
    first, again = (client.post("/v1/learn?label=Old-Paper", content=image("red", 1), headers=key) for _ in range(2))
    assert (first.json()["new_class"], first.json()["similar"]) == (True, "old paper")
    assert again.json() == first.json()
    for label in ("Old-Paper", "old%20paper", "glass"):
        assert client.post(f"/v1/learn?label={label}", content=image("red", 2)).json()["similar"] is None


def test_the_files_of_a_form_are_learned_together_and_broken_ones_are_named(client):
    files = [("file", ("a.png", image("red"))), ("file", ("b.png", b"no image")), ("x", ("c.png", image("red", 1)))]
    answer = client.post("/v1/learn?label=red", files=files).json()
    assert [lesson["file"] for lesson in answer["lessons"]] == ["a.png", "c.png"]
    assert [problem["file"] for problem in answer["problems"]] == ["b.png"]
    assert answer["lesson"] == answer["lessons"][-1]["lesson"] == 2


def test_a_request_without_a_usable_image_is_refused_with_its_problems(client):
    answer = client.post("/v1/learn?label=red", files=[("file", ("b.png", b"no image"))])
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["file"] == "b.png"
    assert client.get("/v1/model").json()["lesson"] == 0


def test_a_key_that_is_sent_again_gives_the_first_answer_and_learns_nothing(client):
    key = {"idempotency-key": "abc"}
    first, again = (client.post("/v1/learn?label=red", content=image("red"), headers=key) for _ in range(2))
    assert first.json() == again.json()
    assert client.get("/v1/model").json()["lesson"] == 1
    assert client.post("/v1/learn?label=blue", content=image("red"), headers=key).status_code == 409


def test_one_image_gets_one_answer(trained):
    answer = trained.post("/v1/predict?top=2", content=image("green", 9)).json()
    assert answer["label"] == "green"
    assert answer["lesson"] == 9
    assert answer["probabilities"][0]["label"] == "green"
    assert len(answer["probabilities"]) == 2
    assert 0 < answer["confidence"] <= answer["probabilities"][0]["probability"]
    assert 0 <= answer["unknown_score"] <= 1
    assert answer["unknown"] in (True, False)
    assert "green" in answer["words"]
    assert answer["vote"]["tasks"][answer["vote"]["winner_task"]]["candidate"] == "green"
    assert set(answer["vote"]["tasks"][0]) == {"task", "candidate", "within", "prior", "score"}


def test_several_images_get_a_list_of_answers(trained):
    files = [("f", ("a.png", image("red", 8))), ("f", ("b.txt", b"text")), ("f", ("c.png", image("blue", 8)))]
    result = trained.post("/v1/predict", files=files).json()
    assert [(one["file"], one["label"]) for one in result["answers"]] == [("a.png", "red"), ("c.png", "blue")]
    assert [one["file"] for one in result["problems"]] == ["b.txt"]
    assert result["lesson"] == 9


def test_predictions_over_http_are_those_of_the_file(trained, tmp_path):
    path = tmp_path / "copy.safetensors"
    path.write_bytes(trained.get("/v1/model/file").content)
    model, probe = vs.load(path), np.full((8, 8, 3), (60, 180, 60), np.uint8)
    result = trained.post("/v1/predict?top=3", content=png(probe)).json()["probabilities"]
    shares = dict(zip(model.classes_.tolist(), model.predict_proba([probe])[0].tolist(), strict=True))
    assert {one["label"]: one["probability"] for one in result} == pytest.approx(shares, abs=1e-6)


def test_an_empty_model_predicts_nothing_and_says_so(client):
    answer = client.post("/v1/predict", content=image("red"))
    assert answer.status_code == 409
    assert "nothing" in answer.json()["error"]


def test_rows_of_features_are_learned_and_predicted_as_json_and_as_float32(client):
    rows = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    rows[6:, 0] += 20
    sent = {"rows": rows.tolist(), "labels": [7] * 6 + ["b"] * 6, "task": "first"}
    answer = client.post("/v1/learn-features", json=sent).json()
    assert [lesson["label"] for lesson in answer["lessons"]] == [7] * 6 + ["b"] * 6
    result = client.post("/v1/predict-features", json={"rows": rows.tolist()}).json()
    raw = client.post("/v1/predict-features?width=5", content=rows.astype("<f4").tobytes()).json()
    assert result == raw
    assert [one["label"] for one in raw["answers"]] == [7] * 6 + ["b"] * 6
    quick = client.post("/v1/predict-features?width=5&columns=true", content=rows.astype("<f4").tobytes()).json()
    assert quick["lesson"] == raw["lesson"]
    for many, single in {"labels": "label", "confidences": "confidence", "unknown_scores": "unknown_score"}.items():
        assert quick[many] == [one[single] for one in raw["answers"]]
    assert quick["unknown"] == [one["unknown"] for one in raw["answers"]]
    one = client.post("/v1/learn-features?width=5&label=b", content=rows[6:].astype("<f4").tobytes())
    assert len(one.json()["lessons"]) == 6
    each = client.post("/v1/learn-features?width=5&label=7&label=b", content=rows[5:7].astype("<f4").tobytes())
    assert [lesson["label"] for lesson in each.json()["lessons"]] == [7, "b"]  # 7 is known as a number
    assert client.post("/v1/learn-features?width=5&label=7&label=b", content=rows[:3].tobytes()).status_code == 422


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": ["a", "b"]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": "a"}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": [True]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": [1.5]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": [10**30]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": [""]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": ["\ud800"]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": ["a\nb"]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": ["x" * 201]}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": ["a"], "task": []}),
        ("/v1/learn-features", {"rows": [[1, 2]], "labels": ["a"], "more": 1}),
        ("/v1/learn-features", {"rows": [[1, "2"]], "labels": ["a"]}),
        ("/v1/predict-features", {"rows": [[1, 2]]}),
        ("/v1/predict-features", {}),
        ("/v1/predict-features?columns=true", {"rows": [[1, 2]]}),
        ("/v1/predict-features?columns=2", {"rows": [[1, 2]]}),
        ("/v1/undo", {"lesson": True}),
        ("/v1/undo", {"lesson": "1"}),
        ("/v1/undo", {"lesson": 0}),
        ("/v1/undo", {"lesson": -(10**30)}),
        ("/v1/classes/red/rename", {}),
        ("/v1/classes/red/rename", {"to": None}),
        ("/v1/classes/red/rename", {"to": "green", "merge": "yes"}),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(trained, path, sent):
    before = trained.get("/v1/model/file").headers["etag"]
    answer = trained.post(path, content=json.dumps(sent), headers={"content-type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].endswith(".")
    assert trained.get("/v1/model/file").headers["etag"] == before


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/learn", 422),
        ("POST", "/v1/learn?label=", 422),
        ("POST", "/v1/learn?label=%0A", 422),
        ("POST", "/v1/predict?top=0", 422),
        ("POST", "/v1/predict?top=x", 422),
        ("POST", "/v1/learn-features?width=0&label=a", 422),
        ("POST", "/v1/learn-features?width=99999999999&label=a", 422),
        ("GET", "/v1/learn", 405),
        ("PUT", "/v1/learn?label=a", 405),
        ("DELETE", "/v1/classes/none", 404),
        ("DELETE", "/v1/classes/", 422),
        ("POST", "/v1/nothing", 404),
        ("GET", "/page/../../engine.py", 404),
        ("GET", "/page/%2e%2e%2f%2e%2e%2fengine.py", 404),
        ("GET", "/v1/models/none/model", 404),
        ("GET", "/v1/qr", 404),
    ],
)
def test_wrong_requests_are_answered_with_a_sentence(client, method, path, status):
    answer = client.request(method, path, content=image("red") if method == "POST" else None)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"].endswith(".")


def test_the_model_describes_itself(trained):
    about = trained.get("/v1/model").json()
    assert [(one["label"], one["count"]) for one in about["classes"]] == [("blue", 3), ("green", 3), ("red", 3)]
    assert (about["images"], about["lesson"], about["name"]) == (9, 9, "shop.safetensors")
    assert about["recent"][0] == {
        "lesson": 9,
        "kind": "learn",
        "label": "blue",
        "was": about["recent"][0]["was"],
        "undone": False,
    }


def test_the_model_file_comes_with_an_etag_and_only_when_it_has_changed(trained):
    first = trained.get("/v1/model/file")
    tag = {"if-none-match": first.headers["etag"]}
    assert "shop.safetensors" in first.headers["content-disposition"]
    assert trained.get("/v1/model/file", headers=tag).status_code == 304
    trained.teach("red", start=5)
    assert trained.get("/v1/model/file", headers=tag).status_code == 200


def test_a_lesson_is_undone(trained):
    trained.teach("red", start=7)
    answer = trained.post("/v1/undo").json()
    assert answer["undone"]["lesson"] == 10
    assert trained.post("/v1/undo", json={"lesson": 1}).json()["undone"]["label"] == "red"
    assert trained.post("/v1/undo", json={"lesson": 1}).status_code == 409
    assert trained.post("/v1/undo", json={"lesson": 99}).status_code == 404
    assert trained.get("/v1/model").json()["images"] == 8


def test_a_class_is_renamed_merged_and_forgotten(trained):
    assert trained.post("/v1/classes/red/rename", json={"to": "rose / rot"}).json()["renamed"]["new"] == "rose / rot"
    assert trained.post("/v1/classes/green/rename", json={"to": "blue"}).status_code == 409
    assert trained.post("/v1/classes/green/rename", json={"to": "blue", "merge": True}).json()["renamed"]["merged"]
    assert trained.delete("/v1/classes/rose%20%2F%20rot").json()["forgotten"]["samples"] == 3
    assert [one["label"] for one in trained.get("/v1/model").json()["classes"]] == ["blue"]


def test_several_models_are_served_by_their_names(tmp_path):
    with serving(tmp_path, "shop", "garden") as client:
        client.post("/v1/models/garden/learn?label=red", content=image("red"))
        listed = {one["name"]: one["classes"] for one in client.get("/v1/models").json()["models"]}
        assert listed == {"shop": 0, "garden": 1}
        paths = client.get("/openapi.json").json()["paths"]
        for path in paths:
            result = next(iter(paths[path].values())).get("parameters", [])
            assert {one["name"] for one in result if one["in"] == "path"} == set(re.findall(r"{(\w+)}", path))
        assert client.get("/v1/model").status_code == 404
        assert "/v1/models/" in client.get("/v1/model").json()["error"]
        assert client.get("/v1/models/garden/label-studio/health").status_code == 200


def test_the_only_model_has_its_name_too(trained):
    assert trained.get("/v1/models/shop/model").json() == trained.get("/v1/model").json()


def test_health_readiness_and_numbers(trained):
    assert trained.get("/healthz").json() == {"status": "ok"}
    assert trained.get("/readyz").json() == {"ready": True, "problems": []}
    trained.post("/v1/classes/secret%20label/rename", json={"to": "x"})
    text = trained.get("/metrics").text
    assert 'votestream_lessons_total{model="shop"} 9' in text
    assert 'votestream_http_requests_total{method="POST",route="/v1/learn",status="200"} 3' in text
    assert "secret" not in text
    for line in text.splitlines():
        assert line.startswith("# TYPE ") or float(line.rpartition(" ")[2]) >= 0


def test_readiness_says_what_is_in_the_way_and_no_names(client, monkeypatch):
    engine = client.app.state.service.engines["shop"]
    monkeypatch.setattr(type(engine), "problem", "/secret/place cannot be written.")
    answer = client.get("/readyz")
    assert answer.status_code == 200  # predictions go on
    assert len(answer.json()["problems"]) == 1
    assert "secret" not in answer.text
    monkeypatch.setattr(type(engine), "state", "loading")
    assert client.get("/readyz").status_code == 503


def test_the_documentation_lists_every_route_and_loads_nothing_from_elsewhere(client):
    paths = client.get("/openapi.json").json()["paths"]
    for path in ("/v1/learn", "/v1/predict", "/v1/undo", "/v1/classes/{label}/rename", "/v1/events", "/webhook"):
        assert path in paths
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for name in ("docs.js", "docs.css"):
        assert f"/docs/{name}" in page.text
        assert "http" not in client.get(f"/docs/{name}").text
    assert "<script>" not in page.text
    assert " style=" not in page.text


def test_the_page_and_its_files_are_sent_from_memory(client):
    page = client.get("/")
    assert page.status_code == 200
    assert client.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    assert client.get("/page/index.html").content == page.content


async def read_events(app, n, then):
    """The first n events of the stream, after something happens. httpx's own transport waits for the end of a body."""
    got, opened, over = [], asyncio.Event(), asyncio.Event()

    async def receive():
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        for block in message.get("body", b"").decode().split("\n\n"):
            opened.set()
            if block.startswith("event:"):
                name, data = block.split("\n")
                got.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        if len(got) >= n:
            over.set()

    scope = {"type": "http", "method": "GET", "path": "/v1/events", "query_string": b"", "scheme": "http"}
    scope |= {"headers": [(b"host", b"127.0.0.1:8080")], "asgi": {"spec_version": "2.3"}, "http_version": "1.1"}
    reading = asyncio.create_task(app(scope, receive, send))
    await opened.wait()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as other:
        await then(other)
    await asyncio.wait_for(reading, 10)
    return got


def test_changes_are_published_while_they_happen(client):
    async def teach_and_undo(other):
        await other.post("/v1/learn?label=red", content=image("red"))
        await other.post("/v1/undo")

    result = asyncio.run(read_events(client.app, 2, teach_and_undo))
    assert [(name, event["lesson"], event["kind"]) for name, event in result] == [
        ("change", 1, "learn"),
        ("change", 2, "undo"),
    ]
    assert result[0][1]["classes"] == 1
    assert client.app.state.service.streams == 0


def test_the_addresses_for_phones_and_their_code(tmp_path):
    with serving(tmp_path, host="192.168.1.5", port=8080, token=TOKEN) as client:
        client.headers = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/addresses").json()["addresses"] == ["http://192.168.1.5:8080/"]
        code = client.get("/v1/qr")
        assert code.headers["content-type"] == "image/svg+xml"
        assert code.content.startswith(b"<svg")
        assert client.get("/v1/qr", params={"address": "http://evil.example/"}).status_code == 404


def test_the_log_holds_routes_and_no_labels_and_no_tokens(tmp_path, caplog):
    with serving(tmp_path, token=TOKEN, access_log=True) as client, caplog.at_level(logging.INFO):
        client.headers = {"authorization": f"Bearer {TOKEN}"}
        client.post("/v1/learn?label=confidential", content=image("red"))
        client.delete("/v1/classes/confidential")
        client.delete("/v1/confidential")
        client.get("/v1/models/shop/model")
    text = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("votestream"))
    assert "POST /v1/learn 200" in text
    assert "DELETE /v1/classes/{label} 409" in text
    assert "GET /v1/models/{name}/model 200" in text
    assert "confidential" not in text
    assert TOKEN not in text


def test_what_goes_wrong_inside_is_logged_and_not_sent(client, monkeypatch, caplog):
    def broken(*args):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(client.app.state.service.engines["shop"], "describe", broken)
    answer = client.get("/v1/model")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret" in caplog.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(tmp_path):
    settings = EngineSettings(backbone="pixels", device="cpu", max_pixels=50)
    with serving(tmp_path, settings=settings) as client:
        answer = client.post("/v1/learn?label=red", content=image("red"))
        assert answer.status_code == 422
        assert "too large" in answer.json()["error"]
