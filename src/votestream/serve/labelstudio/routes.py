"""Label Studio's ML backend: predictions for its tasks; annotations are learned, corrected and undone at once."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from votestream.serve.engine import Engine
from votestream.serve.labelstudio.annotations import learn, place_of, take_back
from votestream.serve.labelstudio.connection import Connection
from votestream.serve.labelstudio.labeling_config import Choices, choices_of
from votestream.serve.messages import Answer, BadRequest, Upload
from votestream.serve.web import bodies
from votestream.serve.web.service import Served, TheEngine, TheTaught, done, the_service

MOST_TASKS = 256
ALL = 10_000  # classes
LEARNED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
TAKEN_BACK = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")

router = APIRouter()


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


@router.post("/webhook", summary="Label Studio tells of annotations", status_code=201)
async def webhook(request: Request, engine: TheTaught) -> JSONResponse:
    """An annotation is learned; of an updated one, the old lesson is undone first; a deleted one is undone."""
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
    elif action in TAKEN_BACK:
        for annotation in _listed(body.get("annotations", body.get("annotation"))):
            place = _place(body, annotation)
            async with _connection(request).in_order.turn([place]) as earlier_events:
                await earlier_events()
                outcome.append(await take_back(engine, place))
    return JSONResponse({"status": "ok" if outcome else "ignored", "annotations": outcome}, 201)


async def _learn(
    request: Request, engine: Engine, choices: Choices, place: str, annotation: dict[str, Any], task: dict[str, Any]
) -> dict[str, Any]:
    label, connection = _label(choices, annotation), _connection(request)
    async with connection.in_order.turn([place]) as earlier_events:
        if label is None:  # skipped, or the choice was taken away
            await earlier_events()
            return await take_back(engine, place)
        async with connection.images.of([choices.image_of(task)], "annotate") as [image]:
            if isinstance(image, BadRequest):
                raise image
            await earlier_events()
            return await learn(engine, place, task.get("id"), label, image)


def _result(choices: Choices, answer: Answer) -> dict[str, Any]:
    """The likeliest of the classes that are choices of the project."""
    for label, probability in answer.probabilities:
        if choices.values is None or str(label) in choices.values:
            value = {"choices": [str(label)]}
            one = {"from_name": choices.name, "to_name": choices.image, "type": "choices", "value": value}
            return {"result": [one], "score": probability}
    return {}


def _label(choices: Choices, annotation: dict[str, Any]) -> str | None:
    if annotation.get("was_cancelled"):
        return None
    for result in _listed(annotation.get("result", [])):
        if result.get("from_name") == choices.name and result.get("type") == "choices":
            chosen = _part(result, "value").get("choices")
            if isinstance(chosen, list) and len(chosen) == 1 and isinstance(chosen[0], str):
                return chosen[0]
            raise BadRequest("An annotation must choose one class.")
    return None


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
