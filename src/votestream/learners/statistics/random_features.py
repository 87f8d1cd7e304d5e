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
from votestream.io.array_checks import demand, take
from votestream.io.model_files import joined, part_of
from votestream.learners.statistics.linear_rule import onto_simplex, slices
from votestream.learners.statistics.modules import MeanModule, RandomFeaturesModule, log_onto_simplex, log_softmax
from votestream.memory import GramSums, Pending
from votestream.memory.gram import ridge_solution

FARTHEST = 2.0**24  # from 1, that a scale may be: the first rows are brought nearer
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


class RandomFeaturesLearner(Learner):
    """Keeps sums of products of random features h(x); a subclass draws the layers and has a `_heads` to decide by.

    The layers are drawn from the seed and not in the file. Rows wait until a block of the stream is full; deciding
    adds those that wait to a copy of the sums.
    """

    block = 128
    sums: type[GramSums] = GramSums
    _link: Callable[[NDArray[np.float64]], NDArray[np.float64]] = staticmethod(onto_simplex)
    _test_growth = 1.5
    _bearable = 3e4  # means over variation of features; beyond it the sums, in float32, hold nothing else
    projection: int
    parameter_ranges: ClassVar[Ranges] = {"projection": whole(1, 10**6)}

    # ---- learning -------------------------------------------------------------------------------

    def _begin(self, X: NDArray[np.float32]) -> None:
        warn_of_offsets(X, common=self._bearable, differing=self._bearable)
        self._allocate(X.shape[1], self._n_features(), self.seed, self._n_parts())

    def _n_features(self) -> int:
        """M."""
        return self.projection

    def _n_parts(self) -> int:
        """How many sums are kept."""
        return 1

    def _allocate(self, width: int, M: int, seed: int, n_parts: int) -> None:
        self._place = Place(self.device)
        self._drawn_with = seed
        self._layers = self._drawn(width, M, n_parts, torch.Generator().manual_seed(int(seed)))
        self._pending = Pending(width, self.block)
        self._sums = [self.sums(M, self._place) for _ in range(n_parts)]

    def _drawn(self, width: int, M: int, n_parts: int, generator: torch.Generator) -> list[Layer]:
        raise NotImplementedError

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        for rows, numbers in self._pending.add(X, classes):
            self._add(rows, numbers)

    def _add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        for sums, more in zip(self._sums, self._parts(X, classes), strict=True):
            sums.add(*more)

    def _parts(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> list[tuple[Array, NDArray[np.int64]]]:
        """Of a block's rows, the random features and classes that go to each of the sums; here one for each layer."""
        rows = self._place.put(X)
        return [(layer(rows), classes) for layer in self._layers]

    # ---- deciding -------------------------------------------------------------------------------

    def _predictor(self) -> RandomFeaturesRule:
        waiting = self._parts(self._pending.rows, self._pending.classes)
        now = (sums.with_more(*more) for sums, more in zip(self._sums, waiting, strict=True))
        return RandomFeaturesRule(self._heads(now), self._link, self._place)

    def _heads(self, sums: Iterator[Any]) -> list[Head]:
        """What decides, from the sums of all rows, in float64, which are not the learner's own.

        They come one by one, as each takes much memory.
        """
        raise NotImplementedError

    # ---- corrections ----------------------------------------------------------------------------

    mergeable = True
    _merged_alike: tuple[str, ...] = ("_unit", "_drawn_with")
    _why_not = "its sums mix the random features of all classes; teach a new model"

    def _join(self, number: int, into: int) -> None:
        self._settle()
        for sums in self._sums:
            sums.join(number, into)

    def _merge(self, other: RandomFeaturesLearner, numbers: NDArray[np.int64]) -> None:
        self._settle()
        waiting = other._parts(other._pending.rows, other._pending.classes)
        for sums, theirs, (H, own) in zip(self._sums, other._sums, waiting, strict=True):
            sums.merge(theirs, numbers)
            sums.add(H, numbers[own])

    def _begin_like(self, other: RandomFeaturesLearner) -> None:
        super()._begin_like(other)
        width, M = other._layers[0].W.shape
        self._allocate(width, M, other._drawn_with, len(other._sums))

    def _settle(self) -> None:
        self._add(self._pending.rows, self._pending.classes)
        self._pending.drop()

    # ---- what was learned -----------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        parts = {f"part{number}": sums.state() for number, sums in enumerate(self._sums)}
        return {"seed": np.array(self._drawn_with), **joined({"pending": self._pending.state(), **parts})}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        n_classes, n_parts = len(self._index), self._n_parts_in(arrays)
        M = len(take(arrays, "part0.G", np.float32, (None, None), -np.inf, np.inf))
        seed = int(take(arrays, "seed", np.int64, (), low=-(2**63)))
        held = sum(array.nbytes for array in arrays.values())
        fits = n_parts * self.n_features_in_ * M <= max(LARGEST_W, held)
        demand(fits, f"{self.n_features_in_} features do not fit a file that holds {held} bytes")
        self._allocate(self.n_features_in_, M, seed, n_parts)
        for number, sums in enumerate(self._sums):
            sums.restore(part_of(arrays, f"part{number}"), n_classes)
        merged = max(sums.n_classes for sums in self._sums)
        self._pending.restore(part_of(arrays, "pending"), merged, n_classes)

    def _n_parts_in(self, arrays: dict[str, NDArray[Any]]) -> int:
        found, wanted = sum(name.endswith(".G") for name in arrays), self._n_parts()
        demand(found == wanted, f"there are {found} sums of products, but there must be {wanted}")
        return wanted


class ScaledLearner(RandomFeaturesLearner):
    """For layers that bend at a certain size of x: features are divided by `scale` first.

    "auto" is the root mean square of the first row, as a power of two, so that models of similar data have the same.
    """

    scale: float | str
    _merged_alike = ("_unit", "_drawn_with", "_scale")
    parameter_ranges: ClassVar[Ranges] = {"scale": real(1e-12, 1e12, "auto")}

    def _begin(self, X: NDArray[np.float32]) -> None:
        size = float(np.sqrt(np.square(X[0], dtype=np.float64).mean()))
        self._scale = 2.0 ** round(math.log2(size)) if size else 1.0
        if self.scale != "auto":
            self._scale = float(self.scale) * self._unit
        self._scale = min(max(self._scale, 1 / FARTHEST), FARTHEST)
        super()._begin(X)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"scale": np.array(self._scale), **super()._arrays()}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._scale = float(take(arrays, "scale", np.float64, (), 1 / FARTHEST, FARTHEST))
        super()._set_arrays(arrays)


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
            return self.probabilities(X).argmax(1)
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
