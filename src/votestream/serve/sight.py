"""The backbone of a served model: loaded in the background, or chosen by the first image of a new model."""

from __future__ import annotations

import threading
from io import BytesIO
from typing import Any

from votestream.backbones import Backbone, BackboneUnavailable, create_backbone
from votestream.backbones.default_backbone import FOR_PHOTOS, choose_backbone
from votestream.backbones.reference import find_again
from votestream.images.convert import explained
from votestream.images.files import MAX_PIXELS, TIMES_REDUCED, identify
from votestream.model_store.model_file import DEFAULT_LEARNER as LEARNER
from votestream.model_store.paths import as_sentence
from votestream.serve.messages import NotReady, Upload
from votestream.serve.settings import EngineSettings

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
