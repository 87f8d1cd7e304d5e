"""Bringing a model in step with a project: whatever was annotated, changed and deleted while nobody listened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import BadRequest, NotThere, ServeError, Taught, TooBusy
from votestream.serve.labelstudio.annotations import learn, place_of, says, standing, task_of, undo
from votestream.serve.labelstudio.event_order import InOrder
from votestream.serve.labelstudio.labeling_config import Choices, choices_of
from votestream.serve.labelstudio.studio import Studio, StudioError, StudioStatus
from votestream.serve.labelstudio.task_images import TaskImages

PAGE = 50  # tasks that Label Studio sends at once
TOGETHER = 4  # annotations under way
PATIENCE = 60  # seconds, of an annotation that waits while the service is busy
MOST_PROBLEMS = 20  # told of
ANNOTATED = {
    "filters": {
        "conjunction": "and",
        "items": [
            {"filter": "filter:tasks:total_annotations", "operator": "greater", "type": "Number", "value": 0},
        ],
    }
}


class Sync:
    """One pass over a project. Its annotations are learned, corrected or undone; `outcome` counts them."""

    def __init__(self, engine: Engine, studio: Studio, images: TaskImages, in_order: InOrder, project: int) -> None:
        self._engine, self._studio, self._images, self._in_order = engine, studio, images, in_order
        self.project, self.state = project, "running"  # then "done" or "failed"
        self.task: asyncio.Task[None] | None = None
        self.heard = set[str]()  # annotations and tasks of which a webhook told meanwhile, which knows better
        self._counts = {"learned": 0, "corrected": 0, "undone": 0, "unchanged": 0, "failed": 0}
        self._problems: list[str] = []
        self._error: str | None = None
        self._known: dict[str, Taught] = {}  # what the annotations taught before

    @property
    def outcome(self) -> dict[str, Any]:
        more = {} if self._error is None else {"error": self._error}
        return {"project": self.project, "state": self.state, **self._counts, "problems": self._problems, **more}

    async def run(self) -> None:
        try:
            await self._run()
            self.state = "done"
        except ServeError as problem:
            self._error, self.state = str(problem), "failed"
        except BaseException:
            self._error, self.state = "The synchronisation was interrupted.", "failed"
            raise

    async def _run(self) -> None:
        self._known = await asyncio.to_thread(standing, self._engine, self.project)
        choices = choices_of((await self._read(f"/api/projects/{self.project}/")).get("label_config"))
        seen = set[str]()
        async for tasks in self._pages():
            found = [(task, annotation) for task in tasks for annotation in _objects(task.get("annotations"))]
            places = [place_of(self.project, annotation.get("id")) for _, annotation in found]
            seen.update(places)
            together = asyncio.Semaphore(TOGETHER)
            async with asyncio.TaskGroup() as group:
                for place, (task, annotation) in zip(places, found, strict=True):
                    group.create_task(self._one(together, choices, place, task, annotation))
        for place in self._known.keys() - seen - self.heard:
            await self._missing(choices, place)

    async def _pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        number = left = 1
        while left > 0:
            about = {"project": self.project, "fields": "all", "page": number, "page_size": PAGE}
            try:
                told = await self._read(f"/api/tasks?{urlencode({**about, 'query': json.dumps(ANNOTATED)})}")
            except NotThere:  # tasks were deleted meanwhile
                return
            tasks, total = _objects(told.get("tasks")), told.get("total")
            yield tasks
            left = total - number * PAGE if isinstance(total, int) else 0
            number += 1

    async def _one(
        self,
        together: asyncio.Semaphore,
        choices: Choices,
        place: str,
        task: dict[str, Any],
        annotation: dict[str, Any],
    ) -> None:
        async with together, self._in_order.turn([place]) as earlier_events:
            await earlier_events()
            if not self.heard.isdisjoint((place, task_of(self.project, task.get("id")))):
                return
            for second in range(PATIENCE):
                try:
                    self._counts[await self._settle(choices, place, task, annotation)] += 1
                    return
                except TooBusy as problem:
                    if second + 1 == PATIENCE:
                        self._note(f"Task {task.get('id')}: {problem}")
                    await asyncio.sleep(1)
                except ServeError as problem:
                    self._note(f"Task {task.get('id')}: {problem}")
                    return

    async def _settle(self, choices: Choices, place: str, task: dict[str, Any], annotation: dict[str, Any]) -> str:
        """Bring the model in step with one annotation; what was done."""
        label, known = choices.label_of(annotation), self._known.get(place)
        if label is None:
            return await self._undo(place) if known else "unchanged"
        if known and says(known, label):
            return "unchanged"
        async with self._images.of([choices.image_of(task)], "sync") as [image]:
            if isinstance(image, BadRequest):
                raise image
            told = await learn(self._engine, place, task.get("id"), label, image)
        if "problem" in told:
            self._note(f"Task {task.get('id')}: {told['problem']}", failed=False)
        return "corrected" if known else "learned"

    async def _undo(self, place: str) -> str:
        told = await undo(self._engine, place)
        if "problem" in told:
            raise BadRequest(told["problem"])
        return "unchanged" if told["undone"] is None else "undone"

    async def _missing(self, choices: Choices, place: str) -> None:
        """An annotation that was learned and did not come with its task: undo it if it is deleted, or skipped now."""
        number = place.rpartition("/")[2]
        async with self._in_order.turn([place]) as earlier_events:
            await earlier_events()
            if place in self.heard:
                return
            try:
                try:
                    label = choices.label_of(await self._read(f"/api/annotations/{number}/"))
                except NotThere:
                    label = None
                self._counts["unchanged" if label is not None else await self._undo(place)] += 1
            except ServeError as problem:
                self._note(f"Annotation {number}: {problem}")

    def _note(self, problem: str, failed: bool = True) -> None:
        self._counts["failed"] += failed
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(problem)

    async def _read(self, target: str) -> dict[str, Any]:
        """A JSON object of the API; NotThere where Label Studio says so."""
        try:
            told = await self._images.in_pool("sync", self._studio.read, target)
        except StudioStatus as problem:
            if problem.code == 404:
                raise NotThere(f"Label Studio has no {target.partition('?')[0]}.") from None
            if problem.code in (401, 403):
                raise StudioError(
                    "Label Studio does not let this token read the project: check --label-studio-token or "
                    "LABEL_STUDIO_API_KEY."
                ) from None
            raise
        if not isinstance(told, dict):
            raise StudioError("Label Studio answers with something else than was asked for.")
        return told


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise StudioError("Label Studio answers with something else than was asked for.")
    return value
