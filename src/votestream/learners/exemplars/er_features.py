"""FeatureReplay: experience replay (Chaudhry et al., "On Tiny Episodic Memories", 2019), of features."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.common.parameters import EXEMPLARS, LEARNING_RATE, SWITCH, Choice, Ranges, real, whole
from votestream.compute.place import Place
from votestream.compute.random_pool import RandomPool
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.io.array_checks import take_scale
from votestream.io.model_files import joined, part_of
from votestream.learners.exemplars.head import GrowingHead, unit_scale
from votestream.learners.exemplars.modules import HeadModule
from votestream.learners.exemplars.nearest_predictor import ExemplarLearner
from votestream.learners.statistics.linear_rule import softmax
from votestream.memory import KEEP_RULES, FeatureMemory, uniform


@register("er_features")
class FeatureReplay(ExemplarLearner):
    r"""A linear head trained by SGD on the new samples and as many drawn from a reservoir of earlier ones.

    A step on the mini-batch B and as many exemplars M, with the head W:

    .. math::
        W \leftarrow W - \frac{\mathrm{lr}}{|B \cup M|} \, \nabla_W
        \sum_{(x, y) \in B \cup M} -\log \operatorname{softmax}(W x)_y

    Nothing is frozen, and the largest logit over all classes decides. Memory is asked before the new samples
    enter it. Kept: the head, 4 C D bytes, and Q (4 D + 24) of exemplars.

    Take it as a baseline for `CandidatesVoting`: SGD and replay of features, without frozen rows and without a vote.

    Reference: Arslan Chaudhry et al., "On Tiny Episodic Memories in Continual Learning", arXiv 1902.10486, 2019; there
    of images.

    Parameters
    ----------
    budget : Q, the most exemplar features kept, all classes together.
    lr : learning rate of the SGD.
    pairs : exemplars drawn for every new sample.
    keep : "reservoir", or another rule by which exemplars are kept ("balanced", "first_in", "mean_distance").
    scale : the head takes features times this number; "auto" makes the first samples' spread 1.
    centre : the head takes each feature vector less the mean of its elements, see `CandidatesVoting`.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : rows learned in one step.
    seed, device : "auto" is the GPU if there is one.
    track : predict every sample before it is learned, for `track_record` and `unknown_score`. Probabilities are not
        calibrated by it: this learner forgets, and records of the newest classes say nothing of the others.

    >>> import votestream as vs
    >>> model = vs.FeatureReplay(budget=10)
    >>> for _ in range(20):
    ...     model = model.partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> model.predict([[0.0, 2.0], [2.0, 0.0]]).tolist()
    ['a', 'b']
    """

    parameter_ranges: ClassVar[Ranges] = {
        "budget": EXEMPLARS,
        "pairs": whole(0, 1000),
        "lr": LEARNING_RATE,
        "keep": Choice(KEEP_RULES),
        "centre": SWITCH,
        "scale": real(1e-12, 1e12, "auto"),
    }
    _fixed = ("budget", "keep", "scale", "centre", "seed")
    _record_fade = None  # it forgets: the newest classes do far better than the others, and records are of these

    def __init__(
        self,
        budget: int = 2000,
        lr: float = 0.1,
        pairs: int = 1,
        keep: str = "reservoir",
        scale: float | str = "auto",
        centre: bool = True,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.budget = budget
        self.lr = lr
        self.pairs = pairs
        self.keep = keep
        self.scale = scale
        self.centre = centre
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def _begin(self, X: NDArray[np.float32]) -> None:
        self._allocate(X.shape[1])
        self._head.begin(X)
        self._scale = unit_scale(X, self.scale)

    def _allocate(self, width: int) -> None:
        self._place = Place(self.device)
        self._random = RandomPool(self.seed)
        self._head = GrowingHead(width, bias=False, init="uniform", centre=self.centre, place=self._place)
        self._memory = FeatureMemory(width, self.budget, self.keep, self.seed)

    def _learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        for begin in range(-offset, len(X), self.batch_size):
            step = slice(max(begin, 0), begin + self.batch_size)
            self._step(X[step], classes[step])
            self._memory.observe(X[step], classes[step])

    def _step(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        n_classes, store = max(classes.tolist()) + 1, self._memory.store
        if n_classes > self._head.n_classes:
            self._head.grow(n_classes, self._random.generator)
        if self.pairs and len(store):
            drawn = uniform(np.arange(len(store)), self.pairs * len(X), self._random)
            X = np.concatenate((X, store.items[drawn]))
            classes = np.concatenate((classes, store.labels[drawn]))
        self._head.step(self._head.scaled(X, self._scale), classes, start=0, lr=self.lr)

    def _predictor(self) -> _HeadRule:
        return _HeadRule(self._head.frozen(), self._scale, self._place)

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        return self._sorted(self._head.frozen().rows) * np.float32(self._unit)

    def _forget(self, number: int) -> None:
        self._memory.forget(number)
        self._head.forget(number)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        own = {"head": self._head.rows, "scale": np.array(self._scale)}
        return {**own, **joined({"memory": self._memory.state(), "random": self._random.state()})}

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._allocate(self.n_features_in_)
        n_classes = len(self._index)
        self._head.restore(arrays, n_classes)
        self._memory.restore(part_of(arrays, "memory"), n_classes)
        self._scale = take_scale(arrays)
        self._random.restore(part_of(arrays, "random"))


class _HeadRule(NamedTuple):
    """The largest logit decides."""

    head: GrowingHead
    scale: np.float32
    place: Place

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        return self._logits(X).argmax(1)

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return softmax(self._logits(X).astype(np.float64))

    def as_module(self) -> HeadModule:
        return self.head.as_module(self.scale)

    def _logits(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.place.get(self.head.logits(self.head.scaled(self.place.put(X), self.scale)))
