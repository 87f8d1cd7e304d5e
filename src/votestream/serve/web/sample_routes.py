"""The routes to learn, predict and explain samples: images, or rows of features."""

from __future__ import annotations

from asyncio import wrap_future
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from votestream.serve.engine.messages import BadRequest, FileProblem, Label, LearnResult, Prediction, PredictResult
from votestream.serve.web.dependencies import AnyEngine, IdempotencyKey, WritableEngine, limits_of
from votestream.serve.web.request_body import as_label, images_in, json_object, rows_of_floats, rows_of_json

TOP = 5  # probabilities in a prediction, by default
WIDEST = 100_000
Top = Annotated[int, Query(ge=1, le=10_000, description="The number of probabilities, highest first.")]
Task = Annotated[str | None, Query(max_length=200, description="The task that a new class belongs to.")]
Width = Annotated[int | None, Query(ge=1, le=WIDEST, description="Numbers in a row, if the body is float32.")]
Quickly = Annotated[
    bool, Query(description="Return only lists of labels, confidences and unknown scores: fast for many rows.")
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
    """The documentation of a body with rows of features."""
    rows = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    content = {
        "application/json": {"schema": {"type": "object", "required": ["rows", *more], "properties": {"rows": rows}}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    }
    content["application/json"]["schema"]["properties"] |= more  # type: ignore[index]
    return {"requestBody": {"required": True, "description": "Rows of features.", "content": content}}


router = APIRouter()


@router.post("/learn", summary="Learn images of a class", openapi_extra=IMAGES)
async def learn(
    request: Request, engine: WritableEngine, label: str, task: Task = None, key: IdempotencyKey = None
) -> JSONResponse:
    """Answers once the samples are on disk. Every file is a sample. Files that cannot be read are named."""
    uploads = await images_in(request, limits_of(request))
    result = await wrap_future(engine.learn(uploads, label, task, key))
    if not result.lessons:
        return _all_unreadable(result.problems)
    return JSONResponse(_learned_to_json(result))


@router.post("/predict", summary="Predict the class of images", openapi_extra=IMAGES)
async def predict(request: Request, engine: AnyEngine, top: Top = TOP) -> JSONResponse:
    """For one image, its prediction. For several files, a list of predictions, and the files that cannot be read."""
    uploads = await images_in(request, limits_of(request))
    result = await wrap_future(engine.predict(uploads, top))
    if not result.answers:
        return _all_unreadable(result.problems)
    return JSONResponse(_predicted_to_json(result, single=len(uploads) == 1))


@router.post(
    "/learn-features",
    summary="Learn rows of features",
    openapi_extra=_features(labels={"type": "array"}, task={"type": "string"}),
)
async def learn_features(
    request: Request,
    engine: WritableEngine,
    key: IdempotencyKey = None,
    width: Width = None,
    label: Annotated[
        list[str] | None, Query(description="For all rows, or one for each row, if the body is float32.")
    ] = None,
    task: Task = None,
) -> JSONResponse:
    """As JSON `{"rows": [[...]], "labels": [...], "task": null}`, or as float32 numbers with `?width=D&label=L`."""
    limits = limits_of(request)
    labels: list[Label]
    if width is None:
        body = await json_object(request, limits, ("rows", "labels", "task"))
        rows = await rows_of_json(body.get("rows"))
        labels, task = _labels(body.get("labels")), body.get("task", task)
    else:
        rows = await rows_of_floats(request, limits, width)
        labels = list(label or ())
        labels = labels * len(rows) if len(labels) == 1 else labels
    if len(labels) != len(rows):
        raise BadRequest(f"There must be a label for each row: got {len(labels)} for {len(rows)} rows.")
    result = await wrap_future(engine.learn_features(rows, labels, None if task is None else as_label(task), key))
    return JSONResponse(_learned_to_json(result))


@router.post("/predict-features", summary="Predict the class of rows of features", openapi_extra=_features())
async def predict_features(
    request: Request, engine: AnyEngine, top: Top = TOP, width: Width = None, columns: Quickly = False
) -> JSONResponse:
    """As JSON `{"rows": [[...]]}`, or as float32 numbers, little-endian, with `?width=D`."""
    limits = limits_of(request)
    if width is None:
        rows = await rows_of_json((await json_object(request, limits, ("rows",))).get("rows"))
    else:
        rows = await rows_of_floats(request, limits, width)
    if columns:
        return JSONResponse(vars(await wrap_future(engine.predict_columns(rows))))
    return JSONResponse(_predicted_to_json(await wrap_future(engine.predict_features(rows, top)), single=False))


def _labels(value: object) -> list[Label]:
    if not isinstance(value, list):
        raise BadRequest("labels must be a list, with a label for each row.")
    return [as_label(one) for one in value]


@router.post("/explain", summary="Which parts of an image speak for its class", openapi_extra=IMAGES)
async def explain(request: Request, engine: AnyEngine) -> JSONResponse:
    """`places`: how much the log-odds of the class against the second rise if that place of the image counts twice.

    `places` is null if the model cannot tell the places apart. `box` is the part of the image that they cover. The
    other files of a form are compared with the first: `nearest` lists them by the distance between features.
    """
    first, *others = await images_in(request, limits_of(request))
    found = await wrap_future(engine.explain(first, others))
    return JSONResponse(
        {
            "label": found.label,
            "against": found.against,
            "places": None if found.places is None else found.places.round(6).tolist(),
            "box": found.box,
            "nearest": [{"file": name, "distance": distance} for name, distance in found.nearest],
        }
    )


def _all_unreadable(problems: list[FileProblem]) -> JSONResponse:
    """The answer to a request in which no file can be read."""
    return JSONResponse({"error": problems[0].problem, "problems": list(map(vars, problems))}, 422)


def _learned_to_json(result: LearnResult) -> dict[str, Any]:
    """The last sample and all samples of a request to learn."""
    samples = [{**vars(sample), "was": None if sample.was is None else vars(sample.was)} for sample in result.lessons]
    last = {name: value for name, value in samples[-1].items() if name != "file"}
    return {**last, "lessons": samples, "problems": list(map(vars, result.problems))}


def _predicted_to_json(result: PredictResult, single: bool) -> dict[str, Any]:
    """The prediction for one image, or the predictions for several."""
    predictions = [_prediction_to_json(prediction) for prediction in result.answers]
    if single:
        return predictions[0]
    return {
        "lesson": max(prediction.lesson for prediction in result.answers),
        "answers": [
            {**fields, "file": prediction.file} for fields, prediction in zip(predictions, result.answers, strict=True)
        ],
        "problems": list(map(vars, result.problems)),
    }


def _prediction_to_json(prediction: Prediction) -> dict[str, Any]:
    vote = None
    if prediction.vote is not None:
        vote = {"tasks": [vars(task) for task in prediction.vote], "winner_task": prediction.winner_task}
    return {
        "lesson": prediction.lesson,
        "label": prediction.label,
        "confidence": prediction.confidence,
        "unknown_score": prediction.unknown_score,
        "unknown": prediction.unknown,
        "probabilities": [{"label": label, "probability": p} for label, p in prediction.probabilities],
        "vote": vote,
        "words": prediction.words,
    }
