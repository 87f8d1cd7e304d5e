"""What the checks learn: six classes in three tasks, as features or as images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Samples:
    """Gaussian classes in tasks, in mini-batches, the same for the same seed."""

    def __init__(
        self, n_tasks: int = 3, per_task: int = 2, n: int = 60, width: int = 12, seed: int = 0, spread: float = 0.6
    ) -> None:
        rng = np.random.default_rng(seed)
        self.centres = rng.normal(size=(n_tasks * per_task, width)).astype(np.float32)
        self.tasks: list[tuple[NDArray[Any], NDArray[np.int64]]] = []
        for task in range(n_tasks):
            y = np.repeat(np.arange(task * per_task, (task + 1) * per_task), n // per_task)
            y = rng.permutation(y)
            noise = rng.normal(size=(len(y), width)).astype(np.float32)
            self.tasks.append((self.centres[y] + spread * noise, y))
        self.X = np.concatenate([X for X, _ in self.tasks])
        self.y = np.concatenate([y for _, y in self.tasks])

    def between(self) -> NDArray[Any]:
        """Samples half-way between two others, of which no model can be sure."""
        some = self.X[::3]
        return ((some.astype(np.float32) + some[::-1]) / 2).astype(some.dtype)

    def batches(self, size: int = 10) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        for X, y in self.tasks:
            for i in range(0, len(X), size):
                yield X[i : i + size], y[i : i + size]


class ImageSamples(Samples):
    """The same classes as tiny images, 2 x 2 pixels of 3 colours: 12 numbers as well."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.tasks = [(as_images(X), y) for X, y in self.tasks]
        self.X = as_images(self.X)


def as_images(X: NDArray[Any]) -> NDArray[np.uint8]:
    return np.clip(128 + 30 * X, 0, 255).round().astype(np.uint8).reshape(-1, 2, 2, 3)
