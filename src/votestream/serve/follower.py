"""A model that is taught elsewhere: a read-only copy that predicts, and is kept up to date.

One thread listens to the writer's events and another fetches, so that however many changes are told of, one fetch is
under way and the newest state is what it brings.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from votestream.model_store.lock import model_lock as alone
from votestream.model_store.model_file import DEFAULT_LEARNER as LEARNER
from votestream.model_store.model_file import check_device, new_learner
from votestream.model_store.paths import ModelStoreError as PhotoError
from votestream.model_store.paths import check_model_path as check_target
from votestream.model_store.paths import resolve_link as followed
from votestream.serve.copies import Copied, LocalCopy
from votestream.serve.looker import Looker
from votestream.serve.messages import NotReady, Version
from votestream.serve.predicting import PredictingEngine
from votestream.serve.settings import EngineSettings
from votestream.serve.sight import Sight
from votestream.serve.upstream import Heard, Unreachable, Unusable, Upstream
from votestream.serve.view import View

LOG = logging.getLogger("votestream.serve")
STALE_SECONDS = 60.0  # without a sign of life of the writer, which sends one every 15 seconds
LONGEST_REST = 10.0  # after a fetch it rests as long as that took, so that predictions get half of the time at least
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # seconds before another attempt


class Follower(PredictingEngine):
    """A copy of the model that `upstream` serves. See `PredictingEngine`."""

    def __init__(
        self,
        copy: LocalCopy,
        upstream: Upstream,
        copied: Copied | None,
        contact: bool,
        settings: EngineSettings,
        held: ExitStack,
        max_stale: float | None,
    ) -> None:
        self._copy, self._upstream, self._max_stale = copy, upstream, max_stale
        self._version: Version | None = None
        self._shown = View("", 0, new_learner(LEARNER, None, 0), None, None)
        super().__init__(copy.path.name, Sight(None, False, settings), [], settings, held)
        self._started = time.monotonic()
        self._contact = self._started if contact else None
        self._problems: dict[str, str] = {}  # with events, and with fetching
        self._update_seconds = 0.0
        self._stopped = threading.Event()
        self._changed = threading.Condition()  # guards what follows
        self._told = 0  # the newest change that the writer told of since the connection stands
        self._behind_since: float | None = None
        self._asked_for = not contact  # a fetch, whatever was told
        self._not_before = 0.0
        self._attempt = 0
        if copied is not None:
            self._show(copied)
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("listen", self._listen), ("follow", self._keep_up))
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        upstream: Upstream,
        settings: EngineSettings | None = None,
        max_stale: float | None = None,
    ) -> Follower:
        """The writer's newest state, or where it does not answer the copy that lies there; PhotoError says why not."""
        settings = settings or EngineSettings()
        path = followed(Path(path))
        check_target(path)
        check_device(settings.device)
        with ExitStack() as held:
            held.enter_context(alone(path))
            copy, contact, problem = LocalCopy(path, upstream, settings), True, ""
            found: list[Copied] = []
            try:
                copy.update(found.append)
            except Unusable as wrong:
                raise PhotoError(str(wrong)) from None
            except Unreachable as absent:
                contact, problem = False, str(absent)
                if copy.version is not None and not copy.trusted:
                    raise PhotoError(f"{problem} Whether {path} is a copy of its model cannot be told.") from None
            if not found and copy.version is not None:
                found = [copy.load()]
            made = cls(copy, upstream, found[0] if found else None, contact, settings, held.pop_all(), max_stale)
            if problem:
                made._trouble("fetch", problem)
            return made

    def close(self) -> None:
        if self._process == os.getpid():
            self._stopped.set()
            self._upstream.close()
            self._copy.close()
            with self._changed:
                self._changed.notify_all()
            for thread in self._threads:
                thread.join(1)  # one that is connecting may take longer, and changes nothing any more
        super().close()

    # ---- listening ------------------------------------------------------------------------------

    def _listen(self) -> None:
        attempt = 0
        while not self._stopped.is_set():
            try:
                with self._upstream.events() as told:
                    self._connected()
                    for heard in told:
                        attempt = 0
                        self._hear(heard)
            except Exception as problem:
                self._trouble("events", _said(problem))
            with self._changed:
                self._told, self._asked_for = 0, True  # where only events do not come through, the file still may
                self._changed.notify_all()
            self._stopped.wait(_pause(attempt))
            attempt += 1

    def _connected(self) -> None:
        """Whatever happened while nobody listened: it may be another process now, with other numbers."""
        self._problems.pop("events", None)
        with self._changed:
            self._told, self._asked_for = 0, True
            self._not_before, self._attempt = 0.0, 0
            self._changed.notify_all()

    def _hear(self, heard: Heard) -> None:
        self._contact = time.monotonic()
        with self._changed:
            self._asked_for |= heard.lost
            if heard.lesson is not None:
                self._told = heard.lesson
                if self._behind and self._behind_since is None:
                    self._behind_since = self._contact
            self._changed.notify_all()

    @property
    def _behind(self) -> bool:
        return self._version is None or self._told > self._version.lesson

    def _note_caught_up(self) -> None:
        with self._changed:
            if not self._behind:
                self._behind_since = None

    def _note_progress(self, told: int, began: float) -> None:
        """A fetch that began then has brought all that was told of by then: what is still to come is newer."""
        with self._changed:
            if self._behind_since is not None and self._version is not None and self._version.lesson >= told:
                self._behind_since = max(self._behind_since, began)

    # ---- fetching -------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        while self._wait_for_change():
            began, failed = time.monotonic(), False
            try:
                self._update()
                self._problems.pop("fetch", None)
            except Exception as problem:  # whatever it is: the copy goes on predicting
                failed = True
                self._trouble("fetch", _said(problem))
                self._counts["failed updates"] += 1
            now = time.monotonic()
            self._update_seconds = now - began
            with self._changed:
                self._not_before = now + (_pause(self._attempt) if failed else min(LONGEST_REST, now - began))
                self._attempt = self._attempt + 1 if failed else 0
                self._asked_for |= failed

    def _wait_for_change(self) -> bool:
        """Until there is something to fetch, and it is time to; False at the end."""
        with self._changed:
            while not self._stopped.is_set():
                wanted, left = self._asked_for or self._behind, self._not_before - time.monotonic()
                if wanted and left <= 0:
                    self._asked_for = False
                    return True
                self._changed.wait(left if wanted else None)
        return False

    def _update(self) -> None:
        told, began = self._told, time.monotonic()
        self._copy.update(self._show)
        self._contact = time.monotonic()
        self._note_caught_up()
        self._note_progress(told, began)
        if self._behind and (now := self._shown.number) < told:
            raise Unreachable(
                f"{self._upstream.url} tells of lesson {told} and sends lesson {now}: something between may keep old "
                "answers."
            )

    def _show(self, copied: Copied) -> None:
        """Predict with this state from here on."""
        (version, learner, snapshot, backbone), known = copied, self._version
        if version == known:
            return  # it was shown, and could not be written
        if known is not None and version.lesson < known.lesson:
            self._counts["went back"] += 1
            LOG.warning("the writer went back from lesson %d to %d", known.lesson, version.lesson)
        before, old = self._shown, None
        learner = learner or new_learner(LEARNER, None, 0)
        view = View(version.model, version.lesson, learner, snapshot, backbone)
        if backbone != before.backbone:
            old, self._sight = self._looker, Sight(backbone, False, self.settings)
            self._looker = Looker(self._sight, self._seen, self.settings)
        self._shown, self._version = view, version
        self._note_caught_up()
        if old is not None:
            old.close()
        self._counts["updates"] += 1
        self._events.tell({"kind": "copy", "lesson": version.lesson})

    # ---- telling --------------------------------------------------------------------------------

    def _trouble(self, where: str, sentence: str) -> None:
        if self._problems.get(where) != sentence and not self._stopped.is_set():
            self._problems[where] = sentence
            LOG.warning(sentence)

    @property
    def writer(self) -> str:
        """The address at which the model is taught."""
        return self._upstream.page

    @property
    def _view(self) -> View:
        return self._shown

    @property
    def _silent_seconds(self) -> float:
        """Since the last sign of life of the writer, or since the start."""
        return time.monotonic() - (self._started if self._contact is None else self._contact)

    @property
    def stale(self) -> bool:
        """Whether the copy may be old: the writer was silent for so long, or told of a change that long ago."""
        limit = STALE_SECONDS if self._max_stale is None else self._max_stale
        return self._contact is None or max(self._silent_seconds, self._seconds_behind) > limit

    @property
    def state(self) -> str:
        """Also "stale", where the copy may not predict then."""
        if self._version is None and not self._stopping:
            return "loading"
        state = super().state
        return "stale" if state == "ready" and self._max_stale is not None and self.stale else state

    @property
    def problem(self) -> str | None:
        return super().problem or next(iter(list(self._problems.values())), None)

    def describe(self) -> dict[str, Any]:
        about = super().describe()
        if not self._shown.fitted:
            about["learner"] = None  # the file says which it is, and there is none
        following = {
            "writer": self.writer,
            "stale": self.stale,
            "seconds_since_contact": round(self._silent_seconds, 1),
        }
        return {**about, "following": {**following, "seconds_behind": round(self._seconds_behind, 3)}}

    @property
    def _seconds_behind(self) -> float:
        since = self._behind_since
        return 0.0 if since is None else time.monotonic() - since

    def statistics(self) -> dict[str, float]:
        told = super().statistics()
        return {
            **told,
            "writer_lesson": max(self._told, told["lesson"]),
            "seconds_since_contact": round(self._silent_seconds, 3),
            "seconds_behind": round(self._seconds_behind, 3),
            "stale": int(self.stale),
            "updates": self._counts["updates"],
            "failed_updates": self._counts["failed updates"],
            "update_seconds": self._update_seconds,
            "writer_went_back": self._counts["went back"],
        }

    def _check_open(self) -> None:
        super()._check_open()
        if self._version is None:
            raise NotReady("The writer has not been reached yet: there is no copy of its model.")


def _pause(attempt: int) -> float:
    """Seconds before another attempt, longer each time, and not the same for all followers of a writer."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 20)) * random.uniform(0.5, 1)


def _said(problem: Exception) -> str:
    if isinstance(problem, (Unreachable, Unusable, PhotoError)):
        return str(problem)
    return f"The copy could not be brought up to date: {getattr(problem, 'strerror', None) or repr(problem)}."
