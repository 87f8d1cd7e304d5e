"""FeatureReplay: experience replay (Chaudhry et al., "On Tiny Episodic Memories", 2019), of features."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.common.parameters import EXEMPLARS, LEARNING_RATE, SWITCH, Choice, Ranges, real, whole
from votestream.compute.place import Place
from votestream.core.guard import learned
from votestream.core.registry import register
from votestream.learners.exemplars.exemplar_learner import ExemplarLearner
from votestream.learners.exemplars.head import GrowingHead, HeadMemory
from votestream.learners.exemplars.modules import HeadModule
from votestream.learners.statistics.linear_rule import softmax
from votestream.memory import KEEP_RULES, FeatureMemory, uniform


@register("er_features")
class FeatureReplay(ExemplarLearner[HeadMemory]):
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
    fixed_parameters = ("budget", "keep", "scale", "centre", "seed")
    calibration_fade = None  # it forgets: the newest classes do far better than the others, and records are of these

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

    def new_memory(self, width: int) -> HeadMemory:
        exemplars = FeatureMemory(width, self.budget, self.keep, self.seed)
        head = GrowingHead(width, bias=False, init="uniform", centre=self.centre, place=Place(self.device))
        return HeadMemory(exemplars, head, self.scale, self.seed)

    def kept(self) -> FeatureMemory:
        return self.memory_.exemplars

    def learn(self, X: NDArray[np.float32], classes: NDArray[np.int64], offset: int) -> None:
        for begin in range(-offset, len(X), self.batch_size):
            step = slice(max(begin, 0), begin + self.batch_size)
            self._step(X[step], classes[step])
            self.memory_.exemplars.add(X[step], classes[step])

    def _step(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        memory, n_classes = self.memory_, max(classes.tolist()) + 1
        head, store, random = memory.head, memory.exemplars.store, memory.random
        if n_classes > head.n_classes:
            head.grow(n_classes, random.generator)
        if self.pairs and len(store):
            drawn = uniform(np.arange(len(store)), self.pairs * len(X), random)
            X = np.concatenate((X, store.items[drawn]))
            classes = np.concatenate((classes, store.labels[drawn]))
        head.step(head.scaled(X, memory.scale), classes, start=0, lr=self.lr)

    def new_predictor(self) -> _HeadRule:
        memory = self.memory_
        return _HeadRule(memory.head.frozen(), memory.scale, memory.head.place)

    @learned
    def weights_(self) -> NDArray[np.float32]:
        """Rows of the head, (C, D), as `classes_`."""
        return self.by_class(self.memory_.head.frozen().rows) * np.float32(self.state_.unit)


class _HeadRule(NamedTuple):
    """The largest logit decides."""

    head: GrowingHead
    scale: np.float32
    place: Place

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._logits(X).argmax(1)
        return found

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return softmax(self._logits(X).astype(np.float64))

    def as_module(self) -> HeadModule:
        return self.head.as_module(self.scale)

    def _logits(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.place.get(self.head.logits(self.head.scaled(self.place.put(X), self.scale)))
