"""NearestNeighbours: the k nearest of the exemplars vote."""

from __future__ import annotations

import warnings
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.common.parameters import EXEMPLARS, Choice, Ranges, choice, whole
from votestream.compute.place import Array, Place
from votestream.core.registry import register
from votestream.learners.exemplars.exemplar_learner import ExemplarLearner
from votestream.learners.exemplars.modules import VotersModule
from votestream.learners.statistics.linear_rule import slices
from votestream.memory import KEEP_RULES, FeatureMemory

EPS = 1e-8  # keeps the vote of an exemplar equal to the query finite
TIE = 1e-6  # what a vote loses for each neighbour that is nearer


@register("knn")
class NearestNeighbours(ExemplarLearner[FeatureMemory]):
    r"""Keeps exemplar features under a budget; the k nearest, by Euclidean distance, vote on the class.

    .. math:: \hat y = \arg\max_c \sum_{i \in N_k(x), \, y_i = c} \frac{1}{\lVert x - v_i \rVert}

    N are the k nearest, v the exemplars that a keep rule leaves of the stream; `weights="majority"` counts all alike.
    Kept: Q (4 D + 24) bytes of exemplars, and 16 C (D + 1) of class statistics by which the rule keeps.

    Take it where exemplars are to be looked at, or where a class is several clusters.

    Reference: Thomas Cover and Peter Hart, "Nearest Neighbor Pattern Classification", IEEE Transactions on Information
    Theory 1967.

    Parameters
    ----------
    budget : Q, the most exemplar features kept, all classes together.
    k : neighbours asked.
    weights : "distance" counts a vote by the inverse distance, "majority" all alike; a tie goes to the nearer.
    keep : "mean_distance" (nearest to the class mean), "balanced", "reservoir" or "first_in".
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : the seed is for rules that draw; "auto" answers on the GPU if there is one.
    track : predict every sample before it is learned, for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import votestream as vs
    >>> model = vs.NearestNeighbours(k=3, weights="majority")
    >>> model = model.partial_fit([[0.0], [1.0], [2.0], [10.0]], ["a", "b", "b", "a"])
    >>> model.predict([[0.1], [9.0]]).tolist()
    ['b', 'b']
    """

    parameter_ranges: ClassVar[Ranges] = {
        "budget": EXEMPLARS,
        "k": whole(1, 10**6),
        "weights": choice("distance", "majority"),
        "keep": Choice(KEEP_RULES),
    }
    why_not = "its exemplars are those nearest to the mean of each class as it was; teach a new model"
    fixed_parameters = ("budget", "keep", "seed")

    def __init__(
        self,
        budget: int = 2000,
        k: int = 10,
        weights: str = "distance",
        keep: str = "mean_distance",
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.budget = budget
        self.k = k
        self.weights = weights
        self.keep = keep
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def check_growth(self, known: int, soon: int, width: int) -> None:
        if known <= self.budget < soon:
            warnings.warn(
                f"there are more classes than the budget of {self.budget} exemplars: later classes go without",
                stacklevel=4,
            )

    def new_memory(self, width: int) -> FeatureMemory:
        return FeatureMemory(width, self.budget, self.keep, self.seed)

    def kept(self) -> FeatureMemory:
        return self.memory_

    def new_predictor(self) -> _Voters:
        store, place = self.memory_.store, Place(self.device)
        items = store.items.copy()
        centre = items.mean(0)  # distances from the middle of the exemplars keep float32 exact enough
        points = items - centre
        arrays = place.put(centre), place.put(points), place.put((points * points).sum(1))
        return _Voters(items, store.labels.copy(), *arrays, len(self.state_.numbers), self.k, self.weights, place)


class _Voters(NamedTuple):
    items: NDArray[np.float32]
    labels: NDArray[np.int64]
    centre: Array
    points: Array  # the exemplars less the centre
    sizes: Array  # their squared lengths
    n_classes: int
    k: int
    weights: str
    place: Place

    def decide(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.probabilities(X).argmax(1)
        return found

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Each class's share of the votes."""
        parts = [self._votes(rows) for rows in slices(X, max(len(self.items), self.k * X.shape[1]))]
        return np.concatenate(parts)

    def as_module(self) -> VotersModule:
        k = min(self.k, len(self.items))
        arrays = {"labels": self.labels, "classes": np.arange(self.n_classes), "counts": 1 - TIE * np.arange(k)}
        return VotersModule(k, EPS if self.weights == "distance" else None, items=self.items, **arrays)

    def _votes(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Shares of the votes on some rows, (n, C)."""
        k = min(self.k, len(self.items))
        centred = self.place.put(X) - self.centre
        nearest = self.place.get(_smallest(self.sizes - 2 * (centred @ self.points.T), k))  # |x|² is the same for all
        offsets = X[:, None] - self.items[nearest]
        distances = np.sqrt(np.einsum("nkd,nkd->nk", offsets, offsets, dtype=np.float64))
        order = distances.argsort(1, kind="stable")
        distances, voters = np.take_along_axis(distances, order, 1), self.labels[np.take_along_axis(nearest, order, 1)]
        votes = np.zeros((len(X), self.n_classes))
        for rank in range(k):
            weight = 1 / (distances[:, rank] + EPS) if self.weights == "distance" else 1
            votes[np.arange(len(X)), voters[:, rank]] += weight * (1 - TIE * rank)
        found: NDArray[np.float64] = votes / votes.sum(1, keepdims=True)
        return found


def _smallest(table: Array, k: int) -> Array:
    """Columns of the k smallest of each row, in any order."""
    if isinstance(table, np.ndarray):
        return table.argpartition(k - 1, axis=1)[:, :k]
    return table.topk(k, dim=1, largest=False).indices
