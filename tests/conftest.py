"""Small streams that every test may use."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs


class Stream:
    """Gaussian classes in tasks, in mini-batches, the same for the same seed."""

    def __init__(self, n_tasks=3, per_task=2, n=60, width=12, seed=0, spread=0.6):
        rng = np.random.default_rng(seed)
        self.centres = rng.normal(size=(n_tasks * per_task, width)).astype(np.float32)
        self.tasks = []
        for task in range(n_tasks):
            y = np.repeat(np.arange(task * per_task, (task + 1) * per_task), n // per_task)
            y = rng.permutation(y)
            noise = rng.normal(size=(len(y), width)).astype(np.float32)
            self.tasks.append((self.centres[y] + spread * noise, y))
        self.X = np.concatenate([X for X, _ in self.tasks])
        self.y = np.concatenate([y for _, y in self.tasks])

    def batches(self, size=10):
        for X, y in self.tasks:
            for i in range(0, len(X), size):
                yield X[i : i + size], y[i : i + size]


@pytest.fixture
def stream():
    return Stream()


@pytest.fixture(params=vs.list_learners())
def make(request):
    """Makes the learner under contract, with any arguments; runs once for each that is registered."""

    def create(**params):
        return vs.create(request.param, device="cpu", **params)

    return create


def same_model(one, other):
    """Whether two models hold the same, bit for bit."""
    mine, theirs = one._arrays(), other._arrays()
    return (
        list(one.classes_) == list(other.classes_)
        and one.task_of_class_.tolist() == other.task_of_class_.tolist()
        and mine.keys() == theirs.keys()
        and all(mine[k].dtype == theirs[k].dtype and np.array_equal(mine[k], theirs[k]) for k in mine)
    )
