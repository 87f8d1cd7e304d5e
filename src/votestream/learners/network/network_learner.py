"""What the learners that train a network on images share: mini-batches, steps, a memory of images, saving."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional as F

from votestream.backbones import Backbone, create_backbone
from votestream.backbones.reference import describe, find_again
from votestream.common.parameters import EXEMPLARS, Ranges, real, whole
from votestream.common.validation import as_device
from votestream.core.exemplars import Exemplars
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.images.convert import as_sequence
from votestream.io.array_checks import demand
from votestream.io.file_header import checked_params
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.network_memory import NetworkMemory, NetworkPredictor
from votestream.memory import ImageMemory
from votestream.memory.image_memory import to_device

STEPS = 100  # mini-batches that go to the device in one piece
READ = 4096  # image files read into memory together when predicting
NM = TypeVar("NM", bound=NetworkMemory)


class NetworkLearner(Learner[NM]):
    """Trains a whole network by plain SGD, one pass, and keeps images of the stream to replay.

    A method is a subclass with a `step`: what to do with one mini-batch, before the image memory sees it. It has, in
    `memory_`, the `network` (in training mode), the `images` kept, `random` numbers, and `captured(fn, *tensors)` for
    work on the device, which CUDA then replays as a graph; and here `gradient` and `descend`. Images and class numbers
    are on the device; nothing in a step needs to wait for it.

    The softmax is over the classes seen so far. Plain SGD has no state, so there is none to disturb or to save
    when the head grows.
    """

    input = "images"
    fixed_parameters: tuple[str, ...] = ("budget", "seed")
    # Any learning rate that float32 holds: a network that diverged refuses to predict, and to be saved.
    parameter_ranges: ClassVar[Ranges] = {"budget": EXEMPLARS, "lr": real(1e-9, 1e38), "replay": whole(0, 10**6)}
    derived = ("_made", "_made_from")  # every model starts from the same backbone
    keep_rule = "reservoir"  # which images stay: a keep rule that decides from labels alone
    _made: Backbone
    _made_from: str | Backbone

    def __init__(
        self,
        budget: int = 1000,
        lr: float = 0.1,
        replay: int = 10,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 10,
        close_task_after: int = 20,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.budget = budget
        self.lr = lr
        self.replay = replay
        self.backbone = backbone
        self.batch_size = batch_size
        self.close_task_after = close_task_after
        self.seed = seed
        self.device = device

    # ---- images -------------------------------------------------------------------------------

    @property
    def backbone_(self) -> Backbone:
        """The backbone that the network started from, as it was; made when it is first needed."""
        if not hasattr(self, "_made") or (self._made_from != self.backbone and self._state is None):
            given = self.backbone
            self._made = create_backbone(given, device="cpu") if isinstance(given, str) else given
            self._made_from = self.backbone
        return self._made

    def rows_of(self, X: ArrayLike, width: int | None) -> NDArray[np.uint8]:
        """The images as the network takes them, one a row of bytes. All are read before any is learned."""
        images = as_sequence(X)  # type: ignore[arg-type]
        if not len(images):
            raise ValueError("X is empty: there is no image in it")
        batches = list(self.backbone_.preprocessing.batches(images, len(images)))
        return np.require(batches[0].reshape(len(images), -1), requirements=["C", "W"])

    # ---- what a method may write ------------------------------------------------------------------

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Learn from one mini-batch."""
        raise NotImplementedError

    def remember(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        """Offer a mini-batch, which has been learned, to the image memory; `classes` are the labels, on the host."""
        self.memory_.images.observe(images, labels, classes)

    def new_image_memory(self, shape: tuple[int, ...], device: torch.device) -> Any:
        """An empty memory of at most `images_kept` images."""
        return ImageMemory(self.images_kept(), shape, self.keep_rule, self.seed, device)

    def images_kept(self) -> int:
        """How many images may be kept."""
        return self.budget

    @property
    def mergeable(self) -> bool:
        """A network is trained step by step on one stream."""
        return False

    # ---- learning -------------------------------------------------------------------------------

    def new_memory(self, width: int) -> NM:
        device, size = as_device(self.device), self.backbone_.input_size
        images = self.new_image_memory((size, size, 3), device)
        return NetworkMemory(self.backbone_, images, self.seed, device)  # type: ignore[return-value]

    def learn(self, X: NDArray[np.uint8], classes: NDArray[np.int64], offset: int) -> None:
        memory, piece = self.memory_, STEPS * self.batch_size
        memory.captured.under(self.get_params(deep=False))
        with training(memory.device):
            memory.network.train()
            for first in range(-offset, len(X), piece):
                start, end = max(first, 0), min(len(X), first + piece)
                images, labels = memory.put(X[start:end]), to_device(classes[start:end], memory.device)
                for begin in range(first, end, self.batch_size):
                    rows = slice(max(begin, 0) - start, min(begin + self.batch_size, end) - start)
                    self._learn_batch(memory, images[rows], labels[rows], classes[start:end][rows])
            memory.network.eval()

    def _learn_batch(self, memory: NetworkMemory, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        """Learn from one mini-batch, then offer it to the image memory."""
        seed_torch(int(memory.random.uniform(1)[0] * 2**53), memory.device)  # for dropout and its like
        n_classes = max(classes.tolist()) + 1
        if n_classes > len(memory.network.weight):
            memory.network.grow(n_classes, memory.random.generator)
            memory.captured.clear()
        self.step(images, labels)
        self.remember(images, labels, classes)

    def learn_from(self, images: Tensor, labels: Tensor) -> None:
        """One step of SGD on these images."""
        self.descend(self.gradient(images, labels))

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Of the mean cross-entropy, for every parameter, by one pass forward and one back."""
        network = self.memory_.network
        loss = F.cross_entropy(network(images), labels)
        return torch.autograd.grad(loss, list(network.trained().values()), materialize_grads=True)

    def descend(self, gradient: tuple[Tensor, ...]) -> None:
        """One step of SGD."""
        with torch.no_grad():
            torch._foreach_add_(list(self.memory_.network.trained().values()), gradient, alpha=-self.lr)

    # ---- predicting -----------------------------------------------------------------------------

    def new_predictor(self) -> NetworkPredictor:
        memory = self.memory_
        return self.predictor_by(memory.network, live=True)

    def predictor_by(self, network: Classifier, live: bool, scores: Any = None) -> NetworkPredictor:
        """Predicts by a network; see `NetworkPredictor`."""
        size, device = self.backbone_.input_size, as_device(self.device)
        return NetworkPredictor(network, size, device, type(self).__name__, self.lr, live, scores)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        found = []
        for some in _parts(X):
            found.append(super().predict(some))  # in a comprehension it would be a frame deeper in some Pythons
        return np.concatenate(found)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        found = []
        for some in _parts(X):
            found.append(super().predict_proba(some))
        return np.concatenate(found)

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def exemplars_(self) -> Exemplars:
        """The images kept, (n, size, size, 3) uint8, slot by slot, as `features`; their labels and tasks."""
        state = self.state_
        images, numbers = state.memory.images.store.state().values()
        return Exemplars(images.copy(), state.naming.seen[numbers], state.task_numbers()[numbers])

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        return self.by_class(self.prepared().predictor.network.weight.detach().cpu().numpy())

    # ---- saving ---------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        header = super().header()
        del header["params"]["backbone"]
        return {**header, "backbone": describe(self.backbone_)}

    @classmethod
    def from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Self:
        made, given = find_again(header["backbone"], backbone, "cpu")
        params = {**checked_params(cls, header["params"]), "backbone": made}
        width = 3 * made.input_size**2
        demand(header["n_features"] == width, f"an image is {width} bytes, not {header['n_features']!r:.60}")
        model = super().from_file({**header, "params": params}, arrays, device, None)
        model.backbone = model._made_from = given
        return model


def _parts(X: ArrayLike) -> list[Any]:
    """Images that are files in parts, since they need not fit in memory together; others as they are."""
    images = as_sequence(X)  # type: ignore[arg-type]
    if isinstance(images, list) and images and all(isinstance(one, (str, os.PathLike)) for one in images):
        return [images[i : i + READ] for i in range(0, len(images), READ)]
    return [images]


@contextmanager
def training(device: torch.device) -> Iterator[None]:
    """While a network is trained: torch's random state is put back afterwards, and on a GPU no algorithm is taken that
    differs from run to run. Convolutions may round to TF32 there, which halves a step's time.
    """
    cuda = device.type == "cuda"
    same = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True) if cuda else nullcontext()
    with torch.random.fork_rng([device] if cuda else []), same:
        yield


def seed_torch(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for this device; that one calls on every kind of device, and takes 0.1 ms."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)
