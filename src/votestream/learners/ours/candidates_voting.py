"""CandidatesVoting: "Online Continual Learning Via Candidates Voting" (He and Zhu, WACV 2022)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from votestream.common.parameters import EXEMPLARS, LEARNING_RATE, SWITCH, Choice, Ranges, choice, real, whole
from votestream.common.validation import as_features, as_labels
from votestream.compute.place import Place
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.core.settings import given_or_preset
from votestream.core.tasks import next_task
from votestream.core.vote import Vote
from votestream.learners.exemplars.exemplar_learner import ExemplarLearner
from votestream.learners.exemplars.head import GrowingHead
from votestream.learners.ours.nearest_cache import NearestCache
from votestream.learners.ours.vote_predictor import DECISIONS, VotePredictor
from votestream.learners.ours.voting_memory import VotingMemory
from votestream.memory import KEEP_RULES, FeatureMemory, uniform
from votestream.memory.refresh import last_refresh

OFFERED_TOGETHER = 30  # rows offered to the memory at once, at most
PAPER = {"beta": 0.5, "scale": None, "centre": False}  # where the paper says otherwise than our defaults


@register("candidates_voting")
class CandidatesVoting(ExemplarLearner[VotingMemory]):
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

    calibration_fade = (
        0.5  # the newest classes do better than the frozen ones: earlier records are to keep their weight
    )
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
    fixed_parameters = (
        "budget",
        "freeze",
        "keep",
        "quota",
        "expected_classes",
        "bias",
        "init",
        "scale",
        "centre",
        "seed",
    )

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

    def check_params(self) -> None:
        super().check_params()
        if self.quota == "fixed" and self.expected_classes is None:
            raise ValueError("quota='fixed' needs expected_classes: how many classes share the budget")

    def check_growth(self, known: int, soon: int, width: int) -> None:
        if known <= self.budget < soon:
            warnings.warn(
                f"there are more classes than the budget of {self.budget} exemplars: later classes go without",
                stacklevel=4,
            )

    def new_memory(self, width: int) -> VotingMemory:
        head = GrowingHead(width, self.bias, self.init, self._setting("centre"), Place(self.device))
        expected = self.expected_classes if self.quota == "fixed" and self.expected_classes else 1
        exemplars = FeatureMemory(width, self.budget, self.keep, self.seed, expected)
        return VotingMemory(exemplars, head, self._setting("scale"), self.seed)

    def kept(self) -> FeatureMemory:
        return self.memory_.exemplars

    # ---- learning phase -------------------------------------------------------------------------

    def fit_task(self, X: ArrayLike, y: ArrayLike, task: str | int | None = None, passes: int = 1) -> Self:
        """Learn these rows as one whole task, which the head goes over `passes` times; returns the model.

        task: its name; left out, the rows are a new task, "task 1" and so on. The first pass is `partial_fit`. In the
        others only the head learns, in an order drawn anew: seen once more, a sample would count twice in the means,
        and the one nearest to its mean would be kept many times.
        """
        whole(1, 10**6).check("passes", passes)
        with self.guard.lock:
            self.partial_fit(X, y, next_task([] if self._state is None else self.tasks_) if task is None else task)
            state = self.state_
            rows = self.rows_of(X, state.n_features)
            self._pass_again(rows, state.number_classes(as_labels(y, len(rows))), passes - 1)
        return self

    def _pass_again(self, rows: NDArray[np.float32], classes: NDArray[np.int64], passes: int) -> None:
        state = self.state_
        try:
            for _ in range(passes):
                order = torch.randperm(len(rows), generator=state.memory.random.generator).numpy()
                for start in range(0, len(rows), self.batch_size):
                    some = order[start : start + self.batch_size]
                    self._step(rows[some], classes[some])
        except BaseException:  # as in partial_fit
            state.broken = True
            raise
        finally:
            self.guard.learned(state.numbers, ())  # only the head, which is copied for every prediction

    def learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        waiting, n = 0, len(X)  # rows from `waiting` on are trained on, but not yet offered to the memory
        for begin in range(-offset, n, self.batch_size):
            start, end = max(begin, 0), min(n, begin + self.batch_size)
            self._step(X[start:end], classes[start:end])
            if end == n or end - waiting >= OFFERED_TOGETHER or not self._can_wait(classes[start:end]):
                self._observe(X[waiting:end], classes[waiting:end])
                waiting = end

    def _observe(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Offer samples to the memory; those at a refresh are followed by taking a pilot set."""
        memory = self.memory_
        before, memory.samples = memory.samples, memory.samples + len(X)
        refresh = last_refresh(memory.samples) - before
        if refresh > 0 and self._setting("beta") == "pilot":
            memory.exemplars.add(X[:refresh], classes[:refresh])
            spread = memory.exemplars.statistics.spread().copy() if self.sigma == "class" else None
            memory.take_pilot(self.state_.task_numbers(), self.alpha_r, spread)
            X, classes = X[refresh:], classes[refresh:]
        if len(X):
            memory.exemplars.add(X, classes)

    def _can_wait(self, classes: NDArray[np.int64]) -> bool:
        """Whether what replay draws from, the exemplars of earlier tasks, is the same before and after."""
        exemplars, block_start = self.memory_.exemplars, self.state_.tasks.block_start
        known = exemplars.statistics.n_classes
        return exemplars.keep.class_by_class and all(block_start <= c < known for c in classes.tolist())

    def _step(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Train the current task's block on the new samples and their pairs."""
        memory, n_classes = self.memory_, max(classes.tolist()) + 1
        if n_classes > memory.head.n_classes:
            memory.head.grow(n_classes, memory.random.generator)
        block_start = self.state_.tasks.block_start
        start = block_start if self.freeze else 0
        if start < memory.head.n_classes:
            memory.head.step(*self._paired(X, classes, memory, block_start), start, self.lr)

    def _paired(
        self, X: NDArray[np.float32], classes: NDArray[np.int64], memory: VotingMemory, block_start: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The new samples, each joined by `pairs` augmented exemplars of earlier tasks."""
        slots, n = memory.earlier_slots(block_start), len(X)
        if not (self.pairs and len(slots)):
            return memory.head.scaled(X, memory.scale), classes
        drawn = uniform(slots, self.pairs * n, memory.random)
        store, statistics = memory.exemplars.store, memory.exemplars.statistics
        labels, exemplars = store.labels.take(drawn), store.items.take(drawn, axis=0)
        if self.augment:
            by_class = self.sigma == "class"
            spread = statistics.spread(block_start).take(labels, axis=0) if by_class else statistics.global_spread()
            exemplars += self._noise(len(labels), spread, memory)
        batch = memory.head.scaled(np.concatenate((X, exemplars)), memory.scale)
        return batch, np.concatenate((classes, labels))

    def _noise(self, n: int, sigma: NDArray[np.float32], memory: VotingMemory) -> NDArray[np.float32]:
        """alpha_r P, P ~ N(0, sigma) per element (Eq. 2), for n exemplars."""
        width = memory.exemplars.statistics.width
        noise = memory.random.normal(n * width).reshape(-1, width)
        return noise * sigma if self.alpha_r == 1 else noise * (np.float32(self.alpha_r) * sigma)

    # ---- inference phase ------------------------------------------------------------------------

    def vote(self, X: ArrayLike) -> Vote:
        """How the decision of each row falls, task by task (Eq. 3 to 5), whatever `decide` says."""
        rows = self.query(X)
        vote: Vote = self.prepared().vote(rows)
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
            if self.decide != "vote" or self.state_.unit != 1 or self.memory_.head.place.device.type != "cpu":
                return self.predict(queries[rows])
            with self.guard.lock:
                now, prepared = self.state_.task_numbers(), self.prepared()
                if (now[: len(tasks)] != tasks).any():  # tasks that were found have turned out to be one
                    known = NearestCache(queries)
                tasks, store = now, self.memory_.exemplars.store
                near = known.distances(rows, store.items, store.arrivals, now[store.labels], now.max() + 1)
            found: NDArray[Any] = prepared.naming.seen[prepared.predictor.decide(queries[rows], near)]
            return found

        return answer

    def new_predictor(self) -> VotePredictor:
        beta = self._setting("beta")
        if beta == "pilot":
            beta_of = partial(_pilot_beta, alpha_r=self.alpha_r, by_class=self.sigma == "class")
        else:
            beta_of = partial(_given_beta, float(beta))
        return VotePredictor.of(self.state_, self.decide, beta_of)

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        state = self.state_
        return self.by_class(state.memory.head.frozen().rows[:, : state.n_features]) * np.float32(state.unit)

    @learned
    def beta_(self) -> float:
        """The beta in use: the one given, or the pilot's estimate."""
        beta: float = self.prepared().predictor.beta
        return beta


def _pilot_beta(memory: VotingMemory, task_of_class: NDArray[np.int64], alpha_r: float, by_class: bool) -> float:
    """The pilot's estimate; where the memory has no pilot set, one of the exemplars as they are now."""
    if memory.pilot is None:
        spread = memory.exemplars.statistics.spread_of_all() if by_class else None
        memory.take_pilot(task_of_class, alpha_r, spread)
    return memory.pilot_beta()


def _given_beta(beta: float, memory: VotingMemory, task_of_class: NDArray[np.int64]) -> float:
    return beta
