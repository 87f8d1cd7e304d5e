"""Learning, correcting and undoing annotations of Label Studio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any

from votestream.images.class_folders import composed
from votestream.serve.engine import Engine
from votestream.serve.engine.idempotency import ANNOTATION_PREFIX
from votestream.serve.engine.messages import AlreadyUndone, BadRequest, Conflict, LearnResult, NotFound, Upload

# Learning an annotation has the idempotency key PREFIX/1, its first correction PREFIX/2, and so on. Undoing PREFIX/1
# has the key PREFIX/1/undo. So a repeated webhook has a known key, and nothing is learned twice. The file name in the
# stored answer says which task it was.


def key_prefix_of(project: object, annotation: object) -> str:
    """The prefix of the keys of an annotation."""
    return f"{project_prefix(project)}{_number(annotation, 'annotation.id')}"


def project_prefix(project: object) -> str:
    """The prefix of the keys of all annotations of a project."""
    return f"{ANNOTATION_PREFIX}{_number(project, 'project.id')}/"


def task_key(project: object, task: object) -> str:
    """A name for a task of a project, unlike any key of an annotation."""
    return f"{project_prefix(project)}{_task_name(task)}"


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise BadRequest(f"{name} must be a whole number.")
    return value


async def learn(engine: Engine, prefix: str, task: object, label: str, image: bytes) -> dict[str, Any]:
    """Learn an annotation. If it had another label before, undo that first."""
    upload, problem = Upload(image, _task_name(task)), {}
    newest, learned = _newest(engine, prefix)
    if learned is not None and engine.answered(f"{prefix}/{newest}/undo") is None:
        try:
            # The image's name is part of the request, and earlier versions chose another name.
            same = Upload(image, learned.lessons[-1].file or upload.name)
            return _learned_to_json(await asyncio.wrap_future(engine.learn([same], label, key=f"{prefix}/{newest}")))
        except Conflict:  # the label or the image is another one now
            undone = await undo(engine, prefix)
            problem = {"problem": undone["problem"]} if "problem" in undone else {}
    return (
        _learned_to_json(await asyncio.wrap_future(engine.learn([upload], label, key=f"{prefix}/{newest + 1}")))
        | problem
    )


async def undo(engine: Engine, prefix: str) -> dict[str, Any]:
    """Undo an annotation, if it was learned."""
    newest, learned = _newest(engine, prefix)
    if learned is None:
        return {"lesson": None, "undone": None}
    lesson = learned.lessons[-1].lesson
    try:
        change = await asyncio.wrap_future(engine.undo(lesson, f"{prefix}/{newest}/undo"))
    except AlreadyUndone:  # by a user of the page
        return {"lesson": None, "undone": None}
    except (Conflict, NotFound) as problem:  # it is too old, or a later change needs it
        return {"lesson": None, "undone": None, "problem": str(problem)}
    return {"lesson": change.lesson, "undone": lesson}


def learned_annotations(engine: Engine, project: object) -> dict[str, LearnResult]:
    """The annotations of a project that are learned and not undone, by key prefix."""
    newest: dict[str, int] = {}
    undone = set()
    for key in engine.annotation_keys(project_prefix(project)):
        prefix, _, number = key.removesuffix("/undo").rpartition("/")
        if key.endswith("/undo"):
            undone.add(key.removesuffix("/undo"))
        elif number.isdecimal():
            newest[prefix] = max(int(number), newest.get(prefix, 0))
    keys = {prefix: f"{prefix}/{number}" for prefix, number in newest.items() if f"{prefix}/{number}" not in undone}
    answers = {prefix: engine.answered(key) for prefix, key in keys.items()}
    return {prefix: learned for prefix, learned in answers.items() if isinstance(learned, LearnResult)}


def annotations_of_tasks(found: dict[str, LearnResult], tasks: Iterable[object]) -> list[str]:
    """The key prefixes of the annotations that belong to one of the tasks."""
    names = {_task_name(task) for task in tasks}
    return [prefix for prefix, learned in found.items() if learned.lessons[-1].file in names]


def has_label(learned: LearnResult, label: str) -> bool:
    """Whether the annotation was learned with this label, which the model may write differently."""
    return composed(str(learned.lessons[-1].label)) == composed(label.strip())


def _task_name(task: object) -> str:
    return f"task {task}"


def _newest(engine: Engine, prefix: str) -> tuple[int, LearnResult | None]:
    """How often the annotation was learned, and the result of the last time."""
    newest = next(number - 1 for number in count(1) if engine.answered(f"{prefix}/{number}") is None)
    learned = engine.answered(f"{prefix}/{newest}")
    return newest, learned if isinstance(learned, LearnResult) else None


def _learned_to_json(outcome: LearnResult) -> dict[str, Any]:
    if not outcome.lessons:
        raise BadRequest(outcome.problems[0].problem)
    return {"lesson": outcome.lessons[-1].lesson, "label": outcome.lessons[-1].label}
