"""CandidatesVoting: "Online Continual Learning Via Candidates Voting" (He and Zhu, WACV 2022)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from votestream import voting
from votestream.array_checks import take_scale
from votestream.learners.base import Learner, register
from votestream.learners.exemplars import Exemplars
from votestream.learners.head import GrowingHead
from votestream.learners.revisited import Revisited
from votestream.learners.vote import Vote
from votestream.memory import KEEP_RULES, FeatureMemory, uniform
from votestream.persistence import joined, part_of
from votestream.place import Array, Place, library_of
from votestream.random_pool import RandomPool
from votestream.validation import as_labels, check_choice, check_positive

DECISIONS = ("vote", "argmax", "nearest")
SPAN = 30  # rows offered to the memory at once, at most
PAPER = {"beta": 0.5, "scale": None, "centre": False}  # where the paper says otherwise than our defaults


@register("candidates_voting")
class CandidatesVoting(Learner):
    """A head that grows task by task, exemplar features, and a vote among the tasks' candidates.

    Parameters
    ----------
    budget : Q, the most exemplar features kept, all classes together.
    lr : learning rate of the SGD.
    beta : how much prior makes it fully trusted: a number, or "pilot" to estimate it from the exemplars.
    pairs : exemplars of earlier tasks drawn for every new sample; 0 learns without replay.
    augment : add noise to the drawn exemplars (EA, Eq. 2).
    alpha_r : scale of that noise.
    sigma : the noise's spread per element: of the exemplar's "class", or "global", of everything seen.
    decide : "vote" (Eq. 3 to 5), "argmax" (largest logit) or "nearest" (class of the nearest exemplar).
    freeze : False lets every row learn for ever, as plain replay does.
    keep : rule that chooses the exemplars: "mean_distance" (Algorithm 1), "reservoir", "balanced", "first_in".
    quota : "seen" shares the budget among the classes seen so far, "fixed" among `expected_classes`.
    expected_classes : for quota="fixed".
    bias, init : of the head; init is "uniform" (±1/sqrt(D)) or "zeros".
    scale : None takes features as they come, "auto" brings those of the first mini-batch to unit spread
        and all later ones by the same factor, a number multiplies. What is stored stays unscaled.
    centre : the head takes each feature vector less the mean of its elements. Features behind a ReLU share a
        large mean that tells no class from another and keeps SGD from settling.
    young : where tasks are not told, samples per class after which a task is closed for good.
    batch_size : rows learned in one step.
    preset : "paper" takes the paper's values where these defaults differ: beta=0.5, scale=None, centre=False.
    seed, device : "auto" is the GPU if there is one.

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
    (['dog', 'cat', 'elm', 'oak'], [0, 0, 1, 1])
    """

    _working = ("_ready", "_earlier")

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
        young: int = 20,
        batch_size: int = 10,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
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
        self.young = young
        self.batch_size = batch_size
        self.preset = preset
        self.seed = seed
        self.device = device

    def _setting(self, name: str) -> Any:
        return PAPER.get(name, getattr(self, name)) if self.preset == "paper" else getattr(self, name)

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("budget", "batch_size", "young"):
            check_positive(name, getattr(self, name), int)
        check_positive("pairs", self.pairs, int, allow_zero=True)
        check_positive("lr", self.lr)
        check_positive("alpha_r", self.alpha_r, allow_zero=True)
        check_choice("decide", self.decide, DECISIONS)
        check_choice("keep", self.keep, tuple(KEEP_RULES))
        check_choice("sigma", self.sigma, ("class", "global"))
        check_choice("init", self.init, ("uniform", "zeros"))
        check_choice("preset", self.preset, (None, "paper"))
        check_choice("quota", self.quota, ("seen", "fixed"))
        if self.quota == "fixed":
            check_positive("expected_classes (with quota='fixed')", self.expected_classes, int)
        if self.beta != "pilot":
            check_positive("beta (a number, or 'pilot')", self.beta)
        if self.scale not in (None, "auto"):
            check_positive("scale (None, 'auto' or a number)", self.scale)

    def _foresee(self, known: int, soon: int, width: int) -> None:
        if known <= self.budget < soon:
            warnings.warn(
                f"there are more classes than the budget of {self.budget} exemplars: later classes go without",
                stacklevel=3,
            )

    # ---- learning phase -------------------------------------------------------------------------

    def fit_task(self, X: ArrayLike, y: ArrayLike, task: str | int | None = None, passes: int = 1) -> CandidatesVoting:
        """Learn these rows as one whole task, which the head goes over `passes` times; returns the model.

        task: its name; left out, the rows are a new task, "task 1" and so on. The first pass is `partial_fit`. In the
        others only the head learns, in an order drawn anew: seen once more, a sample would count twice in the means,
        and the one nearest to its mean would be kept many times.
        """
        check_positive("passes", passes, int)
        rows = self._check_X(X, self.n_features_in_ if self._is_fitted() else None)
        labels = as_labels(y, len(rows))
        self.partial_fit(rows, labels, self._next_task() if task is None else task)
        classes = np.array([self._index[label] for label in labels])
        try:
            for _ in range(passes - 1):
                order = torch.randperm(len(rows), generator=self._random.generator).numpy()
                for start in range(0, len(rows), self.batch_size):
                    some = order[start : start + self.batch_size]
                    self._step(rows[some], classes[some])
        except BaseException:  # as in partial_fit
            self._broken = True
            raise
        return self

    def _begin(self, X: NDArray[np.float32]) -> None:
        self._allocate(X.shape[1])
        scale = self._setting("scale")
        spread = float(X.std(dtype=np.float64))
        self._scale = np.float32(1 / spread if scale == "auto" and spread else 1 if scale in (None, "auto") else scale)

    def _allocate(self, width: int) -> None:
        self._random = RandomPool(self.seed)
        self._place = Place(self.device)
        self._head = GrowingHead(width, self.bias, self.init, self._setting("centre"), self._place)
        expected = self.expected_classes if self.quota == "fixed" and self.expected_classes else 1
        self._memory = FeatureMemory(width, self.budget, self.keep, self.seed, expected)
        self._earlier: tuple[tuple[int, int], NDArray[np.intp]] = ((-1, -1), np.empty(0, np.intp))
        self._ready: _Ready | None = None

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        self._ready = None
        waiting, n = 0, len(X)  # rows from `waiting` on are trained on, but not yet offered to the memory
        for begin in range(-offset, n, self.batch_size):
            start, end = max(begin, 0), min(n, begin + self.batch_size)
            self._step(X[start:end], classes[start:end])
            if end == n or end - waiting >= SPAN or not self._can_wait(classes[start:end]):
                self._memory.observe(X[waiting:end], classes[waiting:end])
                waiting = end

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
            return X * self._scale, classes
        drawn = uniform(slots, self.pairs * n, self._random)
        labels = self._memory.store.labels.take(drawn)
        exemplars = self._memory.store.items.take(drawn, axis=0)
        if self.augment:
            exemplars += self._noise(labels, self._tasks.block_start, self._random)
        batch = np.concatenate((X, exemplars))
        batch *= self._scale
        return batch, np.concatenate((classes, labels))

    def _earlier_slots(self) -> NDArray[np.intp]:
        """Slots of exemplars whose class is not in the current block, found anew only when slots changed."""
        store, block_start = self._memory.store, self._tasks.block_start
        if self._earlier[0] != (store.layout, block_start):
            self._earlier = (store.layout, block_start), (store.labels < block_start).nonzero()[0]
        return self._earlier[1]

    def _noise(self, labels: NDArray[np.int64], n_classes: int, random: RandomPool) -> NDArray[np.float32]:
        """alpha_r P, P ~ N(0, sigma) per element (Eq. 2), for exemplars of these classes."""
        statistics = self._memory.statistics
        noise = random.normal(len(labels) * statistics.width).reshape(-1, statistics.width)
        if self.sigma == "class":
            spread = statistics.spread(n_classes).take(labels, axis=0)
        else:
            spread = statistics.global_spread()
        return noise * spread if self.alpha_r == 1 else noise * (np.float32(self.alpha_r) * spread)

    # ---- inference phase ------------------------------------------------------------------------

    def vote(self, X: ArrayLike) -> Vote:
        """How the decision of each row falls, task by task (Eq. 3 to 5), whatever `decide` says."""
        rows, get, classes = self._place.put(self._query(X)), self._place.get, self.classes_
        _, candidates, s_hat, w, gamma, score = (get(part) for part in self._vote(rows))
        winner = score.argmax(1)
        named = classes[candidates]
        return Vote(named, s_hat, w, gamma[:, 0], score, named[np.arange(len(winner)), winner], winner)

    def _decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        check_choice("decide", self.decide, DECISIONS)  # it may have been set since learning began
        rows = self._place.put(X)
        if self.decide == "argmax":
            winner = self._logits(rows).argmax(1)
        elif self.decide == "nearest":
            winner = self._class_distances(rows).argmin(1)
        else:
            _, candidates, _, _, _, score = self._vote(rows)
            winner = candidates[library_of(rows).arange(len(rows)), score.argmax(1)]
        return self._place.get(winner)

    def _probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """A task's score goes to its candidate, and to its other classes as their logits fall short of it.

        With decide="argmax" the softmax of the logits, with "nearest" the prior class by class.
        """
        rows, get = self._place.put(X), self._place.get
        if self.decide == "nearest":
            return voting.prior(get(self._class_distances(rows)).astype(np.float64))
        logits = get(self._logits(rows)).astype(np.float64)
        if self.decide == "argmax":
            shares = np.exp(logits - logits.max(1, keepdims=True))
        else:
            s, _, _, _, _, score = (get(part).astype(np.float64) for part in self._vote(rows))
            task = self.task_of_class_
            shares = score[:, task] * np.exp(logits - s[:, task])
        return shares / shares.sum(1, keepdims=True)

    def examiner(self, X: ArrayLike) -> Callable[[NDArray[np.intp]], NDArray[Any]]:
        """A function of rows that answers as `predict(X[rows])` does, up to rounding, and learns to be quick at it.

        For who asks about the same X after each task: on the CPU, distances to exemplars that are still there are
        not measured again.
        """
        queries = self._check_X(X, None)
        known, tasks = Revisited(queries), np.empty(0, np.int64)

        def answer(rows: NDArray[np.intp]) -> NDArray[Any]:
            nonlocal known, tasks
            if self.decide != "vote" or self._place.device.type != "cpu":
                return self.predict(queries[rows])
            now = self.task_of_class_
            if (now[: len(tasks)] != tasks).any():  # tasks that were found have turned out to be one
                known = Revisited(queries)
            tasks, store = now, self._memory.store
            near = known.distances(rows, store.items, store.arrivals, now[store.labels], now.max() + 1)
            _, candidates, _, _, _, score = self._vote(queries[rows], near)
            return self._labels()[candidates[np.arange(len(rows)), score.argmax(1)]]

        return answer

    def _vote(self, X: Array, near: Array | None = None) -> tuple[Array, Array, Array, Array, Array, Array]:
        ready = self._prepared()
        s, candidates = voting.candidates(self._logits(X), ready.table)
        s_hat = voting.normalise(s, ready.norms[candidates])
        w = voting.prior(ready.by_task.distances(X) if near is None else near)
        gamma, score = voting.combine(s_hat, w, ready.beta)
        return s, candidates, s_hat, w, gamma, score

    def _logits(self, X: Array) -> Array:
        return self._head.logits(X * self._scale)

    def _class_distances(self, X: Array) -> Array:
        return self._neighbours(self._memory.store.labels, self._head.n_classes).distances(X)

    def _neighbours(self, groups: NDArray[np.int64], n_groups: int) -> voting.Neighbours:
        items, put = self._memory.store.items, self._place.put
        if (groups[1:] < groups[:-1]).any():
            order = groups.argsort(kind="stable")
            items, groups = items[order], groups[order]
        return voting.Neighbours(put(items), put(groups), n_groups)

    def _prepared(self) -> _Ready:
        """What every query needs, made once after learning."""
        if self._ready is None:
            task_of_class = self.task_of_class_
            table = voting.task_table(task_of_class)
            by_task = self._neighbours(task_of_class[self._memory.store.labels], len(table))
            norms = self._head.norms().clip(voting.EPS_N)
            beta = self._setting("beta")
            self._ready = _Ready(
                self._place.put(table), norms, by_task, self._pilot_beta(by_task) if beta == "pilot" else beta
            )
        return self._ready

    def _pilot_beta(self, by_task: voting.Neighbours) -> float:
        """The mean confidence of the prior over the pilot set: every exemplar, augmented once."""
        store = self._memory.store
        pilot = store.items + self._noise(store.labels, self._head.n_classes, RandomPool(self.seed))
        w = voting.prior(by_task.distances(self._place.put(pilot)))
        return float(voting.confidence(w).mean())

    # ---- what was learned -----------------------------------------------------------------------

    @property
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        self._check_fitted()
        return self._head.rows[:, : self.n_features_in_].copy()

    @property
    def exemplars_(self) -> Exemplars:
        self._check_fitted()
        store = self._memory.store
        order = np.lexsort((store.arrivals, store.labels))
        numbers = store.labels[order]
        return Exemplars(store.items[order], self.classes_[numbers], self.task_of_class_[numbers])

    @property
    def class_means_(self) -> NDArray[np.float64]:
        self._check_fitted()
        return self._memory.statistics.means

    @property
    def class_counts_(self) -> NDArray[np.int64]:
        self._check_fitted()
        return self._memory.statistics.counts

    @property
    def beta_(self) -> float:
        """The beta in use: the one given, or the pilot's estimate."""
        self._check_fitted()
        return float(self._prepared().beta)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        own = {"head": self._head.rows, "scale": np.array(self._scale)}
        return {**own, **joined({"memory": self._memory.state(), "random": self._random.state()})}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._allocate(self.n_features_in_)
        n_classes = len(self._index)
        self._head.restore(arrays, n_classes)
        self._memory.restore(part_of(arrays, "memory"), n_classes)
        self._scale = take_scale(arrays, self._memory.store.items)
        self._random.restore(part_of(arrays, "random"))


class _Ready(NamedTuple):
    """What inference computes once from what was learned."""

    table: Array
    norms: Array
    by_task: voting.Neighbours
    beta: float
