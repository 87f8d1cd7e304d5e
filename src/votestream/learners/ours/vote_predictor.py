"""How CandidatesVoting answers: the vote among the tasks' candidates, prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream import voting
from votestream.compute.place import Array, Place, as_float64, library_of
from votestream.core.state import State
from votestream.core.vote import Vote
from votestream.learners.exemplars.head import GrowingHead
from votestream.learners.exemplars.modules import HeadModule, NearestModule
from votestream.learners.ours.modules import NearestClassModule, VoteModule
from votestream.learners.ours.voting_memory import VotingMemory, neighbours
from votestream.learners.statistics.linear_rule import softmax

DECISIONS = ("vote", "argmax", "nearest")
BetaOf = Callable[[VotingMemory, NDArray[np.int64]], float]  # of the memory, and the task of each class


class Ballot(NamedTuple):
    """The vote on n rows, N tasks: what Eq. 3 to 5 call s, y, s_hat, w, gamma, and the scores, (n, N) each."""

    s: Array
    candidates: Array
    s_hat: Array
    w: Array
    gamma: Array  # (n, 1)
    score: Array


@dataclass(frozen=True)
class VotePredictor:
    """A head, copies of the exemplars, and how to decide by them."""

    decide_by: str  # one of DECISIONS
    place: Place
    head: GrowingHead  # frozen
    norms: Array  # |W| of its rows
    scale: np.float32
    task_of_class: NDArray[np.int64]
    table: Array  # each task's classes
    exemplars: tuple[int, int]  # the version of the store that the neighbours are of
    by_task: voting.Neighbours
    by_class: voting.Neighbours | None  # for "nearest"
    beta: float
    beta_of: BetaOf

    @classmethod
    def of(
        cls, state: State[VotingMemory], decide_by: str, beta_of: BetaOf, before: VotePredictor | None = None
    ) -> VotePredictor:
        """What has not changed since the one before is taken from that."""
        memory, task_of_class = state.memory, state.task_numbers()
        head, store, place = memory.head, memory.exemplars.store, memory.head.place
        if before is None or not np.array_equal(before.task_of_class, task_of_class):
            before, table = None, place.put(voting.task_table(task_of_class))
        else:
            table = before.table
        if before is not None and before.exemplars == store.version:
            by_task, by_class = before.by_task, before.by_class
        else:
            by_task, by_class = neighbours(store.items, task_of_class[store.labels], len(table), place), None
        if decide_by == "nearest" and by_class is None:
            by_class = neighbours(store.items, store.labels, head.n_classes, place)
        return cls(
            decide_by=decide_by,
            place=place,
            head=head.frozen(),
            norms=head.norms().clip(voting.EPS_N),
            scale=memory.scale,
            task_of_class=task_of_class,
            table=table,
            exemplars=store.version,
            by_task=by_task,
            by_class=by_class,
            beta=beta_of(memory, task_of_class),
            beta_of=beta_of,
        )

    def updated(self, state: State[VotingMemory], changed: set[int]) -> VotePredictor:
        """For the state as it is now, from this one."""
        return VotePredictor.of(state, self.decide_by, self.beta_of, before=self)

    def decide(self, X: NDArray[np.float32], near: NDArray[np.float32] | None = None) -> NDArray[np.int64]:
        """`near` is the distance to each task's nearest exemplar, where it is known already."""
        rows = self.place.put(X)
        if self.decide_by == "argmax":
            winner = self._logits(rows).argmax(1)
        elif self.decide_by == "nearest":
            winner = self._class_distances(rows).argmin(1)
        else:
            ballot = self._ballot(rows, near)
            winner = ballot.candidates[library_of(rows).arange(len(rows)), ballot.score.argmax(1)]
        return self.place.get(winner)

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """A task's score goes to its candidate, and to its other classes as their logits fall short of it.

        With decide="argmax" the softmax of the logits, with "nearest" the prior class by class.
        """
        rows, get = self.place.put(X), self.place.get
        if self.decide_by == "nearest":
            by_class: NDArray[np.float64] = voting.prior(get(as_float64(self._class_distances(rows))))
            return by_class
        logits = get(as_float64(self._logits(rows)))
        if self.decide_by == "argmax":
            return softmax(logits)
        ballot = self._ballot(rows)
        s, score = get(as_float64(ballot.s)), get(ballot.score)
        score = score / score.max(1, keepdims=True)
        shares = score[:, self.task_of_class] * np.exp(logits - s[:, self.task_of_class])
        found: NDArray[np.float64] = shares / shares.sum(1, keepdims=True)
        return found

    def vote(self, X: NDArray[np.float32], labels: NDArray[Any], calibration: object = None) -> Vote:
        """Its scores are no probabilities, so a calibration does not change them."""
        _, candidates, s_hat, w, gamma, score = (self.place.get(part) for part in self._ballot(self.place.put(X)))
        winner, named = score.argmax(1), labels[candidates]
        return Vote(named, s_hat, w, gamma[:, 0], score, named[np.arange(len(winner)), winner], winner)

    def as_module(self) -> VoteModule | NearestClassModule | HeadModule:
        head, get = self.head.as_module(self.scale), self.place.get
        if self.decide_by == "argmax":
            return head
        if self.decide_by == "nearest":
            assert self.by_class is not None
            return NearestClassModule(self._nearest(self.by_class))
        arrays = {"table": get(self.table), "norms": get(self.norms), "task_of_class": self.task_of_class}
        return VoteModule(head, self._nearest(self.by_task), self.beta, **arrays)

    def _nearest(self, near: voting.Neighbours) -> NearestModule:
        return NearestModule(self.place.get(near.exemplars), self.place.get(near.groups), near.n_groups)

    def _ballot(self, X: Array, near: Array | None = None) -> Ballot:
        s, candidates = voting.candidates(self._logits(X), self.table)
        s_hat = voting.normalise(s, self.norms[candidates])
        w = voting.prior(self.by_task.distances(X) if near is None else near)
        return Ballot(s, candidates, s_hat, w, *voting.combine(s_hat, w, self.beta))

    def _logits(self, X: Array) -> Array:
        return self.head.logits(self.head.scaled(X, self.scale))

    def _class_distances(self, X: Array) -> Array:
        assert self.by_class is not None
        return self.by_class.distances(X)
