"""GaussianVoting: the paper's vote, with class densities where it asks the nearest exemplar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from votestream import voting
from votestream.array_checks import demand, take_power
from votestream.learners.base import Learner
from votestream.learners.guard import learned
from votestream.learners.linear import slices, softmax, whitening
from votestream.learners.registry import register
from votestream.learners.vote import Vote
from votestream.memory import ClassGaussians, Pending, SharedScatter
from votestream.persistence import joined, part_of
from votestream.place import ONE_THREAD, Array, Place, library_of, one_thread
from votestream.validation import check_positive

RANK = 16  # directions of a class
BLOCK = 512  # rows folded in at once
LEAST_VARIANCE = 1e-30  # of a feature
FARTHEST = np.float32(1e15)  # standard deviations from the middle: farther rows are taken to be there


@register("gaussian_voting")
class GaussianVoting(Learner):
    """Every class is a Gaussian, every task nominates its likeliest class, the likeliest candidate wins.

    All classes share the covariance W within them. In its own strongest directions class c varies more: of the
    variance beyond W's, a(n) = strength n / (n + few) is believed after n samples, so that a class of few
    samples relies on W; and 1/n of W is added, as its mean is not known better. Features behind a
    ReLU are taken as square roots, which makes their spread depend less on their size.

    Kept: a count, a mean (4 D bytes) and the directions (2 D + 4 bytes each) of every class, W (a little over
    2 D² bytes), and the newest rows, up to `block` of them, that wait to be folded in together. No image, no exemplar.

    Parameters
    ----------
    budget_bytes : most that may be kept; the number of directions falls as classes come. None: no limit.
    rank : directions kept of each class, at most; None is 16, or up to 32 where the budget has room.
    strength : how much the class's own directions count once it has many samples.
    few : samples at which they count half as much.
    power : features are taken to this power, with their sign; "auto" is 0.5, or 1 if the first row has
        negative elements.
    temperature : log densities are divided by it for `predict_proba` and `vote`, as Gaussians in many dimensions
        are surer than they should be; None is sqrt(D) / 4. Decisions do not depend on it.
    block : rows folded in at once; None is 512, or what a sixth of the budget beside W holds. 1 lets no row wait, so
        that no single sample's feature is kept where a class has three or more, and learns slowly.
    young : where tasks are not told, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" answers on the GPU if there is one.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["long", "round"], 500)
    >>> X = rng.normal(size=(1000, 2)) * np.where(y[:, None] == "long", [3.0, 0.5], [1.0, 1.0])  # the same mean
    >>> model = vs.GaussianVoting().partial_fit(X, y)
    >>> model.predict([[4.0, 0.0], [0.5, 1.8]])
    array(['long', 'round'], dtype='<U5')
    """

    _fixed = ("budget_bytes", "power", "block")
    _asked_with = ("strength", "few", "temperature")

    def __init__(
        self,
        budget_bytes: int | None = None,
        rank: int | None = None,
        strength: float = 0.5,
        few: float = 150.0,
        power: float | str = "auto",
        temperature: float | None = None,
        block: int | None = None,
        young: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.budget_bytes = budget_bytes
        self.rank = rank
        self.strength = strength
        self.few = few
        self.power = power
        self.temperature = temperature
        self.block = block
        self.young = young
        self.batch_size = batch_size
        self.seed = seed
        self.device = device

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("batch_size", "young"):
            check_positive(name, getattr(self, name), int)
        for name in ("budget_bytes", "rank", "block"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), int)
        for name in ("strength", "few"):
            check_positive(name, getattr(self, name))
        if self.temperature is not None:
            check_positive("temperature", self.temperature)
        if self.power != "auto":
            check_positive("power (a number, or 'auto')", self.power)

    def _foresee(self, known: int, soon: int, width: int) -> None:
        if self.budget_bytes is None or soon == known:
            return
        needed = self._bytes_without_directions(width, soon)
        if needed > self.budget_bytes:
            raise ValueError(
                f"budget_bytes={self.budget_bytes} is too small: {soon} classes of {width} features take {needed} "
                "bytes for their means and the covariance they share, before any direction"
            )

    def _block_rows(self, width: int) -> int:
        if self.block is not None:
            return self.block
        if self.budget_bytes is None:
            return BLOCK
        left = self.budget_bytes - SharedScatter.bytes_for(width)
        return min(BLOCK, max(1, left // 6 // Pending.bytes_a_row(width)))

    def _bytes_without_directions(self, width: int, n_classes: int) -> int:
        waiting = self._block_rows(width) * Pending.bytes_a_row(width)
        return waiting + ClassGaussians.bytes_for(width, n_classes)[0]

    def _rank_for(self, n_classes: int) -> int:
        """As many directions as the budget has room for."""
        if self.budget_bytes is None:
            return self.rank or RANK
        width = self._pending.rows.shape[1]
        left = self.budget_bytes - self._bytes_without_directions(width, n_classes)
        return max(0, min(self.rank or 2 * RANK, left // ClassGaussians.bytes_for(width, n_classes)[1]))

    # ---- learning -------------------------------------------------------------------------------

    def _begin(self, X: NDArray[np.float32]) -> None:
        self._allocate(X.shape[1])
        power = (1.0 if (X[0] < 0).any() else 0.5) if self.power == "auto" else self.power
        self._power = np.float32(power)

    def _allocate(self, width: int) -> None:
        self._place = Place(self.device)
        self._pending = Pending(width, self._block_rows(width))
        self._gaussians = ClassGaussians(width)

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        for rows, numbers in self._pending.add(X, classes):
            self._fold(self._gaussians, rows, numbers)

    def _fold(self, gaussians: ClassGaussians, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        rank = self._rank_for(max(len(gaussians.counts), max(classes.tolist()) + 1))
        small = (rank + len(X)) ** 2 * X.shape[1] <= ONE_THREAD // 2  # BLAS does not spread these products by itself
        with nullcontext() if small else one_thread():
            gaussians.add(_to_power(X, self._power), classes, rank)

    def _settled(self) -> ClassGaussians:
        """Of everything learned, waiting rows too."""
        if not len(self._pending):
            return self._gaussians
        gaussians = self._gaussians.copy()
        self._fold(gaussians, self._pending.rows, self._pending.classes)
        return gaussians

    # ---- deciding -------------------------------------------------------------------------------

    def vote(self, X: ArrayLike) -> Vote:
        """How each decision falls: each task's likeliest class, and how likely the task is.

        `s_hat` is the candidate's probability within its task, `prior` the task's, `score` their product.
        """
        rows, now = self._query(X), self._now()
        P = now.predictor.probabilities(rows)
        table = now.predictor.tasks
        score, candidates = voting.candidates(P, table)
        prior = np.stack([P[:, np.unique(row)].sum(1) for row in table], axis=1)
        s_hat = score / np.maximum(prior, np.finfo(prior.dtype).tiny)
        winner, named = score.argmax(1), now.naming.seen[candidates]
        gamma = voting.confidence(prior)[:, 0]
        chosen = named[np.arange(len(winner)), winner]
        return Vote(named, s_hat.astype(np.float32), prior.astype(np.float32), gamma, score, chosen, winner)

    def _predictor(self) -> _Densities:
        temperature = self.temperature or self.n_features_in_**0.5 / 4
        tasks = voting.task_table(self._task_numbers())
        return _Densities(float(temperature), self._power, tasks, self._place, *self._prepare(self._settled()))

    def _prepare(self, gaussians: ClassGaussians) -> list[Array]:
        """In coordinates where W is the identity, class c varies by d = 1 + 1/n in every direction, and by
        d + a(n) (s - 1) in those where its own variance s is more than 1.

        Its Mahalanobis distance is |x - m|² / d - |H (x - m)|², the rows of H being those directions, each
        times the root of 1/d - 1/(d + a(n) (s - 1)).
        """
        counts, width = gaussians.counts.astype(np.float64), gaussians.width
        n_classes, rank = len(counts), max(len(lengths) for lengths in gaussians.lengths)
        F = np.zeros((n_classes, rank, width), np.float32)
        for label, table in enumerate(F):
            factor = gaussians.factor(label)
            table[: len(factor)] = factor
        F /= np.sqrt(counts)[:, None, None].astype(np.float32)
        whiten = whitening(self._shared(gaussians)).astype(np.float32)
        F = (F.reshape(-1, width) @ whiten).reshape(n_classes, rank, width)
        own, turn = np.linalg.eigh((F @ F.transpose(0, 2, 1)).astype(np.float64))  # s of each direction
        d = 1 + 1 / counts
        a = self.strength * counts / (counts + self.few)
        along = d[:, None] + a[:, None] * np.maximum(own - 1, 0)
        size = np.sqrt((1 / d[:, None] - 1 / along) / np.maximum(own, 1))  # unit vectors, times what H asks
        H = (turn * size[:, None]).transpose(0, 2, 1).astype(np.float32) @ F
        centre = counts @ gaussians.means / counts.sum()  # float32 is exact enough around it, wherever features lie
        means = (gaussians.means - centre).astype(np.float32) @ whiten
        log_det = (width - rank) * np.log(d) + np.log(along).sum(1)
        bias = np.square(means, dtype=np.float64).sum(1) / d + log_det
        # One product answers: the means first, then the H of every class, direction by direction.
        table = np.concatenate((means / d[:, None], H.transpose(1, 0, 2).reshape(-1, width)))
        parts = (centre, whiten, table.T, 1 / d, bias, np.einsum("crd,cd->rc", H, means))
        return [self._place.put(np.ascontiguousarray(part, np.float32)) for part in parts]

    def _shared(self, gaussians: ClassGaussians) -> NDArray[np.float64]:
        """W, shrunk towards its diagonal by half when there are 4 D samples, and ever less."""
        width = gaussians.width
        freedom = max(1, int(gaussians.counts.sum()) - len(gaussians.counts))
        W = gaussians.scatter.matrix() / freedom
        shrink = 4 * width / (4 * width + freedom)
        diagonal = W.diagonal().copy()
        floor = 1e-4 * diagonal.mean() if diagonal.any() else 1.0  # classes of one sample have no spread
        W *= 1 - shrink
        W[np.diag_indices(width)] = np.maximum(diagonal, max(floor, LEAST_VARIANCE)) * (1 + 1e-4)
        return W

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def class_means_(self) -> NDArray[np.float32]:
        """The mean of each class's transformed features, (C, D), as `classes_`."""
        return self._sorted(self._settled().means)

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        return self._sorted(self._settled().counts)

    @learned
    def ranks_(self) -> NDArray[np.int64]:
        """How many directions of each class are kept, (C,), as `classes_`."""
        return self._sorted(np.array([len(lengths) for lengths in self._settled().lengths]))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "power": np.array(self._power),
            **joined({"pending": self._pending.state(), "gaussians": self._gaussians.state()}),
        }

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        n_classes, width = len(self._index), self.n_features_in_
        strips, needed = part_of(arrays, "gaussians"), SharedScatter.bytes_for(width)
        held = sum(strip.nbytes for name, strip in strips.items() if name.startswith("scatter"))
        demand(held == needed, f"the scatter of {width} features takes {needed} bytes, not {held}")
        self._allocate(width)
        power, largest = take_power(arrays, np.float32)
        self._power = np.float32(power)
        self._gaussians.restore(strips, n_classes, largest)
        self._pending.restore(part_of(arrays, "pending"), len(self._gaussians.counts), n_classes)


def _to_power(X: NDArray[np.float32], power: np.float32) -> NDArray[np.float32]:
    """With its sign."""
    if power == 1:
        return X
    size = np.abs(X)
    return np.copysign(np.sqrt(size) if power == 0.5 else size**power, X)


class _Densities(NamedTuple):
    """What answering computes once from what was learned. C classes, r directions."""

    temperature: float
    power: np.float32
    tasks: NDArray[np.int64]  # each task's classes
    place: Place
    centre: Array  # (D,)
    whiten: Array  # (D, D)
    table: Array  # (D, C + r C)
    narrow: Array  # (C,) 1 / d
    bias: Array  # (C,)
    across: Array  # (r, C) H m

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.concatenate([self.place.get(part.argmax(1)) for part in self._slices(X)])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        log = np.concatenate([self.place.get(part) for part in self._slices(X)]).astype(np.float64)
        return softmax(log / self.temperature)

    def _slices(self, X: NDArray[np.float32]) -> Iterator[Array]:
        for rows in slices(X, 8 * self.table.shape[1]):
            yield self.log_densities(self.place.put(_to_power(rows, self.power)))

    def log_densities(self, X: Array) -> Array:
        """(n, C), up to a constant."""
        n, n_classes = len(X), len(self.bias)
        Z = ((X - self.centre) @ self.whiten).clip(-FARTHEST, FARTHEST)
        product = Z @ self.table
        along = product[:, n_classes:].reshape(n, len(self.across), n_classes) - self.across
        along *= along
        xp = library_of(X)
        distance = xp.sum(Z * Z, axis=1, keepdims=True) * self.narrow - 2 * product[:, :n_classes]
        return (xp.sum(along, axis=1) - distance - self.bias) * 0.5
