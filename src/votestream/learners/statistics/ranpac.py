"""RanPAC: "Random Projections and Pre-trained Models for Continual Learning" (McDonnell et al., NeurIPS 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.common.validation import check_choice, check_positive, warn_of_offsets
from votestream.compute.place import Array, Place
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.core.registry import register
from votestream.core.settings import given_or_preset
from votestream.io.array_checks import demand, take
from votestream.io.model_files import joined, part_of
from votestream.learners.statistics.linear_rule import onto_simplex, slices
from votestream.learners.statistics.modules import RandomFeaturesModule
from votestream.memory import GramSums, Pending
from votestream.memory.gram import System, ridge_solution

RIDGES = [10.0**power for power in range(-8, 9)]
BLOCK = 500
ROUNDING = 1e-7  # of float32: a lambda this small beside G is none
PAPER = {"projection": 10_000}
LARGEST_W = 1 << 23  # numbers of W, which is in no file, that a small file may have us draw


@register("ranpac")
class RanPAC(Learner):
    r"""Ridge regression of the one-hot labels on random non-linear features h = ReLU(x W), W fixed.

    .. math::
        \hat y = \arg\max_c \; \left[ h(x)^\top (G + \lambda I)^{-1} Q \right]_c, \qquad
        G = \sum_i h_i h_i^\top, \quad Q = \sum_i h_i y_i^\top

    G and Q stream in, in float32; the system is solved in float64 when an answer is asked for, once. The paper chooses
    lambda among 10^-8 to 10^8 on a fifth of each task held out. Here a fifth of the whole stream (fixed places of every
    500 rows, drawn by the seed) goes to a G and Q of its own, from which the held-out squared error of any solution
    follows, with no sample kept; the solution given out uses all of it.

    Kept: 8 M (M + C) bytes, half that with lambda given; W, 4 D M, made from the seed and not in the file; at
    most 500 rows that wait. Learning costs M² multiplications a sample, solving M³ / 3 for each lambda tried.

    Take it where memory is free and answers may wait: it lives on thousands of random features, and solves a system of
    that size when it is asked after learning.

    Reference: Mark McDonnell, Dong Gong, Amin Parvaneh, Ehsan Abbasnejad and Anton van den Hengel, "RanPAC: Random
    Projections and Pre-trained Models for Continual Learning", NeurIPS 2023.

    Parameters
    ----------
    projection : M, the random features.
    ridge : lambda, or "held-out" to choose it.
    preset : "paper" takes the paper's 10,000 random features, unless `projection` is given another value than its
        default.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : "auto" is the GPU if there is one.
    track : predict samples before they are learned (a mini-batch whenever the stream is half as long again, as
        solving takes seconds), for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "not")  # no line can tell
    >>> model = vs.RanPAC(projection=100).partial_fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _fixed = ("projection", "preset")
    _asked_with = ("ridge",)
    _test_growth = 1.5

    def __init__(
        self,
        projection: int = 2000,
        ridge: float | str = "held-out",
        preset: str | None = None,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.projection = projection
        self.ridge = ridge
        self.preset = preset
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("projection", "batch_size", "close_task_after"):
            check_positive(name, getattr(self, name), int)
        check_choice("preset", self.preset, (None, "paper"))
        if self.ridge != "held-out":
            check_positive("ridge (a number, or 'held-out')", self.ridge)

    # ---- learning -------------------------------------------------------------------------------

    def _begin(self, X: NDArray[np.float32]) -> None:
        M = given_or_preset(self, "projection", PAPER)
        warn_of_offsets(X, common=3e4, differing=3e4, stacklevel=4)  # G, in float32, would hold nothing else
        self._allocate(X.shape[1], M, self.seed, 1 + (self.ridge == "held-out"))

    def _allocate(self, width: int, M: int, seed: int, n_parts: int) -> None:
        self._place = Place(self.device)
        self._drawn_with = seed
        generator = torch.Generator().manual_seed(int(seed))
        self._W = self._place.put(torch.randn(width, M, generator=generator).numpy())
        self._part = np.zeros(BLOCK, np.int64)  # of each place in a block: 1 is held out
        self._part[torch.randperm(BLOCK, generator=generator)[: BLOCK // 5].numpy()] = n_parts - 1
        self._pending = Pending(width, BLOCK)
        self._sums = [GramSums(M, self._place) for _ in range(n_parts)]

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        for rows, numbers in self._pending.add(X, classes):
            for sums, (H, own) in zip(self._sums, self._split(rows, numbers), strict=True):
                sums.add(H, own)

    def _split(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> list[tuple[Array, NDArray[np.int64]]]:
        """The random features and classes of a block's rows, part by part."""
        H, part = self._features(X), self._part[: len(X)]
        if len(self._sums) == 1:
            return [(H, classes)]
        owners = [np.flatnonzero(part == number) for number in range(len(self._sums))]
        return [(H[self._place.put(own)], classes[own]) for own in owners]

    def _features(self, X: NDArray[np.float32]) -> Array:
        return _random_features(self._place.put(X), self._W)

    # ---- deciding -------------------------------------------------------------------------------

    def _predictor(self) -> _RidgeRule:
        waiting = self._split(self._pending.rows, self._pending.classes)
        now = [sums.with_more(*more) for sums, more in zip(self._sums, waiting, strict=True)]
        (G, Q), *held_out = [sums.system(len(self._index)) for sums in now]
        ridge = self._choose(G, Q, held_out) if self.ridge == "held-out" else float(self.ridge)
        for more_G, more_Q in held_out:
            G += more_G
            Q += more_Q
        while (weights := ridge_solution(G, Q, ridge)) is None:
            ridge *= 10  # it was too small to make the system definite
        return _RidgeRule(ridge, self._place.put(weights.float().cpu().numpy()), self._W, self._place)

    def _choose(self, G: torch.Tensor, Q: torch.Tensor, held_out: list[System]) -> float:
        """lambda with the least squared error on what was held out: tr(W^T G' W) - 2 tr(W^T Q') and a constant."""
        if not held_out:
            raise ValueError("ridge='held-out' must be set before learning begins: nothing was held out")
        (held_G, held_Q), size, errors = held_out[0], float(G.diagonal().mean()), {}
        for ridge in RIDGES:
            if ridge > ROUNDING * size and (W := ridge_solution(G, Q, ridge)) is not None:
                errors[ridge] = float((W * (held_G @ W - 2 * held_Q)).sum())
        # Before anything was held out all are alike: the largest then, since little is known.
        return min(reversed(errors), key=errors.__getitem__) if errors else size

    # ---- corrections ----------------------------------------------------------------------------

    mergeable = True
    _merged_alike = ("_unit", "_drawn_with")
    _why_not = "its sums mix the random features of all classes; teach a new model"

    def _join(self, number: int, into: int) -> None:
        self._pending.relabel(number, into)
        for sums in self._sums:
            sums.join(number, into)

    def _begin_like(self, other: RanPAC) -> None:
        super()._begin_like(other)
        self._allocate(other.n_features_in_, other._W.shape[1], other._drawn_with, len(other._sums))

    def _settle(self) -> None:
        for sums, (H, own) in zip(self._sums, self._split(self._pending.rows, self._pending.classes), strict=True):
            sums.add(H, own)
        self._pending.drop()

    def _merge(self, other: RanPAC, numbers: NDArray[np.int64]) -> None:
        self._settle()
        waiting = other._split(other._pending.rows, other._pending.classes)
        for sums, theirs, (H, own) in zip(self._sums, other._sums, waiting, strict=True):
            sums.merge(theirs, numbers)
            sums.add(H, numbers[own])

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def ridge_(self) -> float:
        """The lambda in use: the one given, or the one chosen."""
        return self._now().predictor.ridge

    def _arrays(self) -> dict[str, NDArray[Any]]:
        parts = {f"part{number}": sums.state() for number, sums in enumerate(self._sums)}
        return {"seed": np.array(self._drawn_with), **joined({"pending": self._pending.state(), **parts})}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        n_classes, n_parts = len(self._index), 1 + ("part1.G" in arrays)
        demand(n_parts == 2 or self.ridge != "held-out", "ridge is 'held-out', but nothing was held out")
        M = len(take(arrays, "part0.G", np.float32, (None, None), -np.inf, np.inf))
        seed = int(take(arrays, "seed", np.int64, (), low=-(2**63)))
        held = sum(array.nbytes for array in arrays.values())
        fits = self.n_features_in_ * M <= max(LARGEST_W, held)
        demand(fits, f"{self.n_features_in_} features do not fit a file that holds {held} bytes")
        self._allocate(self.n_features_in_, M, seed, n_parts)
        for number, sums in enumerate(self._sums):
            sums.restore(part_of(arrays, f"part{number}"), n_classes)
        merged = max(sums.n_classes for sums in self._sums)
        self._pending.restore(part_of(arrays, "pending"), merged, n_classes)


class _RidgeRule(NamedTuple):
    ridge: float
    weights: Array  # (M, C)
    W: Array  # (D, M)
    place: Place

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self.place.get(scores.argmax(1)) for scores in self._scores(X)])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """The nearest to the scores, which estimate them."""
        scores = np.concatenate([self.place.get(scores) for scores in self._scores(X)])
        return onto_simplex(scores.astype(np.float64))

    def as_module(self) -> RandomFeaturesModule:
        get = self.place.get
        return RandomFeaturesModule(W=get(self.W), weights=get(self.weights))

    def _scores(self, X: NDArray[np.float32]) -> Iterator[Array]:
        for rows in slices(X, len(self.weights)):
            yield _random_features(self.place.put(rows), self.W) @ self.weights


def _random_features(X: Array, W: Array) -> Array:
    return (X @ W).clip(0)
