"""Feature extraction: images are decoded in a few threads, and the backbone processes all waiting images at once.

Images to predict come before images to learn, so that a prediction does not wait for a large upload. Every batch has
at least one image to learn, if any waits, so that learning is never starved.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.backbones import Backbone, BackboneUnavailable, create_backbone
from votestream.backbones.default_backbone import FOR_PHOTOS, choose_backbone
from votestream.backbones.reference import find_again
from votestream.images.convert import explained
from votestream.images.files import MAX_PIXELS, TIMES_REDUCED, ImageError, decode, identify
from votestream.model_store.model_file import DEFAULT_LEARNER
from votestream.model_store.paths import as_sentence
from votestream.serve.engine.idempotency import PendingAnswer
from votestream.serve.engine.messages import FileProblem, InternalError, Label, NotReady, Upload
from votestream.serve.engine.queue_limits import QueueLimit
from votestream.serve.engine.settings import EngineSettings

LOG = logging.getLogger("votestream.serve")
CLOSE_SECONDS = 10  # to wait for a backbone that is being loaded; a download may take longer


class BackboneLoader:
    """Loads the backbone of a model in the background. For a new model, the first image may choose it.

    `about` describes the backbone of the model. It is None for a new model and for a model of rows of features.
    """

    def __init__(self, about: dict[str, Any] | None, new: bool, settings: EngineSettings) -> None:
        self._about, self._settings = about, settings
        self.backbone: Backbone | None = None
        self.problem: str | None = None
        self._for_photos: Backbone | None = None
        self._choosing = threading.Lock()
        self._loaded = threading.Event()
        self._thread = threading.Thread(target=self._load, name="load", daemon=True)
        if about is not None or new:
            self._thread.start()
        else:
            self._loaded.set()

    @property
    def loading(self) -> bool:
        return not self._loaded.is_set()

    def close(self) -> None:
        """Wait for a backbone that is being loaded: a process that ends in the middle of it would abort."""
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def _load(self) -> None:
        settings = self._settings
        try:
            if self._about is not None:
                self.backbone = find_again(self._about, None, settings.device)[0]
            elif settings.backbone is not None:
                self.backbone = self._create(settings.backbone, None)
            else:  # most first images are photos, and this backbone takes a moment to load
                self._for_photos = self._create(FOR_PHOTOS, "quick")
        except Exception as problem:
            self.problem = as_sentence(problem)
        finally:
            self._loaded.set()

    def _create(self, name: str, stages: str | None) -> Backbone:
        settings = self._settings
        options = {key: value for key in ("views", "stages") if (value := getattr(settings, key)) is not None}
        if stages is not None and not options and (settings.learner or DEFAULT_LEARNER) == DEFAULT_LEARNER:
            options = {"stages": stages}
        return create_backbone(name, device=settings.device or "auto", **options)

    def backbone_for(self, upload: Upload) -> Backbone:
        """The backbone, once it is loaded. For a new model without one, this image chooses it."""
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
                        self.backbone = self._create(choice.name, choice.stages)
                    except (ValueError, BackboneUnavailable) as problem:
                        raise NotReady(as_sentence(problem)) from None
                self._for_photos = None
            return self.backbone


class LearnRequest(NamedTuple):
    """The purpose of images that are to be learned."""

    label: Label
    task: Label | None


class PredictRequest(NamedTuple):
    """The purpose of images that are to be predicted."""

    top: int | None  # number of probabilities to return


class ImageRequest:
    """The images of one request while their features are extracted.

    Once `set` has been called for every image, `files` and `rows` hold the readable images, and `problems` the others.
    """

    def __init__(self, uploads: list[Upload], pending: PendingAnswer, purpose: LearnRequest | PredictRequest) -> None:
        self.pending, self.purpose = pending, purpose
        self.backbone: Backbone | None = None  # that extracted the features
        self.files: list[str] = []
        self.rows: list[NDArray[np.float32]] = []
        self.problems: list[FileProblem] = []
        self._names = [upload.name for upload in uploads]
        self._results: list[NDArray[np.float32] | FileProblem | None] = [None] * len(uploads)
        self._missing = len(uploads)
        self._lock = threading.Lock()

    def set(self, place: int, result: NDArray[np.float32] | FileProblem | None) -> bool:
        """Note the features of one image. True if it was the last image."""
        with self._lock:
            self._results[place] = result
            self._missing -= 1
            if self._missing:
                return False
        for name, found in zip(self._names, self._results, strict=True):
            if isinstance(found, FileProblem):
                self.problems.append(found)
            elif found is not None:
                self.files.append(name)
                self.rows.append(found)
        return True

    def is_cancelled(self) -> bool:
        """Whether its images can be skipped. If so, the request is over, and the same request starts anew."""
        return self.pending.abandoned and not self.pending.start()


PreparedImage = tuple[ImageRequest, int, NDArray[np.uint8]]  # request, place in it, pixels for the backbone


class _ImageQueue:
    """The waiting images of one purpose."""

    def __init__(self, name: str, settings: EngineSettings) -> None:
        self.limit = QueueLimit("images", settings.max_images, settings.max_image_bytes)
        self.threads = ThreadPoolExecutor(settings.decode_threads, name)
        self.prepared: deque[PreparedImage] = deque()


class FeatureExtractor:
    """Extracts the features of images. `finished` is called with requests whose images are all done."""

    def __init__(
        self, loader: BackboneLoader, finished: Callable[[list[ImageRequest]], None], settings: EngineSettings
    ) -> None:
        self.loader = loader
        self.batches = self.images = 0
        self._finished, self._max_pixels = finished, settings.max_pixels
        self._queues = {
            PredictRequest: _ImageQueue("decode to predict", settings),
            LearnRequest: _ImageQueue("decode to learn", settings),
        }
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="extract", daemon=True)
        self._thread.start()

    def submit(self, uploads: list[Upload], purpose: LearnRequest | PredictRequest, pending: PendingAnswer) -> None:
        """Queue the images of a request. Raises TooBusy if the queue is full."""
        queue = self._queues[type(purpose)]
        queue.limit.enter(len(uploads), sum(len(upload.data) for upload in uploads))
        request = ImageRequest(uploads, pending, purpose)
        try:
            for place, upload in enumerate(uploads):
                queue.threads.submit(self._prepare, queue, request, place, upload)
        except RuntimeError:  # the threads were shut down
            raise NotReady("The service is stopping.") from None

    def _prepare(self, queue: _ImageQueue, request: ImageRequest, place: int, upload: Upload) -> None:
        """Decode one image, in a thread of the queue."""
        result: NDArray[np.uint8] | FileProblem | None = None
        name = upload.name
        try:
            if not request.is_cancelled():
                if not upload.data:
                    raise ImageError(f"{name} is an empty file.")
                backbone = self.loader.backbone_for(upload)
                with explained(name):
                    most = self._max_pixels or backbone.max_pixels
                    prepare = partial(backbone.prepare, name=name, max_pixels=most)
                    result = decode(BytesIO(upload.data), name, prepare, most, backbone.least)
        except ImageError as problem:
            result = FileProblem(name, str(problem))
        except BaseException as problem:
            request.pending.fail(problem if isinstance(problem, NotReady) else InternalError(f"{name}: {problem!r}."))
        queue.limit.leave(0, len(upload.data))
        if isinstance(result, np.ndarray):
            with self._changed:
                queue.prepared.append((request, place, result))
                self._changed.notify()
            return
        queue.limit.leave(1, 0)
        if request.set(place, result):
            self._finish([request])

    def _run(self) -> None:
        to_predict, to_learn = self._queues[PredictRequest].prepared, self._queues[LearnRequest].prepared
        while True:
            with self._changed:
                while not (to_predict or to_learn):
                    if self._stopping:
                        return
                    self._changed.wait()
                backbone = self.loader.backbone
                assert backbone is not None
                most = backbone.batch_size
                batch = [to_predict.popleft() for _ in range(min(len(to_predict), max(1, most - bool(to_learn))))]
                batch += [to_learn.popleft() for _ in range(min(len(to_learn), most - len(batch)))]
            self._extract(backbone, batch)

    def _extract(self, backbone: Backbone, batch: list[PreparedImage]) -> None:
        wanted = [image for image in batch if not image[0].is_cancelled()]
        rows: Any = [None] * len(wanted)
        try:
            if wanted:
                rows = backbone.of_prepared(np.stack([pixels for _, _, pixels in wanted]))
                self.batches += 1
                self.images += len(wanted)
        except BaseException as problem:
            for request, _, _ in wanted:
                request.pending.fail(InternalError(f"The backbone could not extract features: {problem}."))
        for request, _, _ in batch:
            self._queues[type(request.purpose)].limit.leave(1, 0)
        row_of = {id(image): row for image, row in zip(wanted, rows, strict=True)}
        done = []
        for image in batch:
            request, place, _ = image
            request.backbone = backbone
            if request.set(place, row_of.get(id(image))):
                done.append(request)
        if done:
            self._finish(done)

    def _finish(self, requests: list[ImageRequest]) -> None:
        try:
            self._finished(requests)
        except BaseException as problem:  # every request gets an answer, and this thread goes on
            LOG.exception("features were extracted, but the requests could not be answered")
            for request in requests:
                request.pending.fail(InternalError(f"This could not be done: {problem!r}."))

    @property
    def waiting(self) -> int:
        return sum(queue.limit.waiting for queue in self._queues.values())

    @property
    def bytes_waiting(self) -> int:
        return sum(queue.limit.bytes_waiting for queue in self._queues.values())

    @property
    def refused(self) -> int:
        return sum(queue.limit.refused for queue in self._queues.values())

    def close(self) -> None:
        """Finish all images that were accepted."""
        for queue in self._queues.values():
            queue.threads.shutdown()
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
