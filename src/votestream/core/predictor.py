"""What makes predictions: prepared from a memory, and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from votestream.core.state import Naming
from votestream.tracking import Answers

if TYPE_CHECKING:
    from votestream.core.state import State


class Predictor(Protocol):
    """A prepared way to predict. It never changes, and shares no array with a memory that goes on learning.

    Classes are numbers, counted in order of first appearance. Rows are checked, float32 (or images, as bytes).
    A predictor may have, besides:

    - `updated(state, changed)`: a predictor for the state as it is now, made from this one, which was right before the
      classes `changed` were learned; None where it has to be made anew.
    - `as_module()`: a torch module which on a float32 tensor of rows gives both, as tensors, by operations that
      `torch.export` can trace. Models that have one can be exported.
    - `vote(X, labels, calibration)`: how each decision falls, a `Vote`.
    - `live = True`: it does change while its learner learns. Predictions then wait for learning, and a snapshot holds
      a copy of it.
    """

    def decide(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """The class of each row, (n,)."""

    def probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """(n, C), rows sum to 1; the largest is the class that `decide` names."""


class Prepared(NamedTuple):
    """All that predicting takes: a predictor, the labels, and what the track record adds."""

    naming: Naming
    predictor: Any  # a Predictor, perhaps with more methods than those
    settings: tuple[Any, ...]  # the learner's parameters that it was made with
    answers: Answers | None = None  # where the learner keeps a track record
    live: bool = False

    @classmethod
    def of(
        cls, state: State[Any], predictor: Predictor, settings: tuple[Any, ...], before: Prepared | None
    ) -> Prepared:
        """Calibration and unknown scores are made quicker from the last ones."""
        answers = None if state.tracker is None else state.tracker.answers(before and before.answers)
        return cls(state.naming, predictor, settings, answers, getattr(predictor, "live", False))

    def labels(self, X: NDArray[Any]) -> NDArray[Any]:
        """The label of each row, (n,)."""
        found: NDArray[Any] = self.naming.seen[self.predictor.decide(X)]
        return found

    def probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """(n, C), calibrated where there is a track record; columns as `classes_`."""
        shares = leading(self.predictor.probabilities(X))
        return (shares if self.answers is None else self.answers.calibration(shares))[:, self.naming.order]

    def vote(self, X: NDArray[Any]) -> Any:
        """How each decision falls, for predictors that vote."""
        return self.predictor.vote(X, self.naming.seen, None if self.answers is None else self.answers.calibration)

    def unknown_scores(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """(n,) in [0, 1)."""
        if self.answers is None:
            raise ValueError(
                "unknown_score needs a track record, which this model has not kept: make it with track=True"
            )
        return self.answers.unknowns.scores(X)

    def confidence(self, X: NDArray[Any], unknown_share: float) -> NDArray[np.float64]:
        """(n,) in [0, 1], or nan."""
        if self.answers is None:
            raise ValueError("confidence needs a track record, which this model has not kept: make it with track=True")
        if not 0 < unknown_share < 1:
            raise ValueError(f"unknown_share must be between 0 and 1, got {unknown_share!r}")
        if not self.answers.unknowns.can_tell:
            return np.full(len(X), np.nan)
        largest: NDArray[np.float64] = self.probabilities(X).max(1)
        return largest * self.answers.unknowns.known(X, unknown_share)


def leading(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of classes with the same largest probability the first gets a little more, so that it leads in any order.

    >>> shares = leading(np.array([[0.5, 0.5]]))
    >>> bool(shares[0, 0] > shares[0, 1]), shares.round(9).tolist()
    (True, [[0.5, 0.5]])
    """
    rows, first = np.arange(len(shares)), shares.argmax(1)
    tied = shares == shares[rows, first][:, None]
    tied[rows, first] = False
    if tied.any():
        shares[tied] *= 1 - 8 * np.finfo(np.float64).eps
    return shares
