"""Label Studio's ML backend: predictions for its tasks; annotations are learned, corrected and undone at once."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import Answer, BadRequest, NotThere, Upload
from votestream.serve.labelstudio.annotations import learn, of_tasks, place_of, places_in, standing, task_of, undo
from votestream.serve.labelstudio.connection import Connection
from votestream.serve.labelstudio.labeling_config import Choices, choices_of
from votestream.serve.web import request_body as bodies
from votestream.serve.web.dependencies import Served, TheEngine, TheTaught, done, the_service

MOST_TASKS = 256
ALL = 10_000  # classes
LEARNED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
DELETED = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")

router = APIRouter()
of_model = APIRouter()  # for the page and for programs, beside the model's other routes
PROJECT = {"schema": {"type": "object", "required": ["project"], "properties": {"project": {"type": "integer"}}}}


@router.get("/health", summary="Whether the ML backend runs")
async def health() -> JSONResponse:
    return JSONResponse({"status": "UP", "model_class": "VoteStream"})


@router.post("/setup", summary="Label Studio connects a project")
async def setup(request: Request, engine: TheEngine) -> JSONResponse:
    """Refuses a labeling interface that has no choices for an image."""
    choices_of((await _object(request)).get("schema"))
    return JSONResponse({"model_version": _version(engine)})


@router.post("/predict", summary="Predict tasks of Label Studio")
async def predict(request: Request, engine: TheEngine) -> JSONResponse:
    """One result for each task; an empty one where its image cannot be read or no choice fits."""
    body = await _object(request)
    tasks = _listed(body.get("tasks"))
    if len(tasks) > MOST_TASKS:
        raise BadRequest(f"At most {MOST_TASKS} tasks are predicted at once, got {len(tasks)}.")
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
            outcome = await done(engine.predict(uploads, ALL))
            for answer in outcome.answers:
                results[int(answer.file or 0)] |= _result(choices, answer)
            for one in outcome.problems:
                results[int(one.file)]["problem"] = one.problem
    return JSONResponse({"results": results})


@router.post("/train", summary="Learn what a project of Label Studio knows")
async def train(request: Request, engine: TheTaught) -> JSONResponse:
    """Begins to bring the model in step with the project's annotations."""
    project = str((await _object(request)).get("project", "")).partition(".")[0]  # such as 2.1629208174
    number = int(project) if project.isascii() and project.isdecimal() and len(project) < 20 else None
    return JSONResponse(_begin(request, engine, number), 201)


@of_model.post(
    "/label-studio/sync",
    summary="Bring the model in step with a project of Label Studio",
    status_code=202,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": PROJECT}}},
)
async def begin_sync(request: Request, engine: TheTaught) -> JSONResponse:
    """Annotations are learned, changed ones corrected, deleted ones undone. GET says how far it is."""
    body = await bodies.json_object(request, the_service(request).options.limits, ("project",))
    return JSONResponse(_begin(request, engine, body.get("project")), 202)


@of_model.get("/label-studio/sync", summary="How far the newest synchronisation is")
async def sync_state(
    request: Request, engine: TheTaught, project: Annotated[int, Query(ge=1, lt=1 << 63)]
) -> JSONResponse:
    """Its state ("running", "done" or "failed"), counts, and the first problems."""
    newest = _connection(request).newest_sync(engine, project)
    if newest is None:
        raise NotThere("This project has not been synchronised since the service was started.")
    return JSONResponse(newest.outcome)


@router.post("/webhook", summary="Label Studio tells of annotations", status_code=201)
async def webhook(request: Request, engine: TheTaught) -> JSONResponse:
    """An annotation is learned; of a changed one, the old lesson is undone first; those of deleted tasks are undone."""
    body = await _object(request)
    action = body.get("action")
    outcome: list[dict[str, Any]] = []
    if action in LEARNED:
        choices = choices_of(_part(body, "project").get("label_config"))
        annotations, tasks = _listed(body.get("annotation")), _listed(body.get("task"))
        if len(annotations) != len(tasks):
            raise BadRequest("Each annotation must come with its task: let the webhook send its payload.")
        for annotation, task in zip(annotations, tasks, strict=True):
            try:
                outcome.append(await _learn(request, engine, choices, _place(body, annotation), annotation, task))
            except BadRequest as problem:  # which keeps none of the others from being learned
                if len(annotations) == 1:
                    raise
                outcome.append({"lesson": None, "problem": str(problem)})
    elif action in DELETED:
        places = [_place(body, one) for one in _listed(body.get("annotations", body.get("annotation")))]
        outcome = await _undo(request, engine, places)
    elif action == "TASKS_DELETED":
        outcome = await _undo_tasks(request, engine, body)
    elif action == "START_TRAINING":
        return JSONResponse(_begin(request, engine, _part(body, "project").get("id")), 201)
    return JSONResponse({"status": "ok" if outcome else "ignored", "annotations": outcome}, 201)


def _begin(request: Request, engine: Engine, project: object) -> dict[str, Any]:
    if type(project) is not int or not 1 <= project < 1 << 63:
        raise BadRequest("project must be the number of a project.")
    return _connection(request).sync(engine, project).outcome


async def _learn(
    request: Request, engine: Engine, choices: Choices, place: str, annotation: dict[str, Any], task: dict[str, Any]
) -> dict[str, Any]:
    label, connection = choices.label_of(annotation), _connection(request)
    connection.heard(engine, place)
    async with connection.in_order.turn([place]) as earlier_events:
        if label is None:  # skipped, or the choice was taken away
            await earlier_events()
            return await undo(engine, place)
        async with connection.images.of([choices.image_of(task)], "annotate") as [image]:
            if isinstance(image, BadRequest):
                raise image
            await earlier_events()
            return await learn(engine, place, task.get("id"), label, image)


async def _undo(request: Request, engine: Engine, places: list[str]) -> list[dict[str, Any]]:
    connection = _connection(request)
    outcome = []
    for place in places:
        connection.heard(engine, place)
        async with connection.in_order.turn([place]) as earlier_events:
            await earlier_events()
            outcome.append(await undo(engine, place))
    return outcome


async def _undo_tasks(request: Request, engine: Engine, body: dict[str, Any]) -> list[dict[str, Any]]:
    """What the annotations of deleted tasks taught; Label Studio does not name the annotations."""
    project, in_order = _part(body, "project").get("id"), _connection(request).in_order
    tasks = [task.get("id") for task in _listed(body.get("tasks"))]
    _connection(request).heard(engine, *(task_of(project, task) for task in tasks))
    async with in_order.turn(in_order.pending(places_in(project))) as earlier_events:  # which may belong to the tasks
        await earlier_events()
    return await _undo(request, engine, of_tasks(await asyncio.to_thread(standing, engine, project), tasks))


def _result(choices: Choices, answer: Answer) -> dict[str, Any]:
    """The likeliest of the classes that are choices of the project."""
    for label, probability in answer.probabilities:
        if choices.values is None or str(label) in choices.values:
            value = {"choices": [str(label)]}
            one = {"from_name": choices.name, "to_name": choices.image, "type": "choices", "value": value}
            return {"result": [one], "score": probability}
    return {}


def _place(body: dict[str, Any], annotation: dict[str, Any]) -> str:
    return place_of(_part(body, "project").get("id"), annotation.get("id"))


def _connection(request: Request) -> Connection:
    connection: Connection = request.app.state.label_studio
    return connection


async def _object(request: Request) -> dict[str, Any]:
    body = await bodies.any_json(request, the_service(request).options.limits)
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.")
    return body


def _part(value: dict[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(value.get(key), dict):
        raise BadRequest(f"{key} must be a JSON object.")
    part: dict[str, Any] = value[key]
    return part


def _listed(value: object) -> list[dict[str, Any]]:
    """Objects, of which Label Studio sends one by itself."""
    found: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise BadRequest("Tasks, annotations and results must be JSON objects.")
    return found


def _version(engine: Served) -> str:
    """Changes with each lesson, so that Label Studio asks for new predictions."""
    return f"{engine.name.removesuffix('.safetensors')}-{engine.describe()['lesson']}"
