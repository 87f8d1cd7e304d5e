"""Payloads in the shape in which Label Studio sends them."""

from __future__ import annotations

import base64

from serve.http_client import image

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
