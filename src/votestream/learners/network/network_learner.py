"""What the learners that train a network on images share: mini-batches, steps, a memory of images, saving."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from votestream.backbones import Backbone, create_backbone
from votestream.backbones.backbone import exact
from votestream.backbones.reference import describe, find_again
from votestream.common.parameters import EXEMPLARS, Ranges, real, whole
from votestream.common.validation import as_device
from votestream.compute.graph_cache import GraphCache
from votestream.compute.random_pool import RandomPool
from votestream.core.exemplars import Exemplars
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.core.modules import ScoresModule
from votestream.images.convert import as_sequence
from votestream.io.array_checks import demand
from votestream.io.file_header import checked_params
from votestream.io.model_files import joined, part_of
from votestream.learners.network.classifier import Classifier
from votestream.memory import ImageMemory
from votestream.memory.image_memory import to_device

STEPS = 100  # mini-batches that go to the device in one piece
QUERIES = {"cpu": 64, "cuda": 1024}  # images predicted at once
READ = 4096  # image files read into memory together when predicting


class NetworkLearner(Learner):
    """Trains a whole network by plain SGD, one pass, and keeps images of the stream to replay.

    A method is a subclass with a `_step`: what to do with one mini-batch, before the memory sees it. It has the
    network (`_network`, in training mode), the memory (`_memory`), random numbers (`_random`), `_gradient` and
    `_descend`. Images and class numbers are on the device; nothing in a step needs to wait for it. Wrap
    device work in `_captured(fn, *tensors)`: on CUDA it is captured as a graph once and then replayed.

    The softmax is over the classes seen so far. Plain SGD has no state, so there is none to disturb or to save
    when the head grows.
    """

    input = "images"
    _made: Backbone
    _made_from: str | Backbone
    _memory: ImageMemory
    _working: tuple[str, ...] = ("backbone", "_made", "_made_from", "_captured")  # every model starts from the same
    _fixed: tuple[str, ...] = ("budget", "seed")
    # Any learning rate that float32 holds: a network that diverged refuses to predict, and to be saved.
    parameter_ranges: ClassVar[Ranges] = {"budget": EXEMPLARS, "lr": real(1e-9, 1e38), "replay": whole(0, 10**6)}
    _keep = "reservoir"  # which images stay: a keep rule that decides from labels alone

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
        if not hasattr(self, "_made") or (self._made_from != self.backbone and not self._is_fitted()):
            given = self.backbone
            self._made = create_backbone(given, device="cpu") if isinstance(given, str) else given
            self._made_from = self.backbone
        return self._made

    def _check_X(self, X: ArrayLike, width: int | None) -> NDArray[np.uint8]:
        """The images as the network takes them, one a row of bytes. All are read before any is learned."""
        images = as_sequence(X)  # type: ignore[arg-type]
        if not len(images):
            raise ValueError("X is empty: there is no image in it")
        batches = list(self.backbone_.preprocessing.batches(images, len(images)))
        return np.require(batches[0].reshape(len(images), -1), requirements=["C", "W"])

    def _put(self, X: NDArray[np.uint8]) -> Tensor:
        size = self.backbone_.input_size
        return to_device(X.reshape(-1, size, size, 3), self._device)

    # ---- learning -------------------------------------------------------------------------------

    def _begin(self, X: NDArray[np.uint8]) -> None:
        self._allocate()

    def _allocate(self) -> None:
        self._device = as_device(self.device)
        self._random = RandomPool(self.seed)
        self._network = Classifier(self.backbone_, self._device).eval()
        self._captured = GraphCache()
        size = self.backbone_.input_size
        self._memory = self._new_memory((size, size, 3))

    def _new_memory(self, shape: tuple[int, ...]) -> Any:
        return ImageMemory(self._memory_size(), shape, self._keep, self.seed, self._device)

    def _memory_size(self) -> int:
        """Images that may be kept."""
        return self.budget

    def _learn(self, X: NDArray[np.uint8], classes: NDArray[np.int64], offset: int) -> None:
        piece = STEPS * self.batch_size
        self._captured.under(self.get_params(deep=False))
        with training(self._device):
            self._network.train()
            for first in range(-offset, len(X), piece):
                start, end = max(first, 0), min(len(X), first + piece)
                images, labels = self._put(X[start:end]), to_device(classes[start:end], self._device)
                for begin in range(first, end, self.batch_size):
                    rows = slice(max(begin, 0) - start, min(begin + self.batch_size, end) - start)
                    self._take_in(images[rows], labels[rows], classes[start:end][rows])
            self._network.eval()

    def _take_in(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        """Learn from one mini-batch, then offer it to the memory."""
        seed_torch(int(self._random.uniform(1)[0] * 2**53), self._device)  # for dropout and its like
        n_classes = max(classes.tolist()) + 1
        if n_classes > len(self._network.weight):
            self._network.grow(n_classes, self._random.generator)
            self._captured.clear()
        self._step(images, labels)
        self._remember(images, labels, classes)

    def _step(self, images: Tensor, labels: Tensor) -> None:
        raise NotImplementedError

    def _remember(self, images: Tensor, labels: Tensor, classes: NDArray[np.int64]) -> None:
        self._memory.observe(images, labels, classes)

    def _learn_from(self, images: Tensor, labels: Tensor) -> None:
        self._descend(self._gradient(images, labels))

    def _gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Of the mean cross-entropy, for every parameter, by one pass forward and one back."""
        loss = F.cross_entropy(self._network(images), labels)
        return torch.autograd.grad(loss, list(self._network.trained().values()), materialize_grads=True)

    def _descend(self, gradient: tuple[Tensor, ...]) -> None:
        """One step of SGD."""
        with torch.no_grad():
            torch._foreach_add_(list(self._network.trained().values()), gradient, alpha=-self.lr)

    # ---- deciding -------------------------------------------------------------------------------

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

    def _decide(self, X: NDArray[np.uint8]) -> NDArray[np.int64]:
        return self._finite_logits(X).argmax(1)

    def _probabilities(self, X: NDArray[np.uint8]) -> NDArray[np.float64]:
        logits = self._finite_logits(X).astype(np.float64)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def _finite_logits(self, X: NDArray[np.uint8]) -> NDArray[np.float32]:
        logits = self._logits(X)
        if not np.isfinite(logits).all():
            raise ValueError(
                f"the network of this {type(self).__name__} has diverged and its predictions would mean nothing: "
                f"train it again with an lr below {self.lr:g}"
            )
        return logits

    def _logits(self, X: NDArray[np.uint8]) -> NDArray[np.float32]:
        (_, scores), n = self._scoring(), QUERIES.get(self._device.type, 64)
        with exact(self._device), torch.inference_mode():
            return np.concatenate([scores(self._put(X[i : i + n])).cpu().numpy() for i in range(0, len(X), n)])

    def _scoring(self) -> tuple[Classifier, Callable[[Tensor], Tensor]]:
        """The network that predicts, and what makes scores (n, C) of uint8 images by it."""
        network = self._answering()
        return network, network

    def _answering(self) -> Classifier:
        """The network that predicts, in evaluation mode."""
        return self._network

    def _as_module(self) -> nn.Module:
        for name in ("_logits", "_decide", "_probabilities"):
            if getattr(type(self), name) is not getattr(NetworkLearner, name):
                raise ValueError(f"a {type(self).__name__} cannot be exported: it has {name} of its own, not _scoring")
        return NetworkModule(*self._scoring())

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def exemplars_(self) -> Exemplars:
        """The images kept, (n, size, size, 3) uint8, slot by slot, as `features`; their labels and tasks."""
        images, numbers = self._memory.store.state().values()
        return Exemplars(images.copy(), self._naming().seen[numbers], self._task_numbers()[numbers])

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        return self._sorted(self._answering().weight.detach().cpu().numpy())

    # ---- saving ---------------------------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        header = super()._header()
        del header["params"]["backbone"]
        return {**header, "backbone": describe(self.backbone_)}

    @classmethod
    def _from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Learner:
        made, given = find_again(header["backbone"], backbone, "cpu")
        params = {**checked_params(cls, header["params"]), "backbone": made}
        width = 3 * made.input_size**2
        demand(header["n_features"] == width, f"an image is {width} bytes, not {header['n_features']!r:.60}")
        model = super()._from_file({**header, "params": params}, arrays, device, None)
        model.backbone = model._made_from = given
        return model

    def _arrays(self) -> dict[str, NDArray[Any]]:
        network = {name: tensor.cpu().numpy() for name, tensor in self._network.state_dict().items()}
        return joined({"network": network, "memory": self._memory.state(), "random": self._random.state()})

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._allocate()
        n_classes = len(self._index)
        self._network.restore(part_of(arrays, "network"), n_classes)
        self._memory.restore(part_of(arrays, "memory"), n_classes)
        self._random.restore(part_of(arrays, "random"))


class NetworkModule(ScoresModule):
    """A trained network as a predictor, on uint8 images (n, size, size, 3)."""

    def __init__(self, network: Classifier, scores: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self._scores = network, scores

    def scores(self, X: Tensor) -> Tensor:
        return self._scores(X)


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
