"""Learning, correcting and undoing what an annotation of Label Studio says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any

from votestream.images.class_folders import composed
from votestream.serve.engine import Engine
from votestream.serve.engine.idempotency import ANNOTATION
from votestream.serve.engine.messages import AlreadyUndone, BadRequest, Conflict, NotThere, Taught, Upload

# What an annotation taught has the key PLACE/1, PLACE/2 after its first correction, and so on; PLACE/1/undo where that
# was undone. So a webhook that is sent again meets its own key, and nothing is learned twice. The name of the image in
# the kept answer says which task it was.


def place_of(project: object, annotation: object) -> str:
    """What the keys of an annotation begin with."""
    return f"{places_in(project)}{_number(annotation, 'annotation.id')}"


def places_in(project: object) -> str:
    """What the keys of all annotations of a project begin with."""
    return f"{ANNOTATION}{_number(project, 'project.id')}/"


def task_of(project: object, task: object) -> str:
    """What stands for a task of a project."""
    return f"{places_in(project)}{_name_of(task)}"


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise BadRequest(f"{name} must be a whole number.")
    return value


async def learn(engine: Engine, place: str, task: object, label: str, image: bytes) -> dict[str, Any]:
    """Learn an annotation; where it said something else before, undo that first."""
    upload, problem = Upload(image, _name_of(task)), {}
    newest, taught = _newest(engine, place)
    if taught is not None and engine.answered(f"{place}/{newest}/undo") is None:
        try:
            # The key stands for the image's name, too, which earlier versions chose otherwise.
            same = Upload(image, taught.lessons[-1].file or upload.name)
            return _learned(await asyncio.wrap_future(engine.learn([same], label, key=f"{place}/{newest}")))
        except Conflict:  # another label or image than then
            undone = await undo(engine, place)
            problem = {"problem": undone["problem"]} if "problem" in undone else {}
    return _learned(await asyncio.wrap_future(engine.learn([upload], label, key=f"{place}/{newest + 1}"))) | problem


async def undo(engine: Engine, place: str) -> dict[str, Any]:
    """Undo what an annotation taught, if anything."""
    newest, taught = _newest(engine, place)
    if taught is None:
        return {"lesson": None, "undone": None}
    lesson = taught.lessons[-1].lesson
    try:
        change = await asyncio.wrap_future(engine.undo(lesson, f"{place}/{newest}/undo"))
    except AlreadyUndone:  # on the page
        return {"lesson": None, "undone": None}
    except (Conflict, NotThere) as problem:  # too long ago, or a later change needs it
        return {"lesson": None, "undone": None, "problem": str(problem)}
    return {"lesson": change.lesson, "undone": lesson}


def standing(engine: Engine, project: object) -> dict[str, Taught]:
    """The annotations of a project that were learned and not undone since, by their places."""
    newest: dict[str, int] = {}
    undone = set()
    for key in engine.annotation_keys(places_in(project)):
        place, _, number = key.removesuffix("/undo").rpartition("/")
        if key.endswith("/undo"):
            undone.add(key.removesuffix("/undo"))
        elif number.isdecimal():
            newest[place] = max(int(number), newest.get(place, 0))
    keys = {place: f"{place}/{number}" for place, number in newest.items() if f"{place}/{number}" not in undone}
    answers = {place: engine.answered(key) for place, key in keys.items()}
    return {place: taught for place, taught in answers.items() if isinstance(taught, Taught)}


def of_tasks(found: dict[str, Taught], tasks: Iterable[object]) -> list[str]:
    """The places of those that belong to one of the tasks."""
    names = {_name_of(task) for task in tasks}
    return [place for place, taught in found.items() if taught.lessons[-1].file in names]


def says(taught: Taught, label: str) -> bool:
    """Whether that label was learned, in whatever form the model has it."""
    return composed(str(taught.lessons[-1].label)) == composed(label.strip())


def _name_of(task: object) -> str:
    return f"task {task}"


def _newest(engine: Engine, place: str) -> tuple[int, Taught | None]:
    """How often the annotation was learned, and what that was the last time."""
    newest = next(number - 1 for number in count(1) if engine.answered(f"{place}/{number}") is None)
    taught = engine.answered(f"{place}/{newest}")
    return newest, taught if isinstance(taught, Taught) else None


def _learned(outcome: Taught) -> dict[str, Any]:
    if not outcome.lessons:
        raise BadRequest(outcome.problems[0].problem)
    return {"lesson": outcome.lessons[-1].lesson, "label": outcome.lessons[-1].label}
