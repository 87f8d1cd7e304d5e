"""What all requests of Label Studio share."""

from __future__ import annotations

import asyncio

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import BadRequest, TooBusy
from votestream.serve.labelstudio.event_order import InOrder
from votestream.serve.labelstudio.studio import Studio
from votestream.serve.labelstudio.sync import Sync
from votestream.serve.labelstudio.task_images import TaskImages
from votestream.serve.web.options import Options

MOST_SYNCS = 4  # under way


class Connection:
    """The Label Studio of the options, the images of its tasks, the order of its events, and what is synchronised."""

    def __init__(self, options: Options) -> None:
        self.studio = None if options.label_studio is None else Studio(options.label_studio)
        self.images = TaskImages(self.studio, options.limits)
        self.in_order = InOrder()
        self._syncs: dict[tuple[str, int], Sync] = {}  # the newest of each model and project

    def sync(self, engine: Engine, project: int) -> Sync:
        """Begin to bring a model in step with a project; the one that is under way, where there is one."""
        if self.studio is None:
            raise BadRequest("Which Label Studio? Start the service with --label-studio-url ADDRESS.")
        before = self._syncs.get((engine.name, project))
        if before is not None and before.state == "running":
            return before
        if sum(one.state == "running" for one in self._syncs.values()) >= MOST_SYNCS:
            raise TooBusy("Other projects are being synchronised: try again when they are done.", retry_after=30)
        made = Sync(engine, self.studio, self.images, self.in_order, project)
        self._syncs = {key: one for key, one in self._syncs.items() if one.state == "running"}
        self._syncs[engine.name, project] = made
        made.task = asyncio.create_task(made.run())
        return made

    def newest_sync(self, engine: Engine, project: int) -> Sync | None:
        return self._syncs.get((engine.name, project))

    def heard(self, engine: Engine, *places: str) -> None:
        """A webhook tells of annotations or tasks: what a sync has read of them before is out of date."""
        for (name, _), one in self._syncs.items():
            if name == engine.name:
                one.heard.update(places)
