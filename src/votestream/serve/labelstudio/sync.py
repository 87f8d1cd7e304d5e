"""Synchronising a model with a project: annotations that were made, changed or deleted without a webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import BadRequest, LearnResult, NotFound, ServeError, TooBusy
from votestream.serve.labelstudio.annotations import (
    has_label,
    key_prefix_of,
    learn,
    learned_annotations,
    task_key,
    undo,
)
from votestream.serve.labelstudio.event_order import EventOrder
from votestream.serve.labelstudio.labeling_config import Choices, choices_of
from votestream.serve.labelstudio.studio import Studio, StudioError, StudioStatus
from votestream.serve.labelstudio.task_images import TaskImages

PAGE_SIZE = 50  # tasks in one answer of Label Studio
CONCURRENT = 4  # annotations at the same time
BUSY_SECONDS = 60  # that an annotation waits while the service is busy
MAX_PROBLEMS = 20  # in the outcome
ANNOTATED = {
    "filters": {
        "conjunction": "and",
        "items": [
            {"filter": "filter:tasks:total_annotations", "operator": "greater", "type": "Number", "value": 0},
        ],
    }
}


class Sync:
    """One synchronisation: every annotation is learned, corrected or undone. `outcome` counts them."""

    def __init__(
        self, engine: Engine, studio: Studio, images: TaskImages, event_order: EventOrder, project: int
    ) -> None:
        self._engine, self._studio, self._images, self._event_order = engine, studio, images, event_order
        self.project, self.state = project, "running"  # then "done" or "failed"
        self.task: asyncio.Task[None] | None = None
        self.outdated = set[str]()  # annotations and tasks that a webhook has changed meanwhile
        self._counts = {"learned": 0, "corrected": 0, "undone": 0, "unchanged": 0, "failed": 0}
        self._problems: list[str] = []
        self._error: str | None = None
        self._known: dict[str, LearnResult] = {}  # the annotations that were learned before

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
        self._known = await asyncio.to_thread(learned_annotations, self._engine, self.project)
        choices = choices_of((await self._read(f"/api/projects/{self.project}/")).get("label_config"))
        seen = set[str]()
        async for tasks in self._pages():
            found = [(task, annotation) for task in tasks for annotation in _objects(task.get("annotations"))]
            prefixes = [key_prefix_of(self.project, annotation.get("id")) for _, annotation in found]
            seen.update(prefixes)
            slots = asyncio.Semaphore(CONCURRENT)
            async with asyncio.TaskGroup() as group:
                for prefix, (task, annotation) in zip(prefixes, found, strict=True):
                    group.create_task(self._one(slots, choices, prefix, task, annotation))
        for prefix in self._known.keys() - seen - self.outdated:
            await self._missing(choices, prefix)

    async def _pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        number = left = 1
        while left > 0:
            about = {"project": self.project, "fields": "all", "page": number, "page_size": PAGE_SIZE}
            try:
                reply = await self._read(f"/api/tasks?{urlencode({**about, 'query': json.dumps(ANNOTATED)})}")
            except NotFound:  # the last tasks were deleted meanwhile
                return
            tasks, total = _objects(reply.get("tasks")), reply.get("total")
            yield tasks
            left = total - number * PAGE_SIZE if isinstance(total, int) else 0
            number += 1

    async def _one(
        self,
        slots: asyncio.Semaphore,
        choices: Choices,
        prefix: str,
        task: dict[str, Any],
        annotation: dict[str, Any],
    ) -> None:
        async with slots, self._event_order.turn([prefix]) as earlier_events:
            await earlier_events()
            if not self.outdated.isdisjoint((prefix, task_key(self.project, task.get("id")))):
                return
            for second in range(BUSY_SECONDS):
                try:
                    self._counts[await self._settle(choices, prefix, task, annotation)] += 1
                    return
                except TooBusy as problem:
                    if second + 1 == BUSY_SECONDS:
                        self._note(f"Task {task.get('id')}: {problem}")
                    await asyncio.sleep(1)
                except ServeError as problem:
                    self._note(f"Task {task.get('id')}: {problem}")
                    return

    async def _settle(self, choices: Choices, prefix: str, task: dict[str, Any], annotation: dict[str, Any]) -> str:
        """Learn, correct or undo one annotation. Returns what was done."""
        label, known = choices.label_of(annotation), self._known.get(prefix)
        if label is None:
            return await self._undo(prefix) if known else "unchanged"
        if known and has_label(known, label):
            return "unchanged"
        async with self._images.of([choices.image_of(task)], "sync") as [image]:
            if isinstance(image, BadRequest):
                raise image
            reply = await learn(self._engine, prefix, task.get("id"), label, image)
        if "problem" in reply:
            self._note(f"Task {task.get('id')}: {reply['problem']}", failed=False)
        return "corrected" if known else "learned"

    async def _undo(self, prefix: str) -> str:
        reply = await undo(self._engine, prefix)
        if "problem" in reply:
            raise BadRequest(reply["problem"])
        return "unchanged" if reply["undone"] is None else "undone"

    async def _missing(self, choices: Choices, prefix: str) -> None:
        """Undo a learned annotation that no task has any more, if it is deleted or skipped."""
        number = prefix.rpartition("/")[2]
        async with self._event_order.turn([prefix]) as earlier_events:
            await earlier_events()
            if prefix in self.outdated:
                return
            try:
                try:
                    label = choices.label_of(await self._read(f"/api/annotations/{number}/"))
                except NotFound:
                    label = None
                self._counts["unchanged" if label is not None else await self._undo(prefix)] += 1
            except ServeError as problem:
                self._note(f"Annotation {number}: {problem}")

    def _note(self, problem: str, failed: bool = True) -> None:
        self._counts["failed"] += failed
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(problem)

    async def _read(self, target: str) -> dict[str, Any]:
        """A JSON object of the API. Raises NotFound if Label Studio does not have it."""
        try:
            reply = await self._images.in_pool("sync", self._studio.read, target)
        except StudioStatus as problem:
            if problem.code == 404:
                raise NotFound(f"Label Studio has no {target.partition('?')[0]}.") from None
            if problem.code in (401, 403):
                raise StudioError(
                    "Label Studio does not let this token read the project: check --label-studio-token or "
                    "LABEL_STUDIO_API_KEY."
                ) from None
            raise
        if not isinstance(reply, dict):
            raise StudioError("Label Studio does not answer with the expected data.")
        return reply


def _objects(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise StudioError("Label Studio does not answer with the expected data.")
    return value
