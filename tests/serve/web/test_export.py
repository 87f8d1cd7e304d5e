"""The model for places without Python, from the service."""

from __future__ import annotations

import json

import numpy as np
import pytest

from serve.http_client import image, serving
from votestream.serve.engine.settings import EngineSettings


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path, settings=EngineSettings(backbone="reduced_resnet18", device="cpu")) as client:
        yield client


def test_the_onnx_file_answers_as_the_service_does(client):
    onnxruntime = pytest.importorskip("onnxruntime")
    body = {"rows": [[0.0, 1.0], [1.0, 0.0]], "labels": ["up", "right"]}
    client.post("/v1/learn-features", json=body)
    answer = client.get("/v1/model/onnx")
    assert answer.status_code == 200, answer.text
    assert "filename*=UTF-8''shop.onnx" in answer.headers["content-disposition"]
    session = onnxruntime.InferenceSession(answer.content)
    labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
    rows = np.array([[0.1, 0.9], [0.8, 0.3]], np.float32)
    assert [labels[int(number)] for number in session.run(["class"], {"features": rows})[0]] == ["up", "right"]


def test_why_there_is_no_offline_page_is_said(client):
    client.post("/v1/learn-features", json={"rows": [[0.0, 1.0]], "labels": ["up"]})
    answer = client.get("/v1/model/page")
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("This model cannot be exported so: A page classifies photos")


@pytest.mark.parametrize("kind", ["onnx", "page"])
def test_a_model_that_has_learned_nothing_is_not_exported(client, kind):
    assert client.get(f"/v1/model/{kind}").status_code == 409


def test_the_photos_of_one_model_are_distinguished_from_those_of_another(client, tmp_path):
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        identities = {each.get("/v1/model").json()["identity"] for each in (client, other)}
    assert len(identities) == 2
    client.post("/v1/learn?label=red", content=image("red"))
    assert client.get("/v1/model").json()["identity"] in identities
