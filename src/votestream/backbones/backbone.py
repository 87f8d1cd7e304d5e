"""The backbone: a frozen network with its preprocessing, which turns images into feature vectors."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from votestream.backbones.preprocessing import Preprocessing
from votestream.backbones.views import View, as_views
from votestream.common.validation import as_device
from votestream.images.convert import ImageLike, ImagesLike, as_rgb, as_sequence, decode_path
from votestream.images.files import MAX_PIXELS, check_pixels, is_file
from votestream.images.labelled import brings_labels, labelled_images

AT_ONCE = 32  # images of a data set held in memory together


class Backbone:
    """A frozen network: images in, features (n, feature_dim) as float32 NumPy arrays out.

    Made by `create_backbone` or `from_module`. Features are the network's outputs divided by `feature_scale`,
    their spread on the photographs it was measured on, so that they have a spread of about 1.

    Attributes:
        name: The name for `create_backbone`.
        feature_dim: Length of a feature vector.
        input_size: Height and width of what the network reads; other images are resized.
        digest: sha256 (hex) over weights, preprocessing and scale: equal digests mean equal features.
        views: The sizes in which each image is read; the outputs are averaged. One, `input_size`, unless set.
        stages: Names of the network's stages that the features are made of; None is the network's own output.
        feature_scale: What the network's outputs are divided by.
        device: Where the network runs.
        batch_size: Images that go through the network at once.
        max_pixels: Larger image files are refused; raise it to read them. See `load_image`.
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
        stages: Mapping[str, float] | None = None,
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
        self._scale_of_stage = stages
        self.stages = None if stages is None else tuple(stages)
        self._network = network.to(self.device) if isinstance(network, nn.Module) else network
        self._use_views((View(self.input_size),))

    def _use_views(self, views: tuple[View, ...]) -> None:
        self.views = views
        sizes = dict.fromkeys(view.size for view in views)
        self._ways = [self.preprocessing.of_size(size) for size in sizes]
        blank = np.zeros((self.input_size, self.input_size, 3), np.uint8)
        self.feature_dim = int(self._run(self.prepare(blank)[None]).shape[1])

    def with_views(self, views: str | Iterable[str]) -> Backbone:
        """The same backbone, which extracts features from several views of each image and averages them.

        A view is a size in pixels, followed by m if the image is mirrored: `"32,32m,40,40m"`.
        """
        made = copy.copy(self)
        try:
            made._use_views(as_views(views))
        except (RuntimeError, AssertionError) as error:  # the network's: some read images of one size only
            raise ValueError(f"{self.name} does not work with views={views!r} ({error}).") from error
        return made

    @property
    def network(self) -> Callable[[Tensor], Tensor]:
        """The frozen network: normalised images (n, 3, height, width) to (n, d), or to maps that are averaged."""
        return self._network

    @property
    def plain(self) -> bool:
        """Whether it has a single view, in the network's own size."""
        return self.views == (View(self.input_size),)

    @property
    def digest(self) -> str:
        parts = [self._weights_digest, self.preprocessing.describe(), repr(self.feature_scale)]
        if self._scale_of_stage is not None:
            parts.append(f"stages {dict(self._scale_of_stage)}")
        if not self.plain:
            parts.append(f"views {','.join(map(str, self.views))}")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def __call__(self, images: ImagesLike) -> np.ndarray:
        """Extract the features of one image or many: arrays, tensors, PIL images, paths, URLs, or a mixed list.

        A data set (see `labelled_images`) works too; its labels are ignored.
        """
        if brings_labels(images):
            parts = [self(some) for some, _ in labelled_images(images).batches(max(AT_ONCE, self.batch_size))]
            return np.concatenate(parts) if parts else np.empty((0, self.feature_dim), np.float32)
        sequence = as_sequence(images)
        features = np.empty((len(sequence), self.feature_dim), np.float32)
        start = 0
        single = len(self._ways) == 1
        for batch in self._ways[0].batches(
            sequence, self.batch_size, self.max_pixels, None if single else self.prepare
        ):
            features[start : start + len(batch)] = self._run(batch)
            start += len(batch)
        return features

    def prepare(self, image: ImageLike, name: str | None = None, max_pixels: int = MAX_PIXELS) -> np.ndarray:
        """Resize one image for the network: uint8 (size, size, 3), or the pixels of several sizes in one row."""
        if len(self._ways) == 1:
            return self._ways[0].fit(image, name, max_pixels)
        if is_file(image):
            called = name or str(image)
            return decode_path(image, lambda found: self.prepare(found, called, max_pixels), max_pixels, self.least)
        if isinstance(image, Image.Image):
            name = name or "the image"
            check_pixels(image.size, name, max_pixels)
            image = as_rgb(image, name)  # once for all sizes
        return np.concatenate([way.fit(image, name, max_pixels).reshape(-1) for way in self._ways])

    @property
    def least(self) -> int:
        """Pixels that the shorter side of a photo decoded at reduced size keeps."""
        return max(way.least for way in self._ways)

    def of_prepared(self, pixels: np.ndarray) -> np.ndarray:
        """Extract the features of images that `prepare` has resized, stacked."""
        parts = [self._run(pixels[i : i + self.batch_size]) for i in range(0, len(pixels), self.batch_size)]
        return np.concatenate(parts)

    def _run(self, batch: np.ndarray) -> np.ndarray:
        number = len(batch)
        batch = self._filled(batch)
        with torch.inference_mode(), exact(self.device):
            outputs = [self._output(x) for x in self._network_inputs(batch)]
            output = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(0)
            return output[:number].float().div(self.feature_scale).cpu().numpy()

    def _filled(self, batch: np.ndarray) -> np.ndarray:
        """On a GPU, fill the batch up with black images to one of few sizes: kernels are chosen again for every size.

        On an H200 that took EfficientNet-Lite0 two seconds for each but 1, and 64 images took 9 ms.
        """
        number = len(batch)
        if self.device.type == "cpu" or number == 1:
            return batch
        size = min(self.batch_size, max(64, 1 << (number - 1).bit_length()))
        if size <= number:
            return batch
        return np.concatenate([batch, np.zeros((size - number, *batch.shape[1:]), batch.dtype)])

    def _network_inputs(self, batch: np.ndarray) -> Iterator[Tensor]:
        """The input of the network for each view of a prepared batch."""
        start = 0
        for way in self._ways:
            size, pixels = way.input_size, batch
            if len(self._ways) > 1:
                pixels = batch[:, start : start + 3 * size * size].reshape(-1, size, size, 3)
                start += 3 * size * size
            x = way.normalise(pixels, self.device)
            for view in self.views:
                if view.size == size:
                    yield x.flip(3) if view.mirrored else x

    def _output(self, x: Tensor) -> Tensor:
        output = self._network(x)
        if not isinstance(output, Tensor) or output.ndim not in (2, 4):
            kind = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(f"{self.name} gives {kind}, not features (n, d) or maps (n, d, h, w).")
        return output.mean(dim=(2, 3)) if output.ndim == 4 else output

    def trainable(self) -> nn.Module:
        """A copy of the network as it was before it was frozen and made fast, to be trained further.

        It takes normalised images (n, 3, height, width); its outputs are not divided by `feature_scale`.
        """
        if self._trainable is None:
            raise ValueError(f"The backbone {self.name!r} cannot be trained: it is not made from a torch module.")
        return copy.deepcopy(self._trainable).requires_grad_(True)

    def _without_trainable(self) -> Backbone:
        """The same backbone without its trainable copy, which is half of its bytes when it is sent to a worker."""
        made = copy.copy(self)
        made._trainable = None
        return made

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
        views = f"{self.input_size} x {self.input_size}" if self.plain else f"views {','.join(map(str, self.views))}"
        stages = "" if self.stages is None else f", stages {','.join(self.stages)}"
        return (
            f"<Backbone {self.name}: {views} -> {self.feature_dim}{stages}, {self.device}, digest {self.digest[:12]}>"
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
