"""What a run is worth, by the field's definitions, and how sure a mean over seeds is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from votestream.bench.columns import COLUMNS, number
from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean


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


def confusion(class_order: Sequence[Any], answers: NDArray, truth: NDArray) -> NDArray[np.int64]:
    """How often which class was answered, a row a true class, in class order.

    >>> confusion(["a", "b"], np.array(["a", "b", "b"]), np.array(["a", "b", "a"])).tolist()
    [[1, 1], [0, 1]]
    """
    place = {label: i for i, label in enumerate(class_order)}
    counts = np.zeros((len(place), len(place)), np.int64)
    np.add.at(counts, ([place[t] for t in truth.tolist()], [place[a] for a in answers.tolist()]), 1)
    return counts


def average(accuracies: Sequence[float]) -> float:
    """Avg: the mean of the accuracies on all classes seen so far, measured after each task.

    Over every test of `--anytime` it is AAA, average anytime accuracy (Soutif-Cormerais et al., 2023).

    >>> average([90.0, 60.0])
    75.0
    """
    return statistics.fmean(accuracies)


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


def backward_transfer(matrix: Sequence[Sequence[float]]) -> float | None:
    """BWT: how much each earlier task has gained since it was learned, on average (Lopez-Paz and Ranzato, 2017).

    `matrix` as for `forgetting`; below zero, tasks were forgotten.

    >>> backward_transfer([[90.0], [70.0, 80.0], [75.0, 60.0, 95.0]])
    -17.5
    """
    gains = [matrix[-1][task] - matrix[task][task] for task in range(len(matrix) - 1)]
    known = [gain for gain in gains if not math.isnan(gain)]
    return statistics.fmean(known) if known else None


def worst_case(tests: Sequence[Sequence[float]]) -> float | None:
    """WC-Acc: what each task before the last fell to at worst since it was learned, and what the last one is now.

    `tests` are the accuracies by task of each test in turn, those between tasks among them: k of them while task k is
    learned or after it. With k tasks learned, 1/k of the accuracy on the last one and 1 - 1/k of the others' lowest
    accuracy while later tasks were learned, on average (De Lange et al., 2023; Soutif-Cormerais et al., 2023).

    >>> worst_case([[90.0], [50.0, 60.0], [70.0, 80.0]])
    65.0
    """
    last = tests[-1]
    lowest = [min(test[task] for test in tests if len(test) > task + 1) for task in range(len(last) - 1)]
    known = [accuracy for accuracy in lowest if not math.isnan(accuracy)]
    if math.isnan(last[-1]):
        return None
    if not known:
        return last[-1]
    share = 1 / len(last)
    return share * last[-1] + (1 - share) * statistics.fmean(known)


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


def anytime_of(row: Mapping[str, str]) -> list[tuple[float, float]]:
    """How many samples were learned at each test of a run, and the accuracy; nothing without `--anytime`.

    >>> anytime_of({"anytime": "500 90.00; 1000 85.50"}), anytime_of({"anytime": ""})
    ([(500.0, 90.0), (1000.0, 85.5)], [])
    """
    tests = [test.split() for test in row["anytime"].split(";") if test]
    return [(float(samples), float(accuracy)) for samples, accuracy in tests]


@dataclass(frozen=True)
class Metric:
    """A number that tables show: how it follows from a row, None where there is nothing, and its digits."""

    of: Callable[[Mapping[str, str]], float | None]
    digits: int = 1


def _column(name: str) -> Callable[[Mapping[str, str]], float | None]:
    return lambda row: float(row[name]) if row[name] else None


def _average_after_the_first(row: Mapping[str, str]) -> float | None:
    later = [float(accuracy) for accuracy in row["after each task"].split()[1:]]
    return statistics.fmean(later) if later else None


def _backward_transfer(row: Mapping[str, str]) -> float | None:
    matrix = [[float(accuracy) for accuracy in test.split()] for test in row["by task"].split(";")]
    return backward_transfer(matrix) if row["after each task"] else None  # tested once, it has the last line only


def _drift(row: Mapping[str, str]) -> float | None:
    norms = [norm for task in norms_of(row) for norm in task]
    return drift(norms) if norms else None


def _newest(row: Mapping[str, str]) -> float | None:
    tasks = norms_of(row)
    return newest([norm for task in tasks for norm in task], len(tasks[-1])) if tasks else None


METRICS: dict[str, Metric] = {
    **{column.name: Metric(_column(column.name), column.digits) for column in COLUMNS if column.check is number},
    "Avg after the first": Metric(_average_after_the_first),
    "BWT": Metric(_backward_transfer),
    "drift": Metric(_drift, digits=2),
    "newest": Metric(_newest, digits=2),
}


def find_metric(name: str) -> Metric:
    """The metric of that name.

    >>> find_metric("Lst")
    Traceback (most recent call last):
    ...
    ValueError: There is no metric 'Lst'. Did you mean 'Last'?
    """
    if name not in METRICS:
        raise ValueError(f"There is no metric {shown(name)}. {did_you_mean(name, METRICS)}")
    return METRICS[name]


def measured(row: Mapping[str, str], metric: str) -> float | None:
    """A metric of a row of the results: a column, or what follows from one; None where there is nothing.

    >>> measured({"after each task": "90 60 50", "Last": "50"}, "Avg after the first")
    55.0
    """
    return find_metric(metric).of(row)


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the mean, by Student's t; None for fewer than two values.

    >>> round(interval([1.0, 2.0, 3.0]), 3)
    2.484
    """
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / len(values) ** 0.5
