"""What the learners on random features (ranpac, foal, klda, randumb) share: a random layer, sums, a rule to decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from votestream.common.parameters import Ranges, real, whole
from votestream.common.validation import warn_of_offsets
from votestream.compute.place import Array, Place, library_of
from votestream.core.learner import Learner
from votestream.core.modules import log_softmax
from votestream.core.state import State
from votestream.io.array_checks import demand, take
from votestream.io.model_files import joined, part_of
from votestream.learners.statistics.linear_rule import onto_simplex, slices
from votestream.learners.statistics.modules import MeanModule, RandomFeaturesModule, log_onto_simplex
from votestream.memory import GramSums, Memory, Pending
from votestream.memory.gram import ridge_solution

FARTHEST = 2.0**24  # from 1, that a scale may be: the first rows are brought nearer
BLOCK = 128  # rows whose products are added up at once
LARGEST_W = 1 << 23  # numbers of all W, which are in no file, that a small file may have us draw


class Layer(NamedTuple):
    """A random layer that is never trained: "relu" max(0, x W), "sigmoid" of x W, or "cos" of x W + b."""

    kind: str
    W: Array  # (D, M)
    b: Array | None = None  # (M,)

    def __call__(self, X: Array) -> Array:
        Z = X @ self.W
        if self.kind == "relu":
            return Z.clip(0)
        if self.kind == "sigmoid":
            return 0.5 + 0.5 * library_of(Z).tanh(0.5 * Z)  # the same, and nothing overflows
        return library_of(Z).cos(Z + self.b)

    @classmethod
    def drawn(cls, kind: str, width: int, M: int, scale: float, generator: torch.Generator, place: Place) -> Layer:
        """W normal with deviation `scale`, b uniform in [0, 2 pi)."""
        W = torch.randn(width, M, generator=generator) * scale
        b = 2 * math.pi * torch.rand(M, generator=generator) if kind == "cos" else None
        return cls(kind, place.put(W.numpy()), None if b is None else place.put(b.numpy()))


# Of the width of rows, the number of random features, what rows are divided by, a generator and a place: the layers.
Draw = Callable[[int, int, float, torch.Generator, Place], list[Layer]]


class RandomFeatureSums(Memory):
    """Sums of products of random features h(x). Rows wait until a block of the stream is full.

    The layers are drawn by `draw` from the seed and are not in files. n_random: random features of a layer. n_parts:
    how many sums are kept. kind: which ones. scale: what features are divided by first, for layers that bend at a
    certain size of x; "auto" is the root mean square of the first row, as a power of two, so that models of similar
    data have the same; None: features are taken as they are.
    """

    def __init__(
        self,
        width: int,
        n_random: int,
        draw: Draw,
        place: Place,
        seed: int,
        n_parts: int = 1,
        kind: type[GramSums] = GramSums,
        scale: float | str | None = None,
        block: int = BLOCK,
    ) -> None:
        self.width = width
        self.place = place
        self.seed = seed
        self.n_random = n_random
        self.n_parts = n_parts
        self._draw = draw
        self._kind = kind
        self._scale_param = scale
        self._block = block

    def begin(self, rows: NDArray[np.float32], unit: float = 1.0) -> None:
        self.scale = 1.0
        if self._scale_param == "auto":
            size = float(np.sqrt(np.square(rows[0], dtype=np.float64).mean()))
            self.scale = 2.0 ** round(math.log2(size)) if size else 1.0
        elif self._scale_param is not None:
            self.scale = float(self._scale_param) * unit
        self.scale = min(max(self.scale, 1 / FARTHEST), FARTHEST)
        self._make_room()

    def begin_like(self, other: RandomFeatureSums) -> None:
        """Make room, with the scale and the layers of another memory."""
        self.scale, self.seed = other.scale, other.seed
        self.n_random, self.n_parts = other.layers[0].W.shape[1], len(other.sums)
        self._make_room()

    def _make_room(self) -> None:
        generator = torch.Generator().manual_seed(int(self.seed))
        self.layers = self._draw(self.width, self.n_random, self.scale, generator, self.place)
        self._draw_more(generator)
        self.pending = Pending(self.width, self._block)
        self.sums = [self._kind(self.n_random, self.place) for _ in range(self.n_parts)]

    def _draw_more(self, generator: torch.Generator) -> None:
        """What else a kind of these sums draws."""

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        for rows, numbers in self.pending.add(X, classes):
            self._add_block(rows, numbers)

    def _add_block(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        for sums, more in zip(self.sums, self._parts(X, classes), strict=True):
            sums.add(*more)

    def _parts(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> list[tuple[Array, NDArray[np.int64]]]:
        """Of a block's rows, the random features and classes that go to each of the sums; here one for each layer."""
        rows = self.place.put(X)
        return [(layer(rows), classes) for layer in self.layers]

    def now(self) -> Iterator[Any]:
        """The sums of all rows, in float64, not this memory's own; one by one, as each takes much memory."""
        waiting = self._parts(self.pending.rows, self.pending.classes)
        return (sums.with_more(*more) for sums, more in zip(self.sums, waiting, strict=True))

    def join(self, number: int, into: int) -> None:
        """Make the class a part of another; afterwards classes above `number` count one less."""
        self.settle()
        for sums in self.sums:
            sums.join(number, into)

    def merge(self, other: RandomFeatureSums, numbers: NDArray[np.int64]) -> None:
        """Add the sums of another stream; its class i is class numbers[i] here."""
        self.settle()
        waiting = other._parts(other.pending.rows, other.pending.classes)
        for sums, theirs, (H, own) in zip(self.sums, other.sums, waiting, strict=True):
            sums.merge(theirs, numbers)
            sums.add(H, numbers[own])

    def shared_traits(self) -> dict[str, Any]:
        """The seed that the layers are drawn with, and what features are divided by."""
        return {"seed": self.seed, "scale": self.scale}

    def settle(self) -> None:
        """Add the rows that wait."""
        self._add_block(self.pending.rows, self.pending.classes)
        self.pending.drop()

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {f"part{number}": sums.state() for number, sums in enumerate(self.sums)}
        scale = {} if self._scale_param is None else {"scale": np.array(self.scale)}
        return {**scale, "seed": np.array(self.seed), **joined({"pending": self.pending.state(), **parts})}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.scale = 1.0
        if self._scale_param is not None:
            self.scale = float(take(arrays, "scale", np.float64, (), 1 / FARTHEST, FARTHEST))
        self.n_parts = self._checked_parts(sum(name.endswith(".G") for name in arrays))
        self.n_random = len(take(arrays, "part0.G", np.float32, (None, None), -np.inf, np.inf))
        self.seed = int(take(arrays, "seed", np.int64, (), low=-(2**63)))
        held = sum(array.nbytes for array in arrays.values())
        fits = self.n_parts * self.width * self.n_random <= max(LARGEST_W, held)
        demand(fits, f"{self.width} features do not fit a file that holds {held} bytes")
        self._make_room()
        for number, sums in enumerate(self.sums):
            sums.restore(part_of(arrays, f"part{number}"), n_classes)
        self.pending.restore(part_of(arrays, "pending"), max(sums.n_classes for sums in self.sums), n_classes)

    def _checked_parts(self, found: int) -> int:
        """How many sums there are, of so many in a file."""
        demand(found == self.n_parts, f"there are {found} sums of products, but there must be {self.n_parts}")
        return found


class RandomFeaturesLearner(Learner[RandomFeatureSums]):
    """Keeps sums of products of random features; a subclass says which, and solves for how to predict by them."""

    test_growth = 1.5
    why_not = "its sums mix the random features of all classes; teach a new model"
    bearable_offset: float = 3e4  # means over variation of features; beyond it the sums, in float32, hold nothing else
    projection: int
    parameter_ranges: ClassVar[Ranges] = {"projection": whole(1, 10**6), "scale": real(1e-12, 1e12, "auto")}

    def begin(self, rows: NDArray[Any], unit: float, names: Any = None, like: Any = None) -> State[RandomFeatureSums]:
        if like is None:
            warn_of_offsets(rows[: self.batch_size], common=self.bearable_offset, differing=self.bearable_offset)
        return super().begin(rows, unit, names, like)


class Head(NamedTuple):
    """What turns the random features of one layer into scores: (h - centre) weights + bias."""

    layer: Layer
    weights: Array  # (M, C); float64 where there is a centre, as scores of a discriminant are large
    found: float  # lambda or the shrinkage that it was solved with
    centre: Array | None = None  # (M,)
    bias: Array | None = None  # (C,)

    @classmethod
    def solved(cls, layer: Layer, G: torch.Tensor, Q: torch.Tensor, ridge: float, place: Place) -> Head:
        """Scores h (G + ridge I)^-1 Q."""
        weights, ridge = definite_solution(G, Q, ridge)
        return cls(layer, place.put(weights.float().cpu().numpy()), ridge)

    def scores(self, X: Array) -> Array:
        H = self.layer(X)
        return H @ self.weights if self.bias is None else (H - self.centre) @ self.weights + self.bias


def definite_solution(G: torch.Tensor, Q: torch.Tensor, ridge: float) -> tuple[torch.Tensor, float]:
    """(G + ridge I)^-1 Q and the ridge; a larger one where it was too small to make the system definite."""
    while (weights := ridge_solution(G, Q, ridge)) is None:
        ridge *= 10
    return weights, ridge


class RandomFeaturesRule(NamedTuple):
    """A predictor: the largest score decides; of several heads, the largest mean of their probabilities."""

    heads: list[Head]
    link: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    place: Place

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        if len(self.heads) > 1:
            found: NDArray[np.int64] = self.probabilities(X).argmax(1)
            return found
        return np.concatenate([self.place.get(scores.argmax(1)) for scores in self._scores(self.heads[0], X)])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        shares = [self._shares(head, X) for head in self.heads]
        return shares[0] if len(shares) == 1 else np.mean(shares, axis=0)

    def _shares(self, head: Head, X: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = np.concatenate([self.place.get(scores) for scores in self._scores(head, X)])
        return self.link(scores.astype(np.float64))

    def as_module(self) -> nn.Module:
        made = [self._module(head) for head in self.heads]
        return made[0] if len(made) == 1 else MeanModule(made)

    def _module(self, head: Head) -> RandomFeaturesModule:
        arrays = {"W": head.layer.W, "b": head.layer.b, **head._asdict()}
        link = log_onto_simplex if self.link is onto_simplex else log_softmax
        names = ("W", "b", "weights", "centre", "bias")
        held = {name: self.place.get(arrays[name]).astype(np.float32) for name in names if arrays[name] is not None}
        return RandomFeaturesModule(head.layer.kind, link, **held)

    def _scores(self, head: Head, X: NDArray[np.float32]) -> Iterator[Array]:
        for rows in slices(X, len(head.weights)):
            yield head.scores(self.place.put(rows))
