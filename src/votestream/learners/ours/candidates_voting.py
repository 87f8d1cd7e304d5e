"""CandidatesVoting: "Online Continual Learning Via Candidates Voting" (He and Zhu, WACV 2022)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from votestream import voting
from votestream.common.parameters import EXEMPLARS, LEARNING_RATE, SWITCH, Choice, Ranges, choice, real, whole
from votestream.common.validation import as_features, as_labels
from votestream.compute.place import Place
from votestream.compute.random_pool import RandomPool
from votestream.core.guard import learned
from votestream.core.refresh import last_refresh
from votestream.core.registry import register
from votestream.core.settings import given_or_preset
from votestream.core.vote import Vote
from votestream.io.array_checks import take, take_scale
from votestream.io.model_files import joined, part_of
from votestream.learners.exemplars.head import GrowingHead, unit_scale
from votestream.learners.exemplars.nearest_predictor import ExemplarLearner
from votestream.learners.ours.nearest_cache import NearestCache
from votestream.learners.ours.pilot import Pilot, neighbours
from votestream.learners.ours.vote_predictor import DECISIONS, VotePredictor
from votestream.memory import KEEP_RULES, FeatureMemory, uniform

SPAN = 30  # rows offered to the memory at once, at most
PAPER = {"beta": 0.5, "scale": None, "centre": False}  # where the paper says otherwise than our defaults


@register("candidates_voting")
class CandidatesVoting(ExemplarLearner):
    r"""A head that grows task by task, exemplar features, and a vote among the tasks' candidates.

    Every task t nominates its class with the largest logit, ŝ once normalised. With d the distance to the task's
    nearest exemplar, the task with the largest score gives the answer (Eq. 3 to 5):

    .. math:: \max_t \; ŝ_t + e^{\gamma-1} w_t, \quad w_t = \frac{1/d_t}{\sum_u 1/d_u}, \quad
        \gamma = \frac{\max_t w_t - \min_t w_t}{\beta}

    Take it for the paper's vote and its ablations, or for exemplars to look at; `GaussianVoting` is more accurate.

    Reference: Jiangpeng He and Fengqing Zhu, "Online Continual Learning Via Candidates Voting", WACV 2022.

    Parameters
    ----------
    budget : Q, the most exemplar features kept, all classes together.
    lr : learning rate of the SGD.
    beta : how much prior makes it fully trusted: a number, or "pilot" to estimate it from the exemplars.
    pairs : exemplars of earlier tasks drawn for every new sample; 0 learns without replay.
    augment, alpha_r : add noise to the drawn exemplars, and its scale (EA, Eq. 2).
    sigma : the noise's spread per element: of the exemplar's "class", or "global", of everything seen.
    decide : "vote" (Eq. 3 to 5), "argmax" (largest logit) or "nearest" (class of the nearest exemplar).
    freeze : False lets every row learn for ever, as plain replay does.
    keep : rule that chooses the exemplars: "mean_distance" (Algorithm 1), "reservoir", "balanced", "first_in".
    quota, expected_classes : "seen" shares the budget among the classes seen so far, "fixed" among so many.
    bias, init : of the head; init is "uniform" (±1/sqrt(D)) or "zeros".
    scale : None takes features as they come, "auto" brings those of the first mini-batch to unit spread
        and all later ones by the same factor, a number multiplies. What is stored stays unscaled.
    centre : the head takes each feature vector less the mean of its elements. Features behind a ReLU share a
        large mean that tells no class from another and keeps SGD from settling.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : rows learned in one step.
    preset : "paper" takes the paper's values where these defaults differ: beta=0.5, scale=None, centre=False. An
        argument that is given another value than its default wins.
    seed, device : "auto" is the GPU if there is one.
    track : predict every sample before it is learned, for `track_record`, `unknown_score` and calibrated probabilities.

    The paper's ablation: Baseline is `augment=False, decide="argmax"`; with EA `decide="argmax"`; with
    candidates but no prior incorporation `decide="nearest"`. Its CN is `pairs=0, freeze=False,
    decide="argmax"`; CN + Exp the same with `pairs=1, augment=False`.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> centres = {name: rng.normal(size=32) for name in ("cat", "dog", "oak", "elm")}
    >>> def photos(names, n):
    ...     y = rng.choice(names, n)
    ...     return np.array([centres[name] + 0.5 * rng.normal(size=32) for name in y]), y
    >>> model = vs.CandidatesVoting(budget=40)
    >>> model = model.partial_fit(*photos(["cat", "dog"], 200))
    >>> model = model.partial_fit(*photos(["oak", "elm"], 200))
    >>> X, y = photos(["cat", "dog", "oak", "elm"], 100)
    >>> float((model.predict(X) == y).mean())
    1.0
    >>> model.classes_.tolist(), model.task_of_class_.tolist()
    (['cat', 'dog', 'elm', 'oak'], [0, 0, 1, 1])
    """

    _working = ("_earlier", "_pilot")
    _record_fade = 0.5  # the newest classes do better than the frozen ones: earlier records are to keep their weight
    parameter_ranges: ClassVar[Ranges] = {
        "budget": EXEMPLARS,
        "lr": LEARNING_RATE,
        "beta": real(1e-30, 1e9, "pilot"),
        "pairs": whole(0, 1000),
        "augment": SWITCH,
        "alpha_r": real(0, 1000),
        "sigma": choice("class", "global"),
        "decide": Choice(DECISIONS),
        "freeze": SWITCH,
        "keep": Choice(KEEP_RULES),
        "quota": choice("seen", "fixed"),
        "expected_classes": whole(1, 10**9, None),
        "bias": SWITCH,
        "init": choice("uniform", "zeros"),
        "scale": real(1e-12, 1e12, None, "auto"),
        "centre": SWITCH,
        "preset": choice(None, "paper"),
    }
    _fixed = ("budget", "freeze", "keep", "quota", "expected_classes", "bias", "init", "scale", "centre", "seed")

    def __init__(
        self,
        budget: int = 2000,
        lr: float = 0.1,
        beta: float | str = "pilot",
        pairs: int = 1,
        augment: bool = True,
        alpha_r: float = 1.0,
        sigma: str = "class",
        decide: str = "vote",
        freeze: bool = True,
        keep: str = "mean_distance",
        quota: str = "seen",
        expected_classes: int | None = None,
        bias: bool = False,
        init: str = "uniform",
        scale: float | str | None = "auto",
        centre: bool = True,
        close_task_after: int = 20,
        batch_size: int = 10,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.budget = budget
        self.lr = lr
        self.beta = beta
        self.pairs = pairs
        self.augment = augment
        self.alpha_r = alpha_r
        self.sigma = sigma
        self.decide = decide
        self.freeze = freeze
        self.keep = keep
        self.quota = quota
        self.expected_classes = expected_classes
        self.bias = bias
        self.init = init
        self.scale = scale
        self.centre = centre
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.preset = preset
        self.seed = seed
        self.device = device
        self.track = track

    def _setting(self, name: str) -> Any:
        """An argument, or the preset's value where the argument has its default."""
        return given_or_preset(self, name, PAPER)

    def _check_params(self) -> None:
        super()._check_params()
        if self.quota == "fixed" and self.expected_classes is None:
            raise ValueError("quota='fixed' needs expected_classes: how many classes share the budget")

    def _check_growth(self, known: int, soon: int, width: int) -> None:
        if known <= self.budget < soon:
            warnings.warn(
                f"there are more classes than the budget of {self.budget} exemplars: later classes go without",
                stacklevel=4,
            )

    # ---- learning phase -------------------------------------------------------------------------

    def fit_task(self, X: ArrayLike, y: ArrayLike, task: str | int | None = None, passes: int = 1) -> CandidatesVoting:
        """Learn these rows as one whole task, which the head goes over `passes` times; returns the model.

        task: its name; left out, the rows are a new task, "task 1" and so on. The first pass is `partial_fit`. In the
        others only the head learns, in an order drawn anew: seen once more, a sample would count twice in the means,
        and the one nearest to its mean would be kept many times.
        """
        whole(1, 10**6).check("passes", passes)
        with self._guard.lock:
            self.partial_fit(X, y, self._next_task() if task is None else task)
            rows = self._check_X(X, self.n_features_in_)
            self._pass_again(rows, np.array([self._index[label] for label in as_labels(y, len(rows))]), passes - 1)
        return self

    def _pass_again(self, rows: NDArray[np.float32], classes: NDArray[np.int64], passes: int) -> None:
        try:
            for _ in range(passes):
                order = torch.randperm(len(rows), generator=self._random.generator).numpy()
                for start in range(0, len(rows), self.batch_size):
                    some = order[start : start + self.batch_size]
                    self._step(rows[some], classes[some])
        except BaseException:  # as in partial_fit
            self._broken = True
            raise
        finally:
            self._guard.learned(self._index, ())  # only the head, which is copied for every answer

    def _begin(self, X: NDArray[np.float32]) -> None:
        self._allocate(X.shape[1])
        self._head.begin(X)
        self._scale = unit_scale(X, self._setting("scale"))

    def _allocate(self, width: int) -> None:
        self._random = RandomPool(self.seed)
        self._place = Place(self.device)
        self._head = GrowingHead(width, self.bias, self.init, self._setting("centre"), self._place)
        expected = self.expected_classes if self.quota == "fixed" and self.expected_classes else 1
        self._memory = FeatureMemory(width, self.budget, self.keep, self.seed, expected)
        self._samples = 0
        self._pilot: Pilot | None = None  # None: to be taken when asked for
        self._earlier: tuple[tuple[int, int], NDArray[np.intp]] = ((-1, -1), np.empty(0, np.intp))

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        waiting, n = 0, len(X)  # rows from `waiting` on are trained on, but not yet offered to the memory
        for begin in range(-offset, n, self.batch_size):
            start, end = max(begin, 0), min(n, begin + self.batch_size)
            self._step(X[start:end], classes[start:end])
            if end == n or end - waiting >= SPAN or not self._can_wait(classes[start:end]):
                self._observe(X[waiting:end], classes[waiting:end])
                waiting = end

    def _observe(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Offer samples to the memory; those at a refresh are followed by taking a pilot set."""
        before, self._samples = self._samples, self._samples + len(X)
        refresh = last_refresh(self._samples) - before
        if refresh > 0 and self._setting("beta") == "pilot":
            self._memory.observe(X[:refresh], classes[:refresh])
            by_class = self.sigma == "class"
            spread = self._memory.statistics.spread().copy() if by_class else self._memory.statistics.global_spread()
            self._pilot = self._take_pilot(spread)
            X, classes = X[refresh:], classes[refresh:]
        if len(X):
            self._memory.observe(X, classes)

    def _can_wait(self, classes: NDArray[np.int64]) -> bool:
        """Whether what replay draws from, the exemplars of earlier tasks, is the same before and after."""
        known, block_start = self._memory.statistics.n_classes, self._tasks.block_start
        return self._memory.keep.class_by_class and all(block_start <= c < known for c in classes.tolist())

    def _step(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Train the current task's block on the new samples and their pairs."""
        known, n_classes = self._head.n_classes, max(classes.tolist()) + 1
        if n_classes > known:
            self._head.grow(n_classes, self._random.generator)
        start = self._tasks.block_start if self.freeze else 0
        if start < self._head.n_classes:
            self._head.step(*self._paired(X, classes), start, self.lr)

    def _paired(
        self, X: NDArray[np.float32], classes: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The new samples, each joined by `pairs` augmented exemplars of earlier tasks."""
        slots, n = self._earlier_slots(), len(X)
        if not (self.pairs and len(slots)):
            return self._head.scaled(X, self._scale), classes
        drawn = uniform(slots, self.pairs * n, self._random)
        labels = self._memory.store.labels.take(drawn)
        exemplars = self._memory.store.items.take(drawn, axis=0)
        if self.augment:
            spread = self._memory.statistics.spread(self._tasks.block_start) if self.sigma == "class" else None
            exemplars += self._noise(labels, spread, self._random)
        batch = self._head.scaled(np.concatenate((X, exemplars)), self._scale)
        return batch, np.concatenate((classes, labels))

    def _earlier_slots(self) -> NDArray[np.intp]:
        """Slots of exemplars whose class is not in the current block, found anew only when slots changed."""
        store, block_start = self._memory.store, self._tasks.block_start
        if self._earlier[0] != (store.layout, block_start):
            self._earlier = (store.layout, block_start), (store.labels < block_start).nonzero()[0]
        return self._earlier[1]

    def _noise(
        self, labels: NDArray[np.int64], spread: NDArray[np.float32] | None, random: RandomPool
    ) -> NDArray[np.float32]:
        """alpha_r P, P ~ N(0, sigma) per element (Eq. 2), for exemplars of these classes; `spread` is by class."""
        width = self._memory.statistics.width
        noise = random.normal(len(labels) * width).reshape(-1, width)
        sigma = self._memory.statistics.global_spread() if spread is None else spread.take(labels, axis=0)
        return noise * sigma if self.alpha_r == 1 else noise * (np.float32(self.alpha_r) * sigma)

    # ---- inference phase ------------------------------------------------------------------------

    def vote(self, X: ArrayLike) -> Vote:
        """How the decision of each row falls, task by task (Eq. 3 to 5), whatever `decide` says."""
        rows = self._query(X)
        vote: Vote = self._now().vote(rows)
        return vote

    def examiner(self, X: ArrayLike) -> Callable[[NDArray[np.intp]], NDArray[Any]]:
        """A function of rows that answers as `predict(X[rows])` does, up to rounding, and learns to be quick at it.

        For who asks about the same X after each task: on the CPU, distances to exemplars that are still there are
        not measured again.
        """
        queries = as_features(X)
        known, tasks = NearestCache(queries), np.empty(0, np.int64)

        def answer(rows: NDArray[np.intp]) -> NDArray[Any]:
            nonlocal known, tasks
            if self.decide != "vote" or self._unit != 1 or self._place.device.type != "cpu":
                return self.predict(queries[rows])
            with self._guard.lock:
                now, prepared = self._task_numbers(), self._now()
                if (now[: len(tasks)] != tasks).any():  # tasks that were found have turned out to be one
                    known = NearestCache(queries)
                tasks, store = now, self._memory.store
                near = known.distances(rows, store.items, store.arrivals, now[store.labels], now.max() + 1)
            return prepared.naming.seen[prepared.predictor.decide(queries[rows], near)]

        return answer

    def _predictor(self) -> VotePredictor:
        return self._make(None)

    def _updated(self, predictor: VotePredictor, changed: set[int]) -> VotePredictor:
        return self._make(predictor)

    def _make(self, before: VotePredictor | None) -> VotePredictor:
        """What has not changed since the one before is taken from that."""
        store, place, task_of_class = self._memory.store, self._place, self._task_numbers()
        beta = self._setting("beta")
        if before is None or not np.array_equal(before.task_of_class, task_of_class):
            before, table = None, place.put(voting.task_table(task_of_class))
        else:
            table = before.table
        if before is not None and before.exemplars == store.version:
            by_task, by_class = before.by_task, before.by_class
        else:
            by_task, by_class = neighbours(store.items, task_of_class[store.labels], len(table), place), None
        if self.decide == "nearest" and by_class is None:
            by_class = neighbours(store.items, store.labels, self._head.n_classes, place)
        return VotePredictor(
            decide_by=self.decide,
            place=place,
            head=self._head.frozen(),
            norms=self._head.norms().clip(voting.EPS_N),
            scale=self._scale,
            task_of_class=task_of_class,
            table=table,
            exemplars=store.version,
            by_task=by_task,
            by_class=by_class,
            beta=self._pilot_beta() if beta == "pilot" else float(beta),
        )

    def _pilot_beta(self) -> float:
        if self._pilot is None:
            statistics = self._memory.statistics
            by_class = self.sigma == "class"
            self._pilot = self._take_pilot(statistics.spread_of_all() if by_class else statistics.global_spread())
        return self._pilot.beta(self.seed, self._place)

    def _take_pilot(self, sigma: NDArray[np.float32]) -> Pilot:
        """Of the exemplars as they are now, each to be augmented once as in learning (Eq. 2)."""
        return Pilot.of(self._memory.store, self._task_numbers(), np.float32(self.alpha_r) * sigma)

    def _forget(self, number: int) -> None:
        self._memory.forget(number)
        self._head.forget(number)
        self._samples = int(self._memory.statistics.counts.sum())
        self._pilot = None  # taken anew, of the exemplars that are left

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        return self._sorted(self._head.frozen().rows[:, : self.n_features_in_]) * np.float32(self._unit)

    @learned
    def beta_(self) -> float:
        """The beta in use: the one given, or the pilot's estimate."""
        return self._now().predictor.beta

    def _arrays(self) -> dict[str, NDArray[Any]]:
        own = {"head": self._head.rows, "scale": np.array(self._scale)}
        if self._setting("beta") == "pilot":
            own["pilot"] = np.array(self._pilot_beta())
        return {**own, **joined({"memory": self._memory.state(), "random": self._random.state()})}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._allocate(self.n_features_in_)
        n_classes = len(self._index)
        self._head.restore(arrays, n_classes)
        self._memory.restore(part_of(arrays, "memory"), n_classes)
        self._samples = int(self._memory.statistics.counts.sum())
        if self._setting("beta") == "pilot" and "pilot" in arrays:  # version 0.1.0 took it from what was learned last
            self._pilot = Pilot(float(take(arrays, "pilot", np.float64, (), 0, 1)))
        self._scale = take_scale(arrays)
        self._random.restore(part_of(arrays, "random"))
