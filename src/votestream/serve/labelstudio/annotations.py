"""Learning, correcting and undoing what an annotation of Label Studio says."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from votestream.serve.engine import Engine
from votestream.serve.messages import BadRequest, Conflict, NotThere, Taught, Upload

# What an annotation taught has the keys PLACE/1, PLACE/2 after its first correction, and so on; PLACE/1/undo where it
# was undone. So a webhook that is sent again meets its own key, and nothing is learned twice.


def place_of(project: object, annotation: object) -> str:
    """What the keys of an annotation begin with."""
    numbers = project, annotation
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise BadRequest("project.id and annotation.id must be whole numbers.")
    return f"label-studio/{project}/{annotation}"


async def learn(engine: Engine, place: str, task: object, label: str, image: bytes) -> dict[str, Any]:
    """Learn an annotation; where it said something else before, undo that first."""
    upload, problem = Upload(image, f"task {task}"), {}
    newest, taught = _newest(engine, place)
    if taught is not None and engine.answered(f"{place}/{newest}/undo") is None:
        try:
            # The key stands for the image's name, too, which earlier versions chose otherwise.
            same = Upload(image, taught.lessons[-1].file or upload.name)
            return _learned(await asyncio.wrap_future(engine.learn([same], label, key=f"{place}/{newest}")))
        except Conflict:  # another label or image than then
            undone = await take_back(engine, place)
            problem = {"problem": undone["problem"]} if "problem" in undone else {}
    return _learned(await asyncio.wrap_future(engine.learn([upload], label, key=f"{place}/{newest + 1}"))) | problem


async def take_back(engine: Engine, place: str) -> dict[str, Any]:
    """Undo what an annotation taught, if anything."""
    newest, taught = _newest(engine, place)
    if taught is None:
        return {"lesson": None, "undone": None}
    lesson = taught.lessons[-1].lesson
    try:
        change = await asyncio.wrap_future(engine.undo(lesson, f"{place}/{newest}/undo"))
    except (Conflict, NotThere) as problem:  # undone on the page, or too long ago
        return {"lesson": None, "undone": None, "problem": str(problem)}
    return {"lesson": change.lesson, "undone": lesson}


def _newest(engine: Engine, place: str) -> tuple[int, Taught | None]:
    """How often the annotation was learned, and what that was the last time."""
    newest = next(number - 1 for number in count(1) if engine.answered(f"{place}/{number}") is None)
    taught = engine.answered(f"{place}/{newest}")
    return newest, taught if isinstance(taught, Taught) else None


def _learned(outcome: Taught) -> dict[str, Any]:
    if not outcome.lessons:
        raise BadRequest(outcome.problems[0].problem)
    return {"lesson": outcome.lessons[-1].lesson, "label": outcome.lessons[-1].label}
