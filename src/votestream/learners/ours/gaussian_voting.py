"""GaussianVoting: the paper's vote, with class densities where it asks the nearest exemplar."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from votestream.common.parameters import Ranges, real, whole
from votestream.compute.linalg import whitening
from votestream.compute.place import ONE_THREAD, Place, one_thread
from votestream.core.guard import learned
from votestream.core.refresh import held_samples
from votestream.core.registry import register
from votestream.core.vote import Vote
from votestream.core.weighted import Weighted
from votestream.io.array_checks import demand, take_power
from votestream.io.model_files import joined, part_of
from votestream.learners.ours.gaussian_predictor import Densities, Entry, GaussianPredictor, Shared, prepare
from votestream.learners.ours.gaussian_shortlist import MANY, Shortlist
from votestream.learners.statistics.power import to_power
from votestream.memory import ClassGaussians, Pending, SharedScatter
from votestream.tracking import Tracker

RANK = 16  # directions of a class
MOST_RANK = 4096
PART_RANK = 1.5  # times as many in a part of the stream that is merged later
BLOCK = 512  # rows folded in at once
LEAST_VARIANCE = 1e-30  # of a feature


@register("gaussian_voting")
class GaussianVoting(Weighted):
    r"""Every class is a Gaussian, every task nominates its likeliest class, the likeliest candidate wins.

    With z = W^(-1/2) x, a row where the covariance W within the classes is the identity, the largest log density wins:

    .. math::
        \hat y = \arg\max_c \; -(z - m_c)^\top S_c^{-1} (z - m_c) - \log\det S_c, \qquad
        S_c = \left(1 + \frac{1}{n_c}\right) I + a(n_c) \sum_i \max(s_{ci} - 1, 0) \, u_{ci} u_{ci}^\top

    All classes share the covariance W within them. In its own strongest directions class c varies more: of the
    variance beyond W's, a(n) = strength n / (n + few) is believed after n samples, so that a class of few
    samples relies on W; and 1/n of W is added, as its mean is not known better. Features behind a
    ReLU are taken as square roots, which makes their spread depend less on their size.

    Kept: a count, a mean (4 D bytes) and the directions (2 D + 4 bytes each) of every class, W (a little over
    2 D² bytes), and the newest rows, up to `block` of them, that wait to be folded in together. No image, no exemplar.

    Take it for the best predictions on frozen features, at any size, in any order of classes, with few samples or many;
    with `block=1` where no single sample's features may be kept.

    Reference: a method of this package, in the frame of He and Zhu, "Online Continual Learning Via Candidates Voting",
    WACV 2022.

    Parameters
    ----------
    budget_bytes : most that may be kept, a track record counted in; the number of directions falls as classes come.
        None: no limit.
    rank : directions kept of each class, at most; None is 16, or up to 32 where the budget has room.
    strength : how much the class's own directions count once it has many samples.
    few : samples at which they count half as much.
    power : features are taken to this power, with their sign; "auto" is 0.5, or 1 if the first row has
        negative elements.
    temperature : log densities are divided by it for `predict_proba` and `vote`, as Gaussians in many dimensions
        are surer than they should be; None is sqrt(D) / 4. Decisions do not depend on it.
    block : rows folded in at once; None is 512, or what a sixth of the budget beside W holds. 1 lets no row wait, so
        that no single sample's feature is kept where a class has three or more, and learns slowly.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : nothing is drawn; "auto" answers on the GPU if there is one.
    track : predict every sample before it is learned, for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["long", "round"], 500)
    >>> X = rng.normal(size=(1000, 2)) * np.where(y[:, None] == "long", [3.0, 0.5], [1.0, 1.0])  # the same mean
    >>> model = vs.GaussianVoting().partial_fit(X, y)
    >>> model.predict([[4.0, 0.0], [0.5, 1.8]])
    array(['long', 'round'], dtype='<U5')
    """

    parameter_ranges: ClassVar[Ranges] = {
        "budget_bytes": whole(1, 2**60, None),
        "rank": whole(1, MOST_RANK, None),
        "strength": real(1e-6, 1e3),
        "few": real(1e-6, 1e12),
        "power": real(1e-6, 100, "auto"),
        "temperature": real(1e-6, 1e6, None),
        "block": whole(1, 10**15, None),
    }
    _fixed = ("budget_bytes", "power", "block")

    def __init__(
        self,
        budget_bytes: int | None = None,
        rank: int | None = None,
        strength: float = 0.5,
        few: float = 150.0,
        power: float | str = "auto",
        temperature: float | None = None,
        block: int | None = None,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.budget_bytes = budget_bytes
        self.rank = rank
        self.strength = strength
        self.few = few
        self.power = power
        self.temperature = temperature
        self.block = block
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def _check_growth(self, known: int, soon: int, width: int) -> None:
        if self.budget_bytes is None or soon == known:
            return
        needed = self._bytes_without_directions(width, soon)
        if needed > self.budget_bytes:
            raise ValueError(
                f"budget_bytes={self.budget_bytes} is too small: {soon} classes of {width} features take {needed} "
                "bytes for their means, the covariance they share and, where one is kept, the track record, before any "
                "direction"
            )

    def _block_rows(self, width: int) -> int:
        if self.block is not None:
            return self.block
        if self.budget_bytes is None:
            return BLOCK
        left = self.budget_bytes - SharedScatter.bytes_for(width) - self._tracker_bytes(width, 0)
        return min(BLOCK, max(1, left // 6 // Pending.bytes_a_row(width)))

    def _bytes_without_directions(self, width: int, n_classes: int) -> int:
        waiting = self._block_rows(width) * Pending.bytes_a_row(width)
        return waiting + ClassGaussians.bytes_for(width, n_classes)[0] + self._tracker_bytes(width, n_classes)

    def _tracker_bytes(self, width: int, n_classes: int) -> int:
        return Tracker.bytes_for(width, n_classes) if self.track else 0

    def _rank(self, width: int) -> int:
        """Most directions of a class, whatever the budget. More than features there are none."""
        return min(self.rank or (RANK if self.budget_bytes is None else 2 * RANK), max(width, 2 * RANK))

    def _rank_for(self, n_classes: int) -> int:
        """As many directions as the budget has room for."""
        width = self._pending.rows.shape[1]
        if self.budget_bytes is None:
            return self._rank(width)
        left = self.budget_bytes - self._bytes_without_directions(width, n_classes)
        return max(0, min(self._rank(width), left // ClassGaussians.bytes_for(width, n_classes)[1]))

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
            gaussians.add(to_power(X, self._power), classes, rank)

    def _settled(self, waiting: int | None = None) -> ClassGaussians:
        """Of everything learned, waiting rows too, or the first so many of them."""
        rows, classes = self._pending.rows[:waiting], self._pending.classes[:waiting]
        if not len(rows):
            return self._gaussians
        gaussians = self._gaussians.copy()
        self._fold(gaussians, rows, classes)
        return gaussians

    # ---- deciding -------------------------------------------------------------------------------

    def vote(self, X: ArrayLike) -> Vote:
        """How each decision falls: each task's likeliest class, and how likely the task is.

        `s_hat` is the candidate's probability within its task, `prior` the task's, `score` their product.
        """
        rows = self._query(X)
        vote: Vote = self._now().vote(rows)
        return vote

    def _predictor(self) -> GaussianPredictor:
        (folded, held), width = self._held(), self.n_features_in_
        gaussians = self._settled(held - folded)
        counts, n_classes = gaussians.counts, len(gaussians.counts)
        centre = counts @ gaussians.means / counts.sum()
        whiten = whitening(self._covariance(gaussians)).astype(np.float32)
        rank = self._rank_for(n_classes)
        shared = Shared((folded, held), rank, float(self.strength), float(self.few), centre, whiten)
        kind = self._kind()

        def entry(some: range) -> Entry:
            F = gaussians.factors(some, rank)
            return prepare(shared, counts[some], gaussians.means[some], F, batch=kind is Shortlist)

        predictor = kind.of(
            n_classes,
            entry,
            place=self._place,
            temperature=float(self.temperature or width**0.5 / 4),
            power=self._power,
            task_of_class=self._task_numbers(),
            shared=shared,
            centre=self._place.put(centre.astype(np.float32)),
            whiten=self._place.put(np.ascontiguousarray(whiten)),
        )
        return self._with(predictor, set(self._pending.classes[held - folded :].tolist()))

    def _kind(self) -> type[Densities | Shortlist]:
        """How classes that are so many predict; a GPU has the densities of all fast enough."""
        many = len(self._index) > MANY and self._place.device.type == "cpu"
        return Shortlist if many else Densities

    def _updated(self, predictor: GaussianPredictor, changed: set[int]) -> GaussianPredictor:
        lasting = predictor.shared.held == self._held() and isinstance(predictor, self._kind())
        return self._with(predictor, changed) if lasting else self._predictor()

    def _held(self) -> tuple[int, int]:
        """Samples that are folded in, and those that the shared covariance is made of."""
        return held_samples(int(self._gaussians.counts.sum()), len(self._pending))

    def _with(self, predictor: GaussianPredictor, classes: set[int]) -> GaussianPredictor:
        """The predictor with these classes as they are now: their waiting rows folded into their directions."""
        entries = {number: self._entry(predictor.shared, number) for number in classes}
        return predictor.with_classes(entries, self._task_numbers())

    def _entry(self, shared: Shared, number: int) -> Entry:
        own = to_power(self._pending.rows[self._pending.classes == number], self._power)
        count, mean, factor = self._gaussians.class_with(number, own, shared.rank)
        F = np.zeros((1, shared.rank, self.n_features_in_), np.float32)
        F[0, : len(factor)] = factor
        return prepare(shared, np.array([count]), mean[None], F)

    def _covariance(self, gaussians: ClassGaussians) -> NDArray[np.float64]:
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

    # ---- corrections ----------------------------------------------------------------------------

    mergeable = True
    _merged_alike = ("_unit", "_power")

    def _forget(self, number: int) -> None:
        self._pending.forget(number)
        if number < len(self._gaussians.counts):
            self._gaussians.forget(number)

    def _join(self, number: int, into: int) -> None:
        self._settle()
        self._gaussians.join(number, into, self._rank_for(len(self._index)))

    def _merge(self, other: GaussianVoting, numbers: NDArray[np.int64]) -> None:
        self._settle()
        self._gaussians.merge(other._settled(), numbers, self._rank_for(len(self._index)))

    def _part_settings(self) -> dict[str, Any]:
        # Where there is a budget, parts keep to it.
        return {} if self.budget_bytes is not None else {"rank": min(round(PART_RANK * (self.rank or RANK)), MOST_RANK)}

    def _settle(self) -> None:
        self._gaussians = self._settled()
        self._gaussians.trim(self._rank_for(len(self._index)))
        self._pending.drop()

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
        check_rank_cost(self._rank(width), n_classes, width, sum(array.nbytes for array in arrays.values()))
        self._allocate(width)
        power, largest = take_power(arrays, np.float32)
        self._power = np.float32(power)
        self._gaussians.restore(strips, n_classes, largest)
        self._pending.restore(part_of(arrays, "pending"), len(self._gaussians.counts), n_classes)


def check_rank_cost(rank: int, n_classes: int, width: int, held: int) -> None:
    """Refuse a model file in which a large `rank` would make predicting take far more memory than the file has."""
    needed = 4 * n_classes * rank * width
    demand(
        rank <= 4 * RANK or needed <= max(2**28, 100 * held),
        f"rank={rank} would take {needed} bytes to predict with, which does not fit a file of {held} bytes",
    )
