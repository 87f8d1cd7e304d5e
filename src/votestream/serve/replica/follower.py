"""A follower: a read-only copy of a model that another service, the writer, trains. It predicts and stays up to date.

One thread listens to the writer's events, and another fetches the model file. So only one fetch runs at a time, however
many events arrive, and it brings the newest state.
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

from votestream.model_store.lock import model_lock
from votestream.model_store.model_file import DEFAULT_LEARNER, check_device, new_learner
from votestream.model_store.paths import ModelStoreError, check_model_path, resolve_link
from votestream.serve.engine.features import BackboneLoader, FeatureExtractor
from votestream.serve.engine.messages import ModelVersion, NotReady
from votestream.serve.engine.model_view import ModelView
from votestream.serve.engine.predictions import PredictionEngine
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.replica.local_copy import LoadedModel, LocalCopy
from votestream.serve.replica.upstream import Unreachable, Unusable, Upstream, WriterEvent

LOG = logging.getLogger("votestream.serve")
STALE_SECONDS = 60.0  # without contact to the writer, which sends a comment every 15 seconds
MAX_REST_SECONDS = 10.0  # a fetch is resolve_link by a rest as long as itself, so that predictions get half of the time
FIRST_PAUSE, MAX_PAUSE = 0.25, 30.0  # seconds before another attempt


class Follower(PredictionEngine):
    """A copy of the model that `upstream` serves. See `PredictionEngine`."""

    def __init__(
        self,
        copy: LocalCopy,
        upstream: Upstream,
        loaded: LoadedModel | None,
        contact: bool,
        settings: EngineSettings,
        held: ExitStack,
        max_stale: float | None,
    ) -> None:
        self._copy, self._upstream, self._max_stale = copy, upstream, max_stale
        self._version: ModelVersion | None = None
        self._current = ModelView("", 0, new_learner(DEFAULT_LEARNER, None, 0), None, None)
        super().__init__(copy.path.name, BackboneLoader(None, False, settings), [], settings, held)
        self._started = time.monotonic()
        self._contact = self._started if contact else None
        self._problems: dict[str, str] = {}  # with "events" and with "fetch"
        self._update_seconds = 0.0
        self._stopped = threading.Event()
        self._changed = threading.Condition()  # protects the attributes below
        self._announced = 0  # the newest change in the events of this connection
        self._behind_since: float | None = None
        self._fetch_wanted = not contact  # even if no event announces a change
        self._not_before = 0.0
        self._attempt = 0
        if loaded is not None:
            self._show(loaded)
        self._threads = [
            threading.Thread(target=self._listen, name="listen", daemon=True),
            threading.Thread(target=self._fetch, name="follow", daemon=True),
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
        """Fetch the writer's newest state. Use the copy in the file if the writer cannot be reached.

        Raises ModelStoreError if there is nothing that can be served.
        """
        settings = settings or EngineSettings()
        path = resolve_link(Path(path))
        check_model_path(path)
        check_device(settings.device)
        with ExitStack() as held:
            held.enter_context(model_lock(path))
            copy, contact, problem = LocalCopy(path, upstream, settings), True, ""
            found: list[LoadedModel] = []
            try:
                copy.update(found.append)
            except Unusable as wrong:
                raise ModelStoreError(str(wrong)) from None
            except Unreachable as absent:
                contact, problem = False, str(absent)
                if copy.version is not None and not copy.trusted:
                    raise ModelStoreError(f"{problem} It is not known whether {path} is a copy of its model.") from None
            if not found and copy.version is not None:
                found = [copy.load()]
            follower = cls(copy, upstream, found[0] if found else None, contact, settings, held.pop_all(), max_stale)
            if problem:
                follower._note_problem("fetch", problem)
            return follower

    def close(self) -> None:
        if self._process == os.getpid():
            self._stopped.set()
            self._upstream.close()
            self._copy.close()
            with self._changed:
                self._changed.notify_all()
            for thread in self._threads:
                thread.join(1)  # a thread that is connecting may take longer, but it changes nothing any more
        super().close()

    # ---- events ---------------------------------------------------------------------------------

    def _listen(self) -> None:
        attempt = 0
        while not self._stopped.is_set():
            try:
                with self._upstream.events() as events:
                    self._connected()
                    for event in events:
                        attempt = 0
                        self._receive(event)
            except Exception as problem:
                self._note_problem("events", _sentence(problem))
            with self._changed:
                self._announced, self._fetch_wanted = 0, True  # the file may be reachable even if events are not
                self._changed.notify_all()
            self._stopped.wait(_pause(attempt))
            attempt += 1

    def _connected(self) -> None:
        """Fetch once: changes may have been missed, and a new process of the writer may count from another number."""
        self._problems.pop("events", None)
        with self._changed:
            self._announced, self._fetch_wanted = 0, True
            self._not_before, self._attempt = 0.0, 0
            self._changed.notify_all()

    def _receive(self, event: WriterEvent) -> None:
        self._contact = time.monotonic()
        with self._changed:
            self._fetch_wanted |= event.lost
            if event.lesson is not None:
                self._announced = event.lesson
                if self._behind and self._behind_since is None:
                    self._behind_since = self._contact
            self._changed.notify_all()

    @property
    def _behind(self) -> bool:
        """Whether a newer change was announced than the copy has."""
        return self._version is None or self._announced > self._version.lesson

    def _note_caught_up(self) -> None:
        with self._changed:
            if not self._behind:
                self._behind_since = None

    def _note_progress(self, announced: int, began: float) -> None:
        """Changes that were announced before the fetch began are here. The copy can be behind only since then."""
        with self._changed:
            if self._behind_since is not None and self._version is not None and self._version.lesson >= announced:
                self._behind_since = max(self._behind_since, began)

    # ---- fetching -------------------------------------------------------------------------------

    def _fetch(self) -> None:
        while self._wait_for_change():
            began, failed = time.monotonic(), False
            try:
                self._update()
                self._problems.pop("fetch", None)
            except Exception as problem:  # the copy goes on predicting, whatever went wrong
                failed = True
                self._note_problem("fetch", _sentence(problem))
                self._counts["failed updates"] += 1
            now = time.monotonic()
            self._update_seconds = now - began
            with self._changed:
                self._not_before = now + (_pause(self._attempt) if failed else min(MAX_REST_SECONDS, now - began))
                self._attempt = self._attempt + 1 if failed else 0
                self._fetch_wanted |= failed

    def _wait_for_change(self) -> bool:
        """Wait until there is something to fetch and the rest is over. False at the end."""
        with self._changed:
            while not self._stopped.is_set():
                wanted, left = self._fetch_wanted or self._behind, self._not_before - time.monotonic()
                if wanted and left <= 0:
                    self._fetch_wanted = False
                    return True
                self._changed.wait(left if wanted else None)
        return False

    def _update(self) -> None:
        announced, began = self._announced, time.monotonic()
        self._copy.update(self._show)
        self._contact = time.monotonic()
        self._note_caught_up()
        self._note_progress(announced, began)
        if self._behind and (now := self._current.number) < announced:
            raise Unreachable(
                f"{self._upstream.url} announces lesson {announced} but sends lesson {now}: a cache between may keep "
                "old answers."
            )

    def _show(self, loaded: LoadedModel) -> None:
        """Predict with this state from now on."""
        (version, learner, snapshot, backbone), known = loaded, self._version
        if version == known:
            return  # it is shown already, but could not be written
        if known is not None and version.lesson < known.lesson:
            self._counts["went back"] += 1
            LOG.warning("the writer went back from lesson %d to %d", known.lesson, version.lesson)
        before, old = self._current, None
        learner = learner or new_learner(DEFAULT_LEARNER, None, 0)
        view = ModelView(version.model, version.lesson, learner, snapshot, backbone)
        if backbone != before.backbone:
            old, self._loader = self._extractor, BackboneLoader(backbone, False, self.settings)
            self._extractor = FeatureExtractor(self._loader, self._features_ready, self.settings)
        self._current, self._version = view, version
        self._note_caught_up()
        if old is not None:
            old.close()
        self._counts["updates"] += 1
        self._events.publish({"kind": "copy", "lesson": version.lesson})

    # ---- describing -----------------------------------------------------------------------------

    def _note_problem(self, where: str, sentence: str) -> None:
        if self._problems.get(where) != sentence and not self._stopped.is_set():
            self._problems[where] = sentence
            LOG.warning(sentence)

    @property
    def writer(self) -> str:
        """The address of the service that trains the model."""
        return self._upstream.page

    @property
    def _view(self) -> ModelView:
        return self._current

    @property
    def _silent_seconds(self) -> float:
        """Seconds since the last contact to the writer, or since the start."""
        return time.monotonic() - (self._started if self._contact is None else self._contact)

    @property
    def stale(self) -> bool:
        """Whether the copy may be old: no contact for too long, or a change announced too long ago."""
        limit = STALE_SECONDS if self._max_stale is None else self._max_stale
        return self._contact is None or max(self._silent_seconds, self._seconds_behind) > limit

    @property
    def state(self) -> str:
        """As `PredictionEngine.state`, or "stale" if a stale copy may not predict."""
        if self._version is None and not self._stopping:
            return "loading"
        state = super().state
        return "stale" if state == "ready" and self._max_stale is not None and self.stale else state

    @property
    def problem(self) -> str | None:
        return super().problem or next(iter(list(self._problems.values())), None)

    def describe(self) -> dict[str, Any]:
        about = super().describe()
        if not self._current.fitted:
            about["learner"] = None  # only the model file says which learner it is, and there is none
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
        numbers = super().statistics()
        return {
            **numbers,
            "writer_lesson": max(self._announced, numbers["lesson"]),
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
    """Seconds before another attempt. It grows, and it is random, so that followers do not come all at once."""
    return min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 20)) * random.uniform(0.5, 1)


def _sentence(problem: Exception) -> str:
    if isinstance(problem, (Unreachable, Unusable, ModelStoreError)):
        return str(problem)
    return f"The copy could not be brought up to date: {getattr(problem, 'strerror', None) or repr(problem)}."
