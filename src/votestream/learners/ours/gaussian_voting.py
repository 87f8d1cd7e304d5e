"""GaussianVoting: the paper's vote, with class densities where it asks the nearest exemplar."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from votestream.common.parameters import Ranges, real, whole
from votestream.compute.linalg import whitening
from votestream.compute.place import Place
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.core.vote import Vote
from votestream.core.weighted import WeightedLearner
from votestream.learners.ours.gaussian_predictor import (
    Densities,
    Entry,
    GaussianPredictor,
    Shared,
    Temperature,
    prepare,
)
from votestream.learners.ours.gaussian_shortlist import Shortlist
from votestream.memory import ClassGaussians, GaussianMemory
from votestream.memory.gaussian_memory import RANK
from votestream.tracking.tracker import record_bytes

MOST_RANK = 4096
PART_RANK = 1.5  # times as many directions in a part of the stream that is merged later
LEAST_VARIANCE = 1e-30  # of a feature


@register("gaussian_voting")
class GaussianVoting(WeightedLearner[GaussianMemory]):
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
        are surer than they should be; None is sqrt(D) / 4 for classes of many samples, and more for classes of few.
        Decisions do not depend on it.
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
    fixed_parameters = ("budget_bytes", "power", "block")

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

    def check_growth(self, known: int, soon: int, width: int) -> None:
        if self.budget_bytes is None or soon == known:
            return
        needed = self.new_memory(width).bytes_without_directions(soon)
        if needed > self.budget_bytes:
            raise ValueError(
                f"budget_bytes={self.budget_bytes} is too small: {soon} classes of {width} features take {needed} "
                "bytes for their means, the covariance they share and, where one is kept, the track record, before any "
                "direction"
            )

    def new_memory(self, width: int) -> GaussianMemory:
        reserved = record_bytes if self.track else None
        return GaussianMemory(width, self.rank, self.budget_bytes, self.block, self.power, reserved)

    def params_changed(self) -> None:
        self.memory_.rank = self.rank

    def part_params(self) -> dict[str, Any]:
        # Where there is a budget, parts keep to it.
        return {} if self.budget_bytes is not None else {"rank": min(round(PART_RANK * (self.rank or RANK)), MOST_RANK)}

    # ---- predicting -----------------------------------------------------------------------------

    def vote(self, X: ArrayLike) -> Vote:
        """How each decision falls: each task's likeliest class, and how likely the task is.

        `s_hat` is the candidate's probability within its task, `prior` the task's, `score` their product.
        """
        rows = self.query(X)
        vote: Vote = self.prepared().vote(rows)
        return vote

    def new_predictor(self) -> GaussianPredictor:
        state, memory, place = self.state_, self.memory_, Place(self.device)
        taken_in, held = memory.held()
        gaussians = memory.now(held - taken_in)
        counts, n_classes = gaussians.counts, len(gaussians.counts)
        centre = counts @ gaussians.means / counts.sum()
        whiten = whitening(within_classes(gaussians)).astype(np.float32)
        rank = memory.rank_for(n_classes)
        freedom = int(counts.sum()) - n_classes
        shared = Shared((taken_in, held), freedom, rank, float(self.strength), float(self.few), centre, whiten)
        kind = Shortlist if Shortlist.suits(len(state.numbers), place) else Densities

        def entry(some: range) -> Entry:
            F = gaussians.factors(some, rank)
            return prepare(shared, counts[some], gaussians.means[some], F, batch=kind is Shortlist)

        predictor = kind.of(
            n_classes,
            entry,
            place=place,
            temperature=Temperature(memory.width, freedom, self.temperature and float(self.temperature)),
            power=memory.power,
            task_of_class=state.task_numbers(),
            shared=shared,
            centre=place.put(centre.astype(np.float32)),
            whiten=place.put(np.ascontiguousarray(whiten)),
        )
        return predictor.with_newest(state, set(memory.pending.classes[held - taken_in :].tolist()))

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def class_means_(self) -> NDArray[np.float32]:
        """The mean of each class's transformed features, (C, D), as `classes_`."""
        return self.by_class(self.memory_.now().means)

    @learned
    def class_counts_(self) -> NDArray[np.int64]:
        """The samples seen of each class, (C,), as `classes_`."""
        return self.by_class(self.memory_.now().counts)

    @learned
    def ranks_(self) -> NDArray[np.int64]:
        """How many directions of each class are kept, (C,), as `classes_`."""
        return self.by_class(np.array([len(lengths) for lengths in self.memory_.now().lengths]))


def within_classes(gaussians: ClassGaussians) -> NDArray[np.float64]:
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
