"""Images become features: decoded in a few threads, then looked at by the backbone, all that wait at once.

Those to be predicted go before those to be learned: whoever asks does not wait for a large lesson. One image of a
lesson is in every batch, so that lessons come to an end too.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.backbones import Backbone, BackboneUnavailable, create_backbone
from votestream.backbones.choosing import FOR_PHOTOS, choose_backbone
from votestream.backbones.reference import find_again
from votestream.images.convert import explained
from votestream.images.files import MAX_PIXELS, TIMES_REDUCED, ImageError, decode, identify
from votestream.photos.opening import LEARNER, as_sentence
from votestream.serve.engine.idempotency import Promise
from votestream.serve.engine.messages import Failed, Label, NotReady, Problem, Upload
from votestream.serve.engine.queue_limits import Room
from votestream.serve.engine.settings import EngineSettings

LOG = logging.getLogger("votestream.serve")
PATIENCE = 10  # seconds; one that is fetched from far away may take longer


class Sight:
    """`about` describes the backbone that the model was taught through; None for a new one, or on rows of numbers."""

    def __init__(self, about: dict[str, Any] | None, new: bool, settings: EngineSettings) -> None:
        self._about, self._settings, self._new = about, settings, new
        self.backbone: Backbone | None = None
        self.problem: str | None = None
        self._for_photos: Backbone | None = None
        self._choosing = threading.Lock()
        self._loaded = threading.Event()
        self._loading = threading.Thread(target=self._load, name="load", daemon=True)
        if about is not None or new:
            self._loading.start()
        else:
            self._loaded.set()

    @property
    def loading(self) -> bool:
        return not self._loaded.is_set()

    def close(self) -> None:
        """Wait for a network that is being loaded: a process that ends meanwhile would be aborted."""
        if self._loading.ident is not None:
            self._loading.join(PATIENCE)

    def _load(self) -> None:
        settings = self._settings
        try:
            if self._about is not None:
                self.backbone = find_again(self._about, None, settings.device)[0]
            elif settings.backbone is not None:
                self.backbone = self._make(settings.backbone, None)
            else:  # most first images are photos, and this network takes a moment to load
                self._for_photos = self._make(FOR_PHOTOS, "quick")
        except Exception as problem:
            self.problem = as_sentence(problem)
        finally:
            self._loaded.set()

    def _make(self, name: str, stages: str | None) -> Backbone:
        settings = self._settings
        look = {key: wish for key in ("views", "stages") if (wish := getattr(settings, key)) is not None}
        if stages is not None and not look and (settings.learner or LEARNER) == LEARNER:
            look = {"stages": stages}
        return create_backbone(name, device=settings.device or "auto", **look)

    def backbone_for(self, upload: Upload) -> Backbone:
        """Waits while it is loading. A new model's is chosen by the first image that is asked about."""
        self._loaded.wait()
        if self.backbone is not None:
            return self.backbone
        if self.problem is not None:
            raise NotReady(self.problem)
        with self._choosing:
            if self.backbone is None:
                with explained(upload.name):
                    image, _ = identify(BytesIO(upload.data), upload.name, TIMES_REDUCED * MAX_PIXELS)
                choice = choose_backbone([image])
                if choice.name == FOR_PHOTOS and self._for_photos is not None:
                    self.backbone = self._for_photos
                else:
                    try:
                        self.backbone = self._make(choice.name, choice.stages)
                    except (ValueError, BackboneUnavailable) as problem:
                        raise NotReady(as_sentence(problem)) from None
                self._for_photos = None
            return self.backbone


class Lesson(NamedTuple):
    """What to do with images: teach them."""

    label: Label
    task: Label | None


class Question(NamedTuple):
    """What to do with images: predict them."""

    top: int | None


class Glance:
    """The images of one request on their way."""

    def __init__(self, uploads: list[Upload], promise: Promise, about: Lesson | Question) -> None:
        self.names = [upload.name for upload in uploads]
        self.promise, self.about = promise, about
        self.backbone: Backbone | None = None  # that looked at them
        self._found: list[NDArray[np.float32] | Problem | None] = [None] * len(uploads)
        self._left = len(uploads)
        self._lock = threading.Lock()

    def set(self, place: int, found: NDArray[np.float32] | Problem | None) -> bool:
        """Whether that was the last image."""
        with self._lock:
            self._found[place] = found
            self._left -= 1
            return not self._left

    @property
    def rows(self) -> list[tuple[str, NDArray[np.float32]]]:
        pairs = zip(self.names, self._found, strict=True)
        return [(name, found) for name, found in pairs if isinstance(found, np.ndarray)]

    @property
    def problems(self) -> list[Problem]:
        return [found for found in self._found if isinstance(found, Problem)]


def _given_up(glance: Glance) -> bool:
    """Whether an image of it can be left out. If so it is over: who sends the request again begins anew."""
    return not glance.promise.wanted and not glance.promise.begin()


Prepared = tuple[Glance, int, NDArray[np.uint8]]  # an image that the backbone can look at


class _Way:
    """Where images of one kind of request wait."""

    def __init__(self, name: str, settings: EngineSettings) -> None:
        self.room = Room("images", settings.most_images, settings.most_image_bytes)
        self.pool = ThreadPoolExecutor(settings.decoders, f"decode for a {name.lower()}")
        self.ready: deque[Prepared] = deque()


class Looker:
    """`finished` is called with requests all of whose images were looked at, or could not be read."""

    def __init__(self, sight: Sight, finished: Callable[[list[Glance]], None], settings: EngineSettings) -> None:
        self.sight = sight
        self.batches = self.images = 0
        self._finished, self._max_pixels = finished, settings.max_pixels
        self._ways = {kind: _Way(kind.__name__, settings) for kind in (Question, Lesson)}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)
        self._thread.start()

    def look(self, uploads: list[Upload], promise: Promise, about: Lesson | Question) -> None:
        """Raises TooBusy where there is no room."""
        way, size = self._ways[type(about)], sum(len(upload.data) for upload in uploads)
        way.room.enter(len(uploads), size)
        glance = Glance(uploads, promise, about)
        try:
            for place, upload in enumerate(uploads):
                way.pool.submit(self._prepare, way, glance, place, upload)
        except RuntimeError:  # the pool is shut down
            raise NotReady("The service is stopping.") from None

    def _prepare(self, way: _Way, glance: Glance, place: int, upload: Upload) -> None:
        found: NDArray[np.uint8] | Problem | None = None
        try:
            found = self._pixels(glance, upload)
        except ImageError as problem:
            found = Problem(upload.name, str(problem))
        except BaseException as problem:
            glance.promise.fail(problem if isinstance(problem, NotReady) else Failed(f"{upload.name}: {problem!r}."))
        way.room.leave(0, len(upload.data))
        if isinstance(found, np.ndarray):
            with self._changed:
                way.ready.append((glance, place, found))
                self._changed.notify()
            return
        way.room.leave(1, 0)
        if glance.set(place, found):
            self._hand_over([glance])

    def _pixels(self, glance: Glance, upload: Upload) -> NDArray[np.uint8] | None:
        if _given_up(glance):
            return None
        name = upload.name
        if not upload.data:
            raise ImageError(f"{name} is an empty file.")
        backbone = self.sight.backbone_for(upload)
        with explained(name):
            most = self._max_pixels or backbone.max_pixels
            file = BytesIO(upload.data)
            return decode(file, name, lambda image: backbone.prepare(image, name, most), most, backbone.least)

    def _run(self) -> None:
        asked, taught = self._ways[Question].ready, self._ways[Lesson].ready
        while True:
            with self._changed:
                while not (asked or taught):
                    if self._stopping:
                        return
                    self._changed.wait()
                backbone = self.sight.backbone
                assert backbone is not None
                most = backbone.batch_size
                batch = [asked.popleft() for _ in range(min(len(asked), max(1, most - bool(taught))))]
                batch += [taught.popleft() for _ in range(min(len(taught), most - len(batch)))]
            self._look(backbone, batch)

    def _look(self, backbone: Backbone, batch: list[Prepared]) -> None:
        wanted = [item for item in batch if not _given_up(item[0])]
        rows: Any = [None] * len(wanted)
        try:
            if wanted:
                rows = backbone.of_prepared(np.stack([pixels for _, _, pixels in wanted]))
                self.batches += 1
                self.images += len(wanted)
        except BaseException as problem:
            for glance, _, _ in wanted:
                glance.promise.fail(Failed(f"The backbone could not look at the image: {problem}."))
        for glance, _, _ in batch:
            self._ways[type(glance.about)].room.leave(1, 0)
        found = {id(item): row for item, row in zip(wanted, rows, strict=True)}
        done = []
        for item in batch:
            glance, place, _ = item
            glance.backbone = backbone
            if glance.set(place, found.get(id(item))):
                done.append(glance)
        if done:
            self._hand_over(done)

    def _hand_over(self, done: list[Glance]) -> None:
        try:
            self._finished(done)
        except BaseException as problem:  # nobody is left waiting, and this thread goes on
            LOG.exception("images were looked at, and then something went wrong")
            for glance in done:
                glance.promise.fail(Failed(f"This could not be done: {problem!r}."))

    @property
    def waiting(self) -> int:
        return sum(way.room.inside for way in self._ways.values())

    @property
    def bytes_waiting(self) -> int:
        return sum(way.room.bytes_inside for way in self._ways.values())

    @property
    def refused(self) -> int:
        return sum(way.room.refused for way in self._ways.values())

    def close(self) -> None:
        """Finish what came in."""
        for way in self._ways.values():
            way.pool.shutdown()
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
