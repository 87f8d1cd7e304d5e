"""The state that all requests of Label Studio share."""

from __future__ import annotations

import asyncio

from votestream.serve.engine import Engine
from votestream.serve.engine.messages import BadRequest, TooBusy
from votestream.serve.labelstudio.event_order import EventOrder
from votestream.serve.labelstudio.studio import Studio
from votestream.serve.labelstudio.sync import Sync
from votestream.serve.labelstudio.task_images import TaskImages
from votestream.serve.web.options import Options

MAX_SYNCS = 4  # at the same time


class LabelStudioConnection:
    """The client of the Label Studio in the options, the order of its events, and the synchronisations."""

    def __init__(self, options: Options) -> None:
        self.studio = None if options.label_studio is None else Studio(options.label_studio)
        self.images = TaskImages(self.studio, options.limits)
        self.event_order = EventOrder()
        self._syncs: dict[tuple[str, int], Sync] = {}  # the newest for each model and project

    def sync(self, engine: Engine, project: int) -> Sync:
        """Start to synchronise a model with a project. Returns the running synchronisation, if there is one."""
        if self.studio is None:
            raise BadRequest(
                "The service does not know the address of Label Studio: start it with --label-studio-url ADDRESS."
            )
        before = self._syncs.get((engine.name, project))
        if before is not None and before.state == "running":
            return before
        if sum(one.state == "running" for one in self._syncs.values()) >= MAX_SYNCS:
            raise TooBusy("Other projects are being synchronised: try again later.", retry_after=30)
        made = Sync(engine, self.studio, self.images, self.event_order, project)
        self._syncs = {key: one for key, one in self._syncs.items() if one.state == "running"}
        self._syncs[engine.name, project] = made
        made.task = asyncio.create_task(made.run())
        return made

    def newest_sync(self, engine: Engine, project: int) -> Sync | None:
        return self._syncs.get((engine.name, project))

    def note_event(self, engine: Engine, *keys: str) -> None:
        """Note that a webhook changes annotations or tasks: what a synchronisation has read of them is outdated."""
        for (name, _), one in self._syncs.items():
            if name == engine.name:
                one.outdated.update(keys)
