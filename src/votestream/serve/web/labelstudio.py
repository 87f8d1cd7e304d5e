"""Label Studio's ML backend: predictions for its tasks, and annotations learned, corrected and taken back at once."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from votestream.serve.engine import Engine
from votestream.serve.messages import Answer, BadRequest, Conflict, NotThere, Taught, Upload
from votestream.serve.web import bodies
from votestream.serve.web.labelstudio_config import Choices, choices_of
from votestream.serve.web.labelstudio_images import image_of
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
    results: list[dict[str, Any]] = [{"result": [], "score": 0.0, "model_version": _version(engine)} for _ in tasks]
    uploads = []
    for number, task in enumerate(tasks):
        try:
            uploads.append(Upload(await _image(request, choices, task), str(number)))
        except BadRequest as problem:
            results[number]["problem"] = str(problem)
    if uploads:
        outcome = await done(engine.predict(uploads, ALL))
        for answer in outcome.answers:
            results[int(answer.file or 0)] |= _result(choices, answer)
        for one in outcome.problems:
            results[int(one.file)]["problem"] = one.problem
    return JSONResponse({"results": results})


@router.post("/webhook", summary="Label Studio tells of annotations", status_code=201)
async def webhook(request: Request, engine: TheTaught) -> JSONResponse:
    """An annotation is learned; an updated one takes its old lesson back first; a deleted one is taken back."""
    body = await _object(request)
    action = body.get("action")
    outcome = []
    async with the_service(request).annotating:  # an annotation's changes, one after another
        if action in LEARNED:
            choices = choices_of(_part(body, "project").get("label_config"))
            annotations, tasks = _listed(body.get("annotation")), _listed(body.get("task"))
            if len(annotations) != len(tasks):
                raise BadRequest("Each annotation must come with its task: let the webhook send its payload.")
            for annotation, task in zip(annotations, tasks, strict=True):
                outcome.append(await _learn(request, engine, choices, _place(body, annotation), annotation, task))
        elif action in TAKEN_BACK:
            for annotation in _listed(body.get("annotations", body.get("annotation"))):
                outcome.append(await _take_back(engine, _place(body, annotation)))
    return JSONResponse({"status": "ok" if outcome else "ignored", "annotations": outcome}, 201)


async def _learn(
    request: Request, engine: Engine, choices: Choices, place: str, annotation: dict[str, Any], task: dict[str, Any]
) -> dict[str, Any]:
    label = _label(choices, annotation)
    if label is None:  # skipped, or the choice was taken away
        return await _take_back(engine, place)
    uploads = [Upload(await _image(request, choices, task))]
    # The lessons of an annotation have keys that are counted: place/1, place/2 after the first update. A webhook that
    # is sent again meets its own key, and nothing is learned twice.
    newest = _newest(engine, place)
    if newest and engine.answered(f"{place}/{newest}/undo") is None:
        try:
            return _learned(await done(engine.learn(uploads, label, key=f"{place}/{newest}")))
        except Conflict:  # another label or image than then
            await _take_back(engine, place)
    return _learned(await done(engine.learn(uploads, label, key=f"{place}/{newest + 1}")))


async def _take_back(engine: Engine, place: str) -> dict[str, Any]:
    newest = _newest(engine, place)
    taught = engine.answered(f"{place}/{newest}")
    if not isinstance(taught, Taught):
        return {"lesson": None, "undone": None}
    lesson = taught.lessons[-1].lesson
    try:
        change = await done(engine.undo(lesson, f"{place}/{newest}/undo"))
    except (Conflict, NotThere) as problem:  # taken back on the page, or too long ago
        return {"lesson": None, "undone": None, "problem": str(problem)}
    return {"lesson": change.lesson, "undone": lesson}


def _newest(engine: Engine, place: str) -> int:
    """How often the annotation was learned."""
    return next(number - 1 for number in count(1) if engine.answered(f"{place}/{number}") is None)


def _learned(outcome: Taught) -> dict[str, Any]:
    if not outcome.lessons:
        raise BadRequest(outcome.problems[0].problem)
    return {"lesson": outcome.lessons[-1].lesson, "label": outcome.lessons[-1].label}


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
    """What the lessons of an annotation are kept under."""
    numbers = _part(body, "project").get("id"), annotation.get("id")
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise BadRequest("project.id and annotation.id must be whole numbers.")
    return f"label-studio/{numbers[0]}/{numbers[1]}"


async def _image(request: Request, choices: Choices, task: dict[str, Any]) -> bytes:
    options = the_service(request).options
    value = _part(task, "data").get(choices.key)
    return await asyncio.to_thread(image_of, value, options.label_studio, options.limits.body_bytes)


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
