"""GDumb: "GDumb: A Simple Approach that Questions Our Progress in Continual Learning" (Prabhu et al., ECCV 2020)."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from votestream.backbones import Backbone
from votestream.common.parameters import Ranges, choice, real, whole
from votestream.common.validation import as_device
from votestream.core.registry import register
from votestream.io.array_checks import demand
from votestream.io.model_files import joined, part_of
from votestream.learners.network.augmentation import cut_and_mixed
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.network_learner import NetworkLearner, seed_torch, training
from votestream.learners.network.network_memory import NetworkMemory, NetworkPredictor
from votestream.learners.network.passes import train
from votestream.memory.image_memory import to_device

PAPER = 0.05, 256  # learning rate, passes
PIECE = 1000  # images that go to the device at once


@register("gdumb")
class GDumb(NetworkLearner[NetworkMemory]):
    r"""Keeps a class-balanced memory, and trains a network on it alone at the first prediction (GDumb).

    What it trains, from the backbone's weights, on a memory M with at most Q / C images of each of C classes:

    .. math:: \min_\theta \; \frac{1}{|M|} \sum_{(x, y) \in M} -\log \operatorname{softmax}(f_\theta(x))_y

    Take it where thousands of images may be kept and a training before the next answer is no problem: with enough of
    them it passes learners on frozen features.

    Reference: Ameya Prabhu, Philip Torr and Puneet Dokania, "GDumb: A Simple Approach that Questions Our Progress in
    Continual Learning", ECCV 2020.

    Parameters
    ----------
    budget : images kept, all classes together. They are kept as they are, uint8 at the network's input size.
    lr : the largest learning rate; it falls to a hundredth of it along cosines of 1, 2, 4, 8, ... passes. The paper's
        0.05 is for networks trained from nothing.
    passes : over the memory, for one training; a power of two ends where a cosine does. The paper's are 256.
    cutmix : probability that a mini-batch is mixed with itself by CutMix.
    backbone : a name that `create_backbone` knows, or a backbone: the network to start from. It is copied.
    batch_size : of that training.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    preset : "paper" takes the paper's learning rate and number of passes.
    seed, device : "auto" is the GPU if there is one.

    X is images: arrays, PIL images, paths. Learning only fills the memory. The first prediction afterwards
    trains, always from the backbone's weights and with the same seed. The trained network is kept until more is
    learned, and is not saved: a loaded model trains again at its first prediction. SGD with momentum 0.9, weight decay
    1e-6 and gradients of norm 10 at most; random crops and flips, CutMix. The network of the
    last pass predicts, where the authors' code reports its best on the test set; it starts from the backbone's weights,
    where theirs starts from none.

    >>> import numpy as np, votestream as vs
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> model = vs.GDumb(budget=8, passes=2, device="cpu")
    >>> model = model.partial_fit(images, ["cat"] * 10 + ["dog"] * 10)
    >>> sorted(model.exemplars_.labels.tolist()), model.predict_proba(images).shape
    (['cat', 'cat', 'cat', 'cat', 'dog', 'dog', 'dog', 'dog'], (20, 2))
    """

    keep_rule = "balanced"
    parameter_ranges: ClassVar[Ranges] = {
        "passes": whole(1, 10_000),
        "cutmix": real(0, 1),
        "preset": choice(None, "paper"),
    }

    def __init__(
        self,
        budget: int = 1000,
        lr: float = 0.01,
        passes: int = 32,
        cutmix: float = 0.5,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 16,
        close_task_after: int = 20,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.budget = budget
        self.lr = lr
        self.passes = passes
        self.cutmix = cutmix
        self.backbone = backbone
        self.batch_size = batch_size
        self.close_task_after = close_task_after
        self.preset = preset
        self.seed = seed
        self.device = device

    def new_memory(self, width: int) -> NetworkMemory:
        device, size = as_device(self.device), self.backbone_.input_size
        images = self.new_image_memory((size, size, 3), device)
        return ImagesAlone(self.backbone_, images, self.seed, device)

    def learn(self, X: NDArray[np.uint8], classes: NDArray[np.int64], offset: int) -> None:
        memory = self.memory_
        for i in range(0, len(X), PIECE):
            images, numbers = X[i : i + PIECE], classes[i : i + PIECE]
            self.remember(memory.put(images), to_device(numbers, memory.device), numbers)

    def new_predictor(self) -> NetworkPredictor:
        return self.predictor_by(self._train(), live=False)

    def _train(self) -> Classifier:
        """A network trained on the memory, from the backbone's weights; a function of memory, settings and seed."""
        memory, random = self.memory_, torch.Generator().manual_seed(int(self.seed))
        network = copy.deepcopy(memory.network)
        network.grow(len(self.state_.numbers), random)
        lr, passes = PAPER if self.preset == "paper" else (self.lr, self.passes)
        with training(memory.device):
            seed_torch(int(self.seed), memory.device)  # for CutMix, and for dropout and its like
            train(
                network,
                memory.images.store.images,
                memory.images.store.labels,
                partial(self._loss, network),
                random,
                rates=[learning_rate(epoch, lr) for epoch in range(passes)],
                batch_size=self.batch_size,
                weight_decay=1e-6,
                largest=10.0,
                half=False,
            )
        return network

    def _loss(self, network: nn.Module, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy; with CutMix, of both labels by the share of the image that is theirs."""
        mixed, share = cut_and_mixed(pixels, torch.rand(4, device=pixels.device), self.cutmix)
        logits = network(mixed)
        own, others = F.cross_entropy(logits, labels), F.cross_entropy(logits, labels.roll(1))
        return (1 - share) * own + share * others


class ImagesAlone(NetworkMemory):
    """Images to train on; the network is the backbone's, as it was, and not in files."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        return joined({"memory": self.images.state()})

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.images.restore(part_of(arrays, "memory"), n_classes)
        demand(len(self.images) > 0, "there are no images to train on")


def learning_rate(epoch: int, largest: float) -> float:
    """Of each pass: a tenth in the first, then cosines of 1, 2, 4, ... passes from the largest to a hundredth of it.

    >>> [round(learning_rate(epoch, 0.05), 4) for epoch in range(6)]
    [0.005, 0.05, 0.05, 0.0253, 0.05, 0.0428]
    """
    if epoch == 0:
        return largest / 10
    length = 1 << (epoch.bit_length() - 1)
    return largest * (0.01 + 0.99 * (1 + math.cos(math.pi * (epoch - length) / length)) / 2)
