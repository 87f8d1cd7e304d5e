"""Images become features: decoded in a few threads, then looked at by the backbone, all that wait at once."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.backbones import Backbone
from votestream.images.convert import explained
from votestream.images.files import ImageError, decode
from votestream.serve.messages import Failed, NotReady, Problem, Upload
from votestream.serve.promises import Promise
from votestream.serve.room import Room
from votestream.serve.sight import Sight

LOG = logging.getLogger("votestream.serve")


class Glance:
    """The images of one request on their way: `features` has a row for each that could be read, in their order."""

    def __init__(self, uploads: list[Upload], promise: Promise, about: Any) -> None:
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


class Looker:
    """`finished` is called with requests all of whose images were looked at, or could not be read."""

    def __init__(
        self,
        sight: Sight,
        finished: Callable[[list[Glance]], None],
        room: Room,
        decoders: int,
        max_pixels: int | None,
    ) -> None:
        self.sight, self.room = sight, room
        self.batches = self.images = 0
        self._finished, self._max_pixels = finished, max_pixels
        self._ready: deque[tuple[Glance, int, NDArray[np.uint8]]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._pool = ThreadPoolExecutor(decoders, "decode")
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)
        self._thread.start()

    def look(self, uploads: list[Upload], promise: Promise, about: Any) -> None:
        """Raises TooBusy where there is no room."""
        size = sum(len(upload.data) for upload in uploads)
        self.room.enter(len(uploads), size)
        glance = Glance(uploads, promise, about)
        try:
            for place, upload in enumerate(uploads):
                self._pool.submit(self._prepare, glance, place, upload)
        except RuntimeError:  # the pool is shut down
            self.room.leave(len(uploads) - place, sum(len(upload.data) for upload in uploads[place:]))
            raise NotReady("The service is stopping.") from None

    def _prepare(self, glance: Glance, place: int, upload: Upload) -> None:
        found: NDArray[np.uint8] | Problem | None = None
        try:
            found = self._pixels(glance, upload)
        except ImageError as problem:
            found = Problem(upload.name, str(problem))
        except BaseException as problem:
            glance.promise.fail(problem if isinstance(problem, NotReady) else Failed(f"{upload.name}: {problem!r}."))
        self.room.leave(0, len(upload.data))
        if isinstance(found, np.ndarray):
            with self._changed:
                self._ready.append((glance, place, found))
                self._changed.notify()
            return
        self.room.leave(1, 0)
        if glance.set(place, found):
            self._hand_over([glance])

    def _pixels(self, glance: Glance, upload: Upload) -> NDArray[np.uint8] | None:
        if not glance.promise.wanted:
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
        while True:
            with self._changed:
                while not self._ready:
                    if self._stopping:
                        return
                    self._changed.wait()
                backbone = self.sight.backbone
                assert backbone is not None
                batch = [self._ready.popleft() for _ in range(min(len(self._ready), backbone.batch_size))]
            self._look(backbone, batch)

    def _look(self, backbone: Backbone, batch: list[tuple[Glance, int, NDArray[np.uint8]]]) -> None:
        wanted = [item for item in batch if item[0].promise.wanted]
        rows: Any = [None] * len(wanted)
        try:
            if wanted:
                rows = backbone.of_prepared(np.stack([pixels for _, _, pixels in wanted]))
                self.batches += 1
                self.images += len(wanted)
        except BaseException as problem:
            for glance, _, _ in wanted:
                glance.promise.fail(Failed(f"The backbone could not look at the image: {problem}."))
        self.room.leave(len(batch), 0)
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
        return self.room.inside

    def close(self) -> None:
        """Finish what came in."""
        self._pool.shutdown()
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
