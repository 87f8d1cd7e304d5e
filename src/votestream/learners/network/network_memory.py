"""What the learners that train a network keep and predict by: the network, images to replay, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from votestream.backbones import Backbone
from votestream.backbones.backbone import exact
from votestream.compute.graph_cache import GraphCache
from votestream.compute.random_pool import RandomPool
from votestream.core.modules import ScoresModule
from votestream.io.model_files import joined, part_of
from votestream.learners.network.classifier import Classifier
from votestream.memory import Memory
from votestream.memory.image_memory import to_device

QUERIES = {"cpu": 64, "cuda": 1024}  # images predicted at once


class NetworkMemory(Memory):
    """A network that is being trained, images of the stream, and random numbers.

    images: an image memory of any kind. `captured` runs work on the device; on CUDA it captures it as a graph once, and
    then replays that.
    """

    derived = ("captured",)

    def __init__(self, backbone: Backbone, images: Any, seed: int, device: torch.device) -> None:
        self.network = Classifier(backbone, device).eval()
        self.images = images
        self.random = RandomPool(seed)
        self.captured = GraphCache()
        self.device = device
        self.size = backbone.input_size

    def put(self, X: NDArray[np.uint8]) -> Tensor:
        """Rows of bytes as images (n, size, size, 3) on the device."""
        return to_device(X.reshape(-1, self.size, self.size, 3), self.device)

    def arrays(self) -> dict[str, NDArray[Any]]:
        network = {name: tensor.cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return joined({"network": network, "memory": self.images.state(), "random": self.random.state()})

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.network.restore(part_of(arrays, "network"), n_classes)
        self.images.restore(part_of(arrays, "memory"), n_classes)
        self.random.restore(part_of(arrays, "random"))


class NetworkPredictor:
    """The largest score that a network gives; by a softmax of the scores, probabilities.

    live: the network goes on being trained. scores: makes scores (n, C) of uint8 images by it; the network itself,
    unless given. exporting: whether `as_module` may be used.
    """

    def __init__(
        self,
        network: Classifier,
        size: int,
        device: torch.device,
        name: str,
        lr: float,
        live: bool,
        scores: Callable[[Classifier, Tensor], Tensor] | None = None,
    ) -> None:
        self.network = network
        self.live = live
        self._size = size
        self._device = device
        self._name = name
        self._lr = lr
        self._scores = scores

    def decide(self, X: NDArray[np.uint8]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._finite_logits(X).argmax(1)
        return found

    def probabilities(self, X: NDArray[np.uint8]) -> NDArray[np.float64]:
        logits = self._finite_logits(X).astype(np.float64)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        found: NDArray[np.float64] = shares / shares.sum(1, keepdims=True)
        return found

    def _finite_logits(self, X: NDArray[np.uint8]) -> NDArray[np.float32]:
        logits = self.logits(X)
        if not np.isfinite(logits).all():
            raise ValueError(
                f"the network of this {self._name} has diverged and its predictions would mean nothing: "
                f"train it again with an lr below {self._lr:g}"
            )
        return logits

    def logits(self, X: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Scores (n, C) of images as rows of bytes."""
        n, parts = QUERIES.get(self._device.type, 64), []
        with exact(self._device), torch.inference_mode():
            for start in range(0, len(X), n):
                images = X[start : start + n].reshape(-1, self._size, self._size, 3)
                parts.append(self.scores(to_device(images, self._device)).cpu().numpy())
        return np.concatenate(parts)

    def scores(self, images: Tensor) -> Tensor:
        """Scores (n, C) of images on the device."""
        found: Tensor = self.network(images) if self._scores is None else self._scores(self.network, images)
        return found

    def as_module(self) -> nn.Module:
        return NetworkModule(self)


class NetworkModule(ScoresModule):
    """A trained network as a predictor, on uint8 images (n, size, size, 3)."""

    def __init__(self, predictor: NetworkPredictor) -> None:
        super().__init__()
        self.network, self._scores = predictor.network, predictor.scores

    def scores(self, X: Tensor) -> Tensor:
        return self._scores(X)
