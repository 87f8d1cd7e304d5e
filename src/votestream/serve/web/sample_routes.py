"""Routes that learn and predict: images, and rows of features."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from votestream.serve.engine.messages import Answer, Answers, BadRequest, Guess, Label, Lesson, Problem, Taught
from votestream.serve.web import request_body as bodies
from votestream.serve.web.dependencies import TheEngine, TheKey, TheTaught, done, the_service

TOP = 5  # probabilities given, unless another number is asked for
WIDEST = 100_000
Top = Annotated[int, Query(ge=1, le=10_000, description="So many probabilities, the highest first.")]
Task = Annotated[str | None, Query(max_length=200, description="The task that a new class belongs to.")]
Width = Annotated[int | None, Query(ge=1, le=WIDEST, description="Numbers in a row, where the body is float32.")]
Quickly = Annotated[
    bool, Query(description="Lists of labels, confidences and unknown scores only: fast for many rows.")
]
IMAGES = {
    "requestBody": {
        "required": True,
        "description": "An image, or a form with any number of files.",
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            },
        },
    }
}


def _features(**more: Any) -> dict[str, Any]:
    """What the documentation says of a body of features."""
    rows = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    content = {
        "application/json": {"schema": {"type": "object", "required": ["rows", *more], "properties": {"rows": rows}}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    }
    content["application/json"]["schema"]["properties"] |= more  # type: ignore[index]
    return {"requestBody": {"required": True, "description": "Rows of features.", "content": content}}


router = APIRouter()


@router.post("/learn", summary="Learn images of a class", openapi_extra=IMAGES)
async def learn(request: Request, engine: TheTaught, label: str, task: Task = None, key: TheKey = None) -> JSONResponse:
    """Answers when the lessons are on disk. Each file is a lesson; files that cannot be read are named."""
    uploads = await bodies.images(request, the_service(request).options.limits)
    outcome = await done(engine.learn(uploads, label, _task(task), key))
    if not outcome.lessons:
        found = problems(outcome.problems)
        return JSONResponse({"error": found[0]["problem"], "problems": found}, 422)
    return JSONResponse(taught(outcome))


@router.post("/predict", summary="Predict the class of images", openapi_extra=IMAGES)
async def predict(request: Request, engine: TheEngine, top: Top = TOP) -> JSONResponse:
    """One image: its answer. Several files: a list of answers, and the files that could not be read."""
    uploads = await bodies.images(request, the_service(request).options.limits)
    outcome = await done(engine.predict(uploads, top))
    if not outcome.answers:
        found = problems(outcome.problems)
        return JSONResponse({"error": found[0]["problem"], "problems": found}, 422)
    return JSONResponse(told(outcome, single=len(uploads) == 1))


@router.post(
    "/learn-features",
    summary="Learn rows of features",
    openapi_extra=_features(labels={"type": "array"}, task={"type": "string"}),
)
async def learn_features(
    request: Request,
    engine: TheTaught,
    key: TheKey = None,
    width: Width = None,
    label: Annotated[
        list[str] | None, Query(description="Of all rows, or one for each; where the body is float32.")
    ] = None,
    task: Task = None,
) -> JSONResponse:
    """As JSON `{"rows": [[...]], "labels": [...], "task": null}`, or as float32 numbers with `?width=D&label=L`."""
    limits = the_service(request).options.limits
    labels: list[Label]
    if width is None:
        body = await bodies.json_object(request, limits, ("rows", "labels", "task"))
        rows = await bodies.rows_of_json(body.get("rows"))
        labels, task = _labels(body.get("labels")), body.get("task", task)
    else:
        rows = await bodies.rows_of_floats(request, limits, width)
        labels = list(label or ())
        labels = labels * len(rows) if len(labels) == 1 else labels
    if len(labels) != len(rows):
        raise BadRequest(f"There must be a label for each row: got {len(labels)} for {len(rows)} rows.")
    outcome = await done(engine.learn_features(rows, labels, _task(task), key))
    return JSONResponse(taught(outcome))


@router.post("/predict-features", summary="Predict the class of rows of features", openapi_extra=_features())
async def predict_features(
    request: Request, engine: TheEngine, top: Top = TOP, width: Width = None, columns: Quickly = False
) -> JSONResponse:
    """As JSON `{"rows": [[...]]}`, or as float32 numbers, little-endian, with `?width=D`."""
    limits = the_service(request).options.limits
    if width is None:
        rows = await bodies.rows_of_json((await bodies.json_object(request, limits, ("rows",))).get("rows"))
    else:
        rows = await bodies.rows_of_floats(request, limits, width)
    if columns:
        return JSONResponse(vars(await done(engine.predict_columns(rows))))
    return JSONResponse(told(await done(engine.predict_features(rows, top)), single=False))


def _labels(value: object) -> list[Label]:
    if not isinstance(value, list):
        raise BadRequest("labels must be a list, with a label for each row.")
    return [bodies.as_label(one) for one in value]


def _task(value: object) -> Label | None:
    return None if value is None else bodies.as_label(value)


@router.post("/explain", summary="Which parts of an image speak for its class", openapi_extra=IMAGES)
async def explain(request: Request, engine: TheEngine) -> JSONResponse:
    """`places`: how much the log-odds of the class against the second rise where that place of the image counts twice.

    `box` is the part of the image that the places cover. `places` is null where they cannot be told apart. Further
    files of a form are compared with the first: `nearest` lists them by the distance between features.
    """
    first, *others = await bodies.images(request, the_service(request).options.limits)
    found = await done(engine.explain(first, others))
    return JSONResponse(
        {
            "label": found.label,
            "against": found.against,
            "places": None if found.places is None else found.places.round(6).tolist(),
            "box": found.box,
            "nearest": [{"file": name, "distance": distance} for name, distance in found.nearest],
        }
    )


def taught(outcome: Taught) -> dict[str, Any]:
    """What one request taught: the last lesson, and all of them."""
    return {
        **_lesson(outcome.lessons[-1]),
        "lessons": [{**_lesson(lesson), "file": lesson.file} for lesson in outcome.lessons],
        "problems": problems(outcome.problems),
    }


def told(outcome: Answers, single: bool) -> dict[str, Any]:
    """The answer to one image, or those to several."""
    if single:
        return answer(outcome.answers[0])
    return {
        "lesson": max(one.lesson for one in outcome.answers),
        "answers": [{**answer(one), "file": one.file} for one in outcome.answers],
        "problems": problems(outcome.problems),
    }


def answer(one: Answer) -> dict[str, Any]:
    vote = None
    if one.vote is not None:
        tasks = [
            {
                "task": candidate.task,
                "candidate": candidate.candidate,
                "within": candidate.within,
                "prior": candidate.prior,
                "score": candidate.score,
            }
            for candidate in one.vote
        ]
        vote = {"tasks": tasks, "winner_task": one.winner_task}
    return {
        "lesson": one.lesson,
        "label": one.label,
        "confidence": one.confidence,
        "unknown_score": one.unknown_score,
        "unknown": one.unknown,
        "probabilities": [{"label": label, "probability": p} for label, p in one.probabilities],
        "vote": vote,
        "words": one.words,
    }


def problems(found: list[Problem]) -> list[dict[str, str]]:
    return [{"file": one.file, "problem": one.problem} for one in found]


def _lesson(lesson: Lesson) -> dict[str, Any]:
    return {
        "lesson": lesson.lesson,
        "label": lesson.label,
        "new_class": lesson.new_class,
        "similar": lesson.similar,
        "was": _guess(lesson.was),
    }


def _guess(guess: Guess | None) -> dict[str, Any] | None:
    return None if guess is None else {"label": guess.label, "confidence": guess.confidence}
