"""What a backbone is: a frozen network with its preprocessing, images in, feature vectors out."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from votestream.backbones.preprocessing import Preprocessing
from votestream.common.validation import as_device
from votestream.images.convert import ImagesLike, as_sequence
from votestream.images.files import MAX_PIXELS


class Backbone:
    """A frozen network: images in, features (n, feature_dim) as float32 NumPy arrays out.

    Made by `create_backbone` or `from_module`. Features are the network's outputs divided by `feature_scale`,
    their spread on the photographs it was measured on, so that they have a spread of about 1.

    Attributes:
        name: What `create_backbone` knows it by.
        feature_dim: Length of a feature vector.
        input_size: Height and width of what the network reads; other images are resized.
        digest: sha256 (hex) over weights, preprocessing and scale: equal digests mean equal features.
        feature_scale: What the network's outputs are divided by.
        device: Where the network runs.
        batch_size: Images that go through the network at once.
        max_pixels: Larger image files are refused; set it to read them. See `load_image`.
    """

    max_pixels: int = MAX_PIXELS

    def __init__(
        self,
        name: str,
        network: Callable[[Tensor], Tensor],
        preprocessing: Preprocessing,
        *,
        weights_digest: str,
        feature_scale: float = 1.0,
        device: str = "auto",
        batch_size: int | None = None,
        trainable: nn.Module | None = None,
    ) -> None:
        if not (np.isfinite(feature_scale) and feature_scale > 0):
            raise ValueError(f"feature_scale must be a positive number, not {feature_scale}.")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}.")
        self.name = name
        self.preprocessing = preprocessing
        self.input_size = preprocessing.input_size
        self.feature_scale = float(feature_scale)
        self.device = as_device(device)
        self.batch_size = batch_size or default_batch_size(self.input_size, self.device)
        self._weights_digest = weights_digest
        self._trainable = trainable
        self._network = network.to(self.device) if isinstance(network, nn.Module) else network
        self.feature_dim = int(self._run(np.zeros((1, self.input_size, self.input_size, 3), np.uint8)).shape[1])

    @property
    def digest(self) -> str:
        parts = [self._weights_digest, self.preprocessing.describe(), repr(self.feature_scale)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def __call__(self, images: ImagesLike) -> np.ndarray:
        """Features of one image or many: arrays, PIL images, paths, or a list that mixes them."""
        sequence = as_sequence(images)
        features = np.empty((len(sequence), self.feature_dim), np.float32)
        start = 0
        for batch in self.preprocessing.batches(sequence, self.batch_size, self.max_pixels):
            features[start : start + len(batch)] = self._run(batch)
            start += len(batch)
        return features

    def of_prepared(self, pixels: np.ndarray) -> np.ndarray:
        """Features of images (n, input_size, input_size, 3) that `preprocessing.fit` has made ready."""
        parts = [self._run(pixels[i : i + self.batch_size]) for i in range(0, len(pixels), self.batch_size)]
        return np.concatenate(parts)

    def _run(self, batch: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), exact(self.device):
            output = self._network(self.preprocessing.normalise(batch, self.device))
            if not isinstance(output, Tensor) or output.ndim not in (2, 4):
                kind = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
                raise ValueError(f"{self.name} gives {kind}, not features (n, d) or maps (n, d, h, w).")
            if output.ndim == 4:
                output = output.mean(dim=(2, 3))
            return output.float().div(self.feature_scale).cpu().numpy()

    def trainable(self) -> nn.Module:
        """A copy of the network as it was before it was frozen and made fast, to be trained further.

        It takes normalised images (n, 3, height, width); its outputs are not divided by `feature_scale`.
        """
        if self._trainable is None:
            raise ValueError(f"The backbone {self.name!r} cannot be trained: it is not made from a torch module.")
        return copy.deepcopy(self._trainable).requires_grad_(True)

    def calibrate(self, images: ImagesLike) -> Backbone:
        """Return the same backbone with `feature_scale` such that these images' features have spread 1.

        The scale is rounded to four digits, so that machines whose features differ by rounding only (nearly
        always) agree on the digest.
        """
        features = self(images)
        width = spread(features)
        if not width > 0:
            raise ValueError(f"{len(features)} image(s) give features without any spread: give different ones.")
        scaled = copy.copy(self)
        scaled.feature_scale = float(f"{self.feature_scale * width:.4g}")
        return scaled

    def __repr__(self) -> str:
        return (
            f"<Backbone {self.name}: {self.input_size} x {self.input_size} -> {self.feature_dim}, "
            f"{self.device}, digest {self.digest[:12]}>"
        )


def exact(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU: no TF32, which would round to ten bits, and no algorithm that differs from run to run."""
    if device.type != "cuda":
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)


def spread(features: np.ndarray) -> float:
    """Standard deviation over all elements of all vectors, as learners with `scale="auto"` take it too.

    Example:
        >>> spread(np.array([[1.0, 3.0], [3.0, 1.0]]))
        1.0
    """
    return float(np.std(features, dtype=np.float64))


def default_batch_size(input_size: int, device: torch.device) -> int:
    """Images at once; on a CPU few enough that a layer's maps stay in its cache.

    `benchmarks/extract_speed.py` measures it: 64 was fastest at 32 pixels and 4 at 224. On an H200, at 32 pixels,
    64, 256, 1024 and 4096 gave 48, 86, 114 and 100 thousand images a second.
    """
    if device.type != "cpu":
        return 1024 if input_size <= 64 else 64
    return min(64, max(4, 200_000 // input_size**2))
