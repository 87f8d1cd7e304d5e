"""What a run is worth, by the field's definitions, and how sure a mean over seeds is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


def accuracy(answers: NDArray, truth: NDArray) -> float:
    """Right answers in per cent; there must be some to give.

    >>> accuracy(np.array(["a", "b", "b"]), np.array(["a", "b", "a"])).__round__(1)
    66.7
    """
    if not len(truth):
        raise ValueError("there is nothing to test on: no test sample is of a class that was met so far")
    return 100 * float(np.mean(answers == truth))


def by_task(answers: NDArray, truth: NDArray, task_of: NDArray, n_tasks: int) -> list[float]:
    """Accuracy in per cent on the test samples of each task so far, `task_of` being theirs; nan where there are none.

    >>> by_task(np.array([0, 0, 2]), np.array([0, 1, 2]), np.array([0, 0, 1]), 2)
    [50.0, 100.0]
    """
    parts = [task_of == task for task in range(n_tasks)]
    return [accuracy(answers[part], truth[part]) if part.any() else math.nan for part in parts]


def average(after_each_task: Sequence[float]) -> float:
    """Avg: the mean of the accuracies on all classes seen so far, measured after each task.

    >>> average([90.0, 60.0])
    75.0
    """
    return statistics.fmean(after_each_task)


def last(after_each_task: Sequence[float]) -> float:
    """Last: the accuracy on all classes after the last task."""
    return after_each_task[-1]


def forgetting(matrix: Sequence[Sequence[float]]) -> float | None:
    """How far each earlier task has fallen from its best, on average (Chaudhry et al., 2018).

    `matrix[l][j]` is the accuracy on task j after learning task l, j <= l. None for a single task.

    >>> forgetting([[90.0], [70.0, 80.0], [75.0, 60.0, 95.0]])
    17.5
    """
    falls = [max(row[task] for row in matrix[task:-1]) - matrix[-1][task] for task in range(len(matrix) - 1)]
    known = [fall for fall in falls if not math.isnan(fall)]
    return statistics.fmean(known) if known else None


def drift(norms: Sequence[float]) -> float | None:
    """How far the norms of the head's rows rise over all classes, in order of learning: 0 favours none.

    The slope of the least-squares line, times the number of classes, over the mean norm; None where that is zero.

    >>> round(drift([1.0, 1.1, 1.2]), 3)
    0.273
    """
    slope, _ = trend(norms)
    mean = statistics.fmean(norms)
    return slope * len(norms) / mean if mean else None


def n_tasks(row: Mapping[str, str]) -> int:
    """How many tasks the stream of a row had.

    >>> n_tasks({"by task": "90; 80 70"}), n_tasks({"by task": "80 70 60"})  # asked after each task, after the last
    (2, 3)
    """
    return len(row["by task"].split(";")[-1].split())


def newest(norms: Sequence[float], own: int) -> float | None:
    """How large the rows of the newest task, `own` in number, are on average, over the mean of those before.

    >>> newest([1.0, 1.0, 3.0], 1)
    3.0
    """
    before = statistics.fmean(norms[:-own]) if 0 < own < len(norms) else 0
    return statistics.fmean(norms[-own:]) / before if before else None


def norms_of(row: Mapping[str, str]) -> list[list[float]]:
    """Norms of the head's rows, task by task; nothing where a run has none, or lost them to infinity.

    >>> norms_of({"norms": "1 1; 3;"}), norms_of({"norms": "nan 1;"})
    ([[1.0, 1.0], [3.0]], [])
    >>> norms_of({"norms": "1 1 3 3", "by task": "80 70"})  # as earlier versions wrote them: tasks are of equal size
    [[1.0, 1.0], [3.0, 3.0]]
    """
    *ended, rest = [[float(norm) for norm in task.split()] for task in row["norms"].split(";")]
    tasks = ended or [part.tolist() for part in np.array_split(rest, max(1, n_tasks(row)))]
    norms = [norm for task in tasks for norm in task]
    return tasks if norms and all(map(math.isfinite, norms)) else []


def trend(values: Sequence[float]) -> tuple[float, float]:
    """Slope and start of the least-squares line through values that stand one apart."""
    slope, start = np.polyfit(np.arange(len(values)), values, 1) if len(values) > 1 else (0.0, values[0])
    return float(slope), float(start)


def measured(row: Mapping[str, str], metric: str) -> float | None:
    """A metric of a row of the results: a column, or what follows from one; None where there is nothing.

    >>> measured({"after each task": "90 60 50", "Last": "50"}, "Avg after the first")
    55.0
    """
    if metric == "Avg after the first":
        later = [float(accuracy) for accuracy in row["after each task"].split()[1:]]
        return statistics.fmean(later) if later else None
    if metric in ("drift", "newest"):
        tasks = norms_of(row)
        norms = [norm for task in tasks for norm in task]
        if not norms:
            return None
        return drift(norms) if metric == "drift" else newest(norms, len(tasks[-1]))
    return float(row[metric]) if row[metric] else None


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the mean, by Student's t; None for fewer than two values.

    >>> round(interval([1.0, 2.0, 3.0]), 3)
    2.484
    """
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / len(values) ** 0.5
