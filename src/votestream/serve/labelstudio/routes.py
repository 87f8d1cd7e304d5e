"""The routes of Label Studio's ML backend: they predict its tasks, and learn, correct and undo its annotations."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import BadRequest, NotFound, Prediction, Upload
from votestream.serve.labelstudio.annotations import (
    annotations_of_tasks,
    key_prefix_of,
    learn,
    learned_annotations,
    project_prefix,
    task_key,
    undo,
)
from votestream.serve.labelstudio.connection import LabelStudioConnection
from votestream.serve.labelstudio.labeling_config import Choices, choices_of
from votestream.serve.web.dependencies import AnyEngine, Served, WritableEngine, limits_of
from votestream.serve.web.request_body import any_json, json_object

MAX_TASKS = 256
ALL_CLASSES = 10_000
LEARNED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
DELETED = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")

router = APIRouter()
of_model = APIRouter()  # routes for the page and for programs, beside the other routes of the model
PROJECT = {"schema": {"type": "object", "required": ["project"], "properties": {"project": {"type": "integer"}}}}


@router.get("/health", summary="Whether the ML backend runs")
async def health() -> JSONResponse:
    return JSONResponse({"status": "UP", "model_class": "VoteStream"})


@router.post("/setup", summary="Label Studio connects a project")
async def setup(request: Request, engine: AnyEngine) -> JSONResponse:
    """Refuses a labeling interface without choices for an image."""
    choices_of((await _body(request)).get("schema"))
    return JSONResponse({"model_version": _version(engine)})


@router.post("/predict", summary="Predict tasks of Label Studio")
async def predict(request: Request, engine: AnyEngine) -> JSONResponse:
    """One result for each task. It is empty if the image cannot be read or no choice fits."""
    body = await _body(request)
    tasks = _objects(body.get("tasks"))
    if len(tasks) > MAX_TASKS:
        raise BadRequest(f"At most {MAX_TASKS} tasks are predicted at once, got {len(tasks)}.")
    choices = choices_of(body.get("label_config"))
    version = _version(engine)
    results: list[dict[str, Any]] = [{"result": [], "score": 0.0, "model_version": version} for _ in tasks]
    async with _connection(request).images.of([choices.image_of(task) for task in tasks], "predict") as images:
        uploads = []
        for number, image in enumerate(images):
            if isinstance(image, BadRequest):
                results[number]["problem"] = str(image)
            else:
                uploads.append(Upload(image, str(number)))
        if uploads:
            outcome = await asyncio.wrap_future(engine.predict(uploads, ALL_CLASSES))
            for answer in outcome.answers:
                results[int(answer.file or 0)] |= _result(choices, answer)
            for one in outcome.problems:
                results[int(one.file)]["problem"] = one.problem
    return JSONResponse({"results": results})


@router.post("/train", summary="Learn the annotations of a project")
async def train(request: Request, engine: WritableEngine) -> JSONResponse:
    """Starts to synchronise the model with the project's annotations."""
    project = str((await _body(request)).get("project", "")).partition(".")[0]  # such as 2.1629208174
    number = int(project) if project.isascii() and project.isdecimal() and len(project) < 20 else None
    return JSONResponse(_start_sync(request, engine, number), 201)


@of_model.post(
    "/label-studio/sync",
    summary="Synchronise the model with a project of Label Studio",
    status_code=202,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": PROJECT}}},
)
async def begin_sync(request: Request, engine: WritableEngine) -> JSONResponse:
    """New annotations are learned, changed ones corrected, deleted ones undone. GET shows the progress."""
    body = await json_object(request, limits_of(request), ("project",))
    return JSONResponse(_start_sync(request, engine, body.get("project")), 202)


@of_model.get("/label-studio/sync", summary="The progress of the newest synchronisation")
async def sync_state(
    request: Request, engine: WritableEngine, project: Annotated[int, Query(ge=1, lt=1 << 63)]
) -> JSONResponse:
    """Its state ("running", "done" or "failed"), counts, and the first problems."""
    newest = _connection(request).newest_sync(engine, project)
    if newest is None:
        raise NotFound("This project has not been synchronised since the service was started.")
    return JSONResponse(newest.outcome)


@router.post("/webhook", summary="Receive an event of Label Studio", status_code=201)
async def webhook(request: Request, engine: WritableEngine) -> JSONResponse:
    """Learns, corrects or undoes annotations. Annotations of deleted tasks are undone."""
    body = await _body(request)
    action = body.get("action")
    outcome: list[dict[str, Any]] = []
    if action in LEARNED:
        choices = choices_of(_object_at(body, "project").get("label_config"))
        annotations, tasks = _objects(body.get("annotation")), _objects(body.get("task"))
        if len(annotations) != len(tasks):
            raise BadRequest("Each annotation must come with its task: let the webhook send its payload.")
        for annotation, task in zip(annotations, tasks, strict=True):
            try:
                outcome.append(
                    await _learn(request, engine, choices, _annotation_key(body, annotation), annotation, task)
                )
            except BadRequest as problem:  # the other annotations are learned all the same
                if len(annotations) == 1:
                    raise
                outcome.append({"lesson": None, "problem": str(problem)})
    elif action in DELETED:
        prefixes = [_annotation_key(body, one) for one in _objects(body.get("annotations", body.get("annotation")))]
        outcome = await _undo(request, engine, prefixes)
    elif action == "TASKS_DELETED":
        outcome = await _undo_tasks(request, engine, body)
    elif action == "START_TRAINING":
        return JSONResponse(_start_sync(request, engine, _object_at(body, "project").get("id")), 201)
    return JSONResponse({"status": "ok" if outcome else "ignored", "annotations": outcome}, 201)


def _start_sync(request: Request, engine: Engine, project: object) -> dict[str, Any]:
    if type(project) is not int or not 1 <= project < 1 << 63:
        raise BadRequest("project must be the number of a project.")
    return _connection(request).sync(engine, project).outcome


async def _learn(
    request: Request, engine: Engine, choices: Choices, prefix: str, annotation: dict[str, Any], task: dict[str, Any]
) -> dict[str, Any]:
    label, connection = choices.label_of(annotation), _connection(request)
    connection.note_event(engine, prefix)
    async with connection.event_order.turn([prefix]) as earlier_events:
        if label is None:  # skipped, or without a choice now
            await earlier_events()
            return await undo(engine, prefix)
        async with connection.images.of([choices.image_of(task)], "annotate") as [image]:
            if isinstance(image, BadRequest):
                raise image
            await earlier_events()
            return await learn(engine, prefix, task.get("id"), label, image)


async def _undo(request: Request, engine: Engine, prefixes: list[str]) -> list[dict[str, Any]]:
    connection = _connection(request)
    outcome = []
    for prefix in prefixes:
        connection.note_event(engine, prefix)
        async with connection.event_order.turn([prefix]) as earlier_events:
            await earlier_events()
            outcome.append(await undo(engine, prefix))
    return outcome


async def _undo_tasks(request: Request, engine: Engine, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Undo the annotations of deleted tasks. Label Studio sends only the tasks."""
    project, event_order = _object_at(body, "project").get("id"), _connection(request).event_order
    tasks = [task.get("id") for task in _objects(body.get("tasks"))]
    _connection(request).note_event(engine, *(task_key(project, task) for task in tasks))
    pending = event_order.pending(project_prefix(project))  # annotations that may belong to the tasks
    async with event_order.turn(pending) as earlier_events:
        await earlier_events()
    learned = await asyncio.to_thread(learned_annotations, engine, project)
    return await _undo(request, engine, annotations_of_tasks(learned, tasks))


def _result(choices: Choices, answer: Prediction) -> dict[str, Any]:
    """The most likely class among the choices of the project."""
    for label, probability in answer.probabilities:
        if choices.values is None or str(label) in choices.values:
            value = {"choices": [str(label)]}
            one = {"from_name": choices.name, "to_name": choices.image, "type": "choices", "value": value}
            return {"result": [one], "score": probability}
    return {}


def _annotation_key(body: dict[str, Any], annotation: dict[str, Any]) -> str:
    return key_prefix_of(_object_at(body, "project").get("id"), annotation.get("id"))


def _connection(request: Request) -> LabelStudioConnection:
    connection: LabelStudioConnection = request.app.state.label_studio
    return connection


async def _body(request: Request) -> dict[str, Any]:
    body = await any_json(request, limits_of(request))
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    return body


def _object_at(value: dict[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(value.get(key), dict):
        raise BadRequest(f"{key} must be a JSON object.")
    part: dict[str, Any] = value[key]
    return part


def _objects(value: object) -> list[dict[str, Any]]:
    """A list of objects. Label Studio sends a single object without a list."""
    found: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise BadRequest("Tasks, annotations and results must be JSON objects.")
    return found


def _version(engine: Served) -> str:
    """The model version. It changes with every lesson, so that Label Studio asks for new predictions."""
    return f"{engine.name.removesuffix('.safetensors')}-{engine.describe()['lesson']}"
