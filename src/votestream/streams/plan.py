"""Which class comes when, and which samples with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def class_order(classes: np.ndarray, order: int | Sequence[Any] | None, rng: np.random.Generator) -> np.ndarray:
    """The classes in the order given, in the field's order for a number, or in one drawn from `rng`.

    Example:
        >>> class_order(np.arange(100), 1993, np.random.default_rng(0))[:10]
        array([68, 56, 78,  8, 23, 84, 90, 65, 74, 76])
    """
    if order is None:
        return classes[rng.permutation(len(classes))]
    if isinstance(order, (int, np.integer)):
        return classes[np.random.RandomState(order).permutation(len(classes))]  # as the field does
    given = list(order)
    if sorted(map(str, given)) != sorted(map(str, classes.tolist())):
        odd = sorted(set(map(str, given)) ^ set(map(str, classes.tolist())))
        raise ValueError(f"`order` must have each of the {len(classes)} classes once; look at {odd[:5] or given[:5]}.")
    place = {str(label): i for i, label in enumerate(classes.tolist())}
    return classes[[place[str(label)] for label in given]]


def task_sizes(tasks: int | Sequence[int] | None, n_classes: int) -> list[int]:
    """Number of classes of each task.

    Example:
        >>> task_sizes(3, 7), task_sizes([4, 3], 7), task_sizes(None, 7)
        ([3, 2, 2], [4, 3], [3, 2, 2])
    """
    if tasks is None:
        tasks = max(n_classes // 2, 1)
    if isinstance(tasks, (int, np.integer)):
        if not 1 <= tasks <= n_classes:
            raise ValueError(f"tasks must lie between 1 and the {n_classes} classes, not {tasks}.")
        return [n_classes // tasks + (i < n_classes % tasks) for i in range(tasks)]
    sizes = [int(size) for size in tasks]
    if sum(sizes) != n_classes or min(sizes) < 1:
        raise ValueError(f"tasks must be numbers of classes, from 1, that add up to {n_classes}, not {sizes}.")
    return sizes


def cut(
    y: np.ndarray, classes: np.ndarray, sizes: Sequence[int], rng: np.random.Generator | None
) -> tuple[np.ndarray, ...]:
    """Rows of each task, mixed by `rng`, or as they lie without one; every row is in exactly one task.

    Example:
        >>> cut(np.array([0, 1, 2, 0]), np.array([2, 0, 1]), [1, 2], None)
        (array([2]), array([0, 1, 3]))
    """
    plan = []
    for part in np.split(classes, np.cumsum(sizes)[:-1]):
        rows = np.flatnonzero(np.isin(y, part))
        plan.append(rows if rng is None else rng.permutation(rows))
    return tuple(plan)
