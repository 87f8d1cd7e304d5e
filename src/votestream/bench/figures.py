"""What the plots show, as numbers: the same for the picture and for the page."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from votestream.bench.metrics import interval
from votestream.bench.runs import Suite
from votestream.bench.tables import Rows, by_stream


@dataclass(frozen=True)
class Series:
    """Points under one name; `half` are half the 95 % intervals of y, None where a single seed was run."""

    label: str
    x: list[float]
    y: list[float]
    half: list[float | None]


@dataclass(frozen=True)
class Panel:
    """Series that share axes."""

    title: str
    series: list[Series]


@dataclass(frozen=True)
class Matrix:
    """Counts of answers, a row a true class, in order of learning."""

    title: str
    counts: list[list[int]]
    classes: list[str]


def curves(suite: Suite, rows: Rows) -> list[Panel]:
    """Accuracy on all classes so far after each task, a panel for each stream and budget.

    Methods without a budget are in every panel.
    """
    panels = []
    for title, own in by_stream(suite, rows).items():
        whole = [row for row in own if row["after each task"]]
        for Q in _budgets(whole) or [""]:
            groups: dict[str, list[list[float]]] = defaultdict(list)
            for row in whole:
                if row["Q"] in ("", Q):
                    groups[row["method"]].append([float(a) for a in row["after each task"].split()])
            series = []
            for label in _ordered(suite, groups):
                steps = list(zip(*groups[label], strict=True))
                half = [interval(step) for step in steps]
                x = [float(task + 1) for task in range(len(steps))]
                series.append(Series(label, x, [statistics.fmean(step) for step in steps], half))
            if series:
                panels.append(Panel(f"{title}, Q = {int(Q):,}" if Q else title, series))
    return panels


def against_bytes(suite: Suite, rows: Rows) -> list[Panel]:
    """Last against what is kept, a panel for each stream; a method's budgets make a line."""
    panels = []
    for title, own in by_stream(suite, rows).items():
        groups: dict[str, dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
        for row in own:
            if row["bytes"]:
                groups[row["method"]][row["Q"]].append(row)
        series = []
        for label in _ordered(suite, groups):
            points = []
            for same in groups[label].values():
                last = [float(row["Last"]) for row in same]
                size = statistics.fmean(float(row["bytes"]) for row in same)
                points.append((size, statistics.fmean(last), interval(last)))
            points.sort(key=lambda point: point[0])
            series.append(Series(label, *(list(column) for column in zip(*points, strict=True))))
        panels.append(Panel(title, series))
    return panels


def matrices(suite: Suite, rows: Rows) -> list[Matrix]:
    """The confusion matrix of each method's first seed, in the suite's order."""
    made = []
    for title, own in by_stream(suite, rows).items():
        first: dict[str, dict[str, str]] = {}
        for row in sorted(own, key=lambda row: int(row["seed"])):
            if row["confusion"]:
                first.setdefault(row["method"], row)
        for label in _ordered(suite, first):
            row = first[label]
            counts = [[int(n) for n in line.split()] for line in row["confusion"].split(";")]
            classes = [str(name) for name in json.loads(row["class order"])]
            made.append(Matrix(f"{label}, {title}: Last {float(row['Last']):.1f}", counts, classes))
    return made


def _budgets(rows: Rows) -> list[str]:
    return sorted({row["Q"] for row in rows if row["Q"]}, key=int)


def _ordered(suite: Suite, labels: Iterable[str]) -> list[str]:
    """Labels in the suite's order, others after them."""
    known = list(dict.fromkeys(m.label for m in suite.methods))
    found = list(labels)
    return [label for label in known if label in found] + [label for label in found if label not in known]
