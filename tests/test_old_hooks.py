"""Learners of other packages with the hooks of version 0.2 work, and say that they are old."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import votestream as vs
from conftest import one_thread
from votestream.core import learned
from votestream.core.registry import LEARNERS
from votestream.io import take
from votestream.testing import check_learner, learner_checks


class NearestMean:
    def __init__(self, means):
        self.means = means

    def probabilities(self, X):
        distances = ((X[:, None] - self.means) ** 2).sum(2)
        shares = np.exp(distances.min(1, keepdims=True) - distances)
        return shares / shares.sum(1, keepdims=True)

    def decide(self, X):
        return self.probabilities(X).argmax(1)


with pytest.warns(
    DeprecationWarning, match=r"ClassSums has hooks of version 0\.2 \(_learn, _predictor, _begin"
) as told:

    @vs.register("old_class_sums")
    class ClassSums(vs.Learner):
        """As docs/extending.md of version 0.2 has it."""

        def __init__(self, batch_size=10, close_task_after=20, seed=0, device="auto"):
            self.batch_size = batch_size
            self.close_task_after = close_task_after
            self.seed = seed
            self.device = device

        def _begin(self, X):
            self._sums, self._counts = np.zeros((0, X.shape[1])), np.zeros(0, np.int64)

        def _learn(self, X, classes, offset):
            new = max(0, classes.max() + 1 - len(self._counts))
            self._sums, self._counts = np.pad(self._sums, ((0, new), (0, 0))), np.pad(self._counts, (0, new))
            np.add.at(self._sums, classes, X)
            np.add.at(self._counts, classes, 1)

        def _predictor(self):
            return NearestMean(self._sums / self._counts[:, None])

        def _arrays(self):
            return {"sums": self._sums, "counts": self._counts}

        def _set_arrays(self, arrays):
            C, D = len(self._index), self.n_features_in_
            self._sums = take(arrays, "sums", np.float64, (C, D), low=-np.inf, high=np.inf)
            self._counts = take(arrays, "counts", np.int64, (C,), low=1)

        @learned
        def class_counts_(self):
            return self._sorted(self._counts)


with pytest.warns(DeprecationWarning, match=r"BalancedReplay has hooks of version 0\.2 \(_step, _keep"):

    @vs.register("old_balanced_replay")
    class BalancedReplay(vs.NetworkLearner):
        """The same page's."""

        _keep = "balanced"

        def _step(self, images, labels):
            if len(self._memory):
                slots = (self._random.uniform(self.replay) * len(self._memory)).astype(np.int64)
                drawn, classes = self._memory.store.take(slots)
                images, labels = torch.cat((images, drawn)), torch.cat((labels, classes))
            self._captured(self._learn_from, images, labels)


OLD = {
    name: LEARNERS._known.pop(name) for name in ("old_class_sums", "old_balanced_replay")
}  # other tests go over all learners


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for name, learner in OLD.items():
        monkeypatch.setitem(LEARNERS._known, name, learner)


def test_the_warning_points_at_the_class():
    assert told[0].filename == __file__


@pytest.mark.parametrize("check", learner_checks(ClassSums))
def test_a_learner_with_the_old_hooks_keeps_the_contract(check):
    check(ClassSums)


def test_a_network_learner_with_the_old_hooks_keeps_the_contract():
    with one_thread():
        check_learner(lambda **params: BalancedReplay(**{"backbone": "tiny", "lr": 0.5, "device": "cpu", **params}))
