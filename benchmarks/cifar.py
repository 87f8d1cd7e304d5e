"""CIFAR as frozen features, and the part of its training images on which settings are chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import votestream as vs

DATA_SETS = {"CIFAR-100": "cifar100", "CIFAR-10": "cifar10"}
N_TASKS = {"CIFAR-100": 20, "CIFAR-10": 5}
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(data_dir: Path, data_set: str, backbone: vs.Backbone) -> Parts:
    data = vs.load_data(DATA_SETS[data_set], data_dir).seen_through(backbone)
    assert isinstance(data.X, np.ndarray)
    assert isinstance(data.X_test, np.ndarray)
    assert data.y_test is not None
    return data.X, data.y, data.X_test, data.y_test


def held_out(X: np.ndarray, y: np.ndarray) -> Parts:
    """The training part cut in two: four fifths to learn from, a fifth to judge by."""
    order = np.random.default_rng(99).permutation(len(X))
    test, train = order[: len(X) // 5], order[len(X) // 5 :]
    return X[train], y[train], X[test], y[test]
