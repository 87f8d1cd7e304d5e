"""What the plots show, as numbers: the same for the plot and for the page."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from votestream.bench.metrics import anytime_of, interval, measured, n_tasks, norms_of, trend
from votestream.bench.runs import Suite
from votestream.bench.tables import Rows, by_stream, kind_and_rate


@dataclass(frozen=True)
class Series:
    """Points under one name; `half` are half the 95 % intervals of y, None where a single seed was run."""

    label: str
    x: list[float]
    y: list[float]
    half: list[float | None]
    trend: list[float] | None = None  # y of a line through the points, which are then not joined
    dashed: bool = False  # that line


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

    Methods without a budget are in every panel; those asked after the last task only are a point there.
    """
    panels = []
    for title, groups in _by_budget(suite, rows):
        own = [row for rows_of_method in groups.values() for row in rows_of_method]
        end = max(max(len(_history(row)), n_tasks(row)) for row in own)
        series = []
        for label, of_method in groups.items():
            histories = [_history(row) for row in of_method]
            longest = max(map(len, histories))  # of runs asked once and after each task, the latter
            steps = list(zip(*(history for history in histories if len(history) == longest), strict=True))
            x = [float(end - len(steps) + 1 + place) for place in range(len(steps))]
            series.append(_means(label, x, steps))
        panels.append(Panel(title, series))
    return panels


def anytime(suite: Suite, rows: Rows) -> list[Panel]:
    """Accuracy on all classes so far every so many samples, panels as for `curves`."""
    panels = []
    for title, groups in _by_budget(suite, [row for row in rows if row["anytime"]]):
        series = []
        for label, of_method in groups.items():
            steps = list(zip(*map(anytime_of, of_method), strict=False))  # tasks may differ in length from seed to seed
            x = [statistics.fmean(samples for samples, _ in step) for step in steps]
            series.append(_means(label, x, [[accuracy for _, accuracy in step] for step in steps]))
        panels.append(Panel(title, series))
    return panels


def _by_budget(suite: Suite, rows: Rows) -> Iterator[tuple[str, dict[str, Rows]]]:
    """For each stream and budget a title and the rows of each method; those without a budget are with every one."""
    for title, own in by_stream(suite, rows).items():
        for Q in _budgets(own) or [""]:
            groups: dict[str, Rows] = defaultdict(list)
            for row in own:
                if row["Q"] in ("", Q):
                    groups[row["method"]].append(row)
            if groups:
                named = f"{title}, Q = {int(Q):,}" if Q else title
                yield named, {label: groups[label] for label in _ordered(suite, groups)}


def _history(row: dict[str, str]) -> list[float]:
    return [float(accuracy) for accuracy in (row["after each task"] or row["Last"]).split()]


def _means(label: str, x: list[float], steps: Iterable[Sequence[float]]) -> Series:
    """A line through the means over seeds, with their intervals."""
    found = list(steps)
    return Series(label, x, [statistics.fmean(step) for step in found], [interval(step) for step in found])


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
            x, y, half = (list(column) for column in zip(*points, strict=True))
            series.append(Series(label, x, y, half))
        if series:
            panels.append(Panel(title, series))
    return panels


def against_rates(suite: Suite, rows: Rows) -> list[Panel]:
    """Last by learning rate, a panel for each stream."""
    families = {m.label: m.family for m in suite.methods if m.family}
    panels = []
    for title, own in by_stream(suite, rows).items():
        labels: dict[str, str] = {}
        groups: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in own:
            kind, rate = kind_and_rate(row)
            if rate is not None:
                label = labels.setdefault(kind, families.get(row["method"], row["method"]))
                groups[label][rate].append(float(row["Last"]))
        series = []
        for label, by_rate in groups.items():
            points = [(rate, statistics.fmean(last), interval(last)) for rate, last in sorted(by_rate.items())]
            x, y, half = (list(column) for column in zip(*points, strict=True))
            series.append(Series(label, x, y, half))
        if series:
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


def norms(suite: Suite, rows: Rows) -> list[Panel]:
    """Norms of the head's rows over their mean, in order of learning, with trends: panels as in the paper's figures.

    CN by the size of the steps; methods, in the smallest steps and with the fewest exemplars; CN + Exp by their number;
    distillation against exemplars. Of several seeds the first is shown.
    """
    order = {(m.label, str(m.Q or "")): place for place, m in enumerate(suite.methods)}
    known = {}
    for title, own in by_stream(suite, rows).items():
        drawn = [row for row in own if measured(row, "drift") is not None]
        if drawn:
            known[title] = sorted(drawn, key=lambda row: order.get((row["method"], row["Q"]), len(order)))
    if not known:
        return []
    many_passes = {m.label for m in suite.methods if m.length}

    def drawn_as(label: str, row: dict[str, str]) -> Series:
        return _norms(label, row, dashed=row["method"] in many_passes)

    smallest, small = next(iter(known.items()))
    fewest = next(iter(_budgets(small)), "")
    few = [row for row in small if row["Q"] in ("", fewest)]
    by_step = [drawn_as(f"{r['method']}, {title}", r) for title, own in known.items() for r in _firsts(own, "CN")]
    by_Q = [drawn_as(f"{r['method']}, Q = {int(r['Q']):,}", r) for r in _firsts(small, "CN + Exp")]
    told = f"{smallest}, Q = {int(fewest):,}" if fewest else smallest
    panels = [
        Panel("CN", by_step),
        Panel(told, [drawn_as(row["method"], row) for row in _firsts(few)]),
        Panel(f"CN + Exp, {smallest}", by_Q),
        Panel(f"KD and CN + Exp, {told}", [drawn_as(row["method"], row) for row in _firsts(few, "KD", "CN + Exp")]),
    ]
    return [panel for panel in panels if panel.series]


def names(suite: Suite, panels: Iterable[Panel | Matrix]) -> list[str]:
    """The series of these panels, each once, in the suite's order."""
    return _ordered(suite, dict.fromkeys(s.label for panel in panels if isinstance(panel, Panel) for s in panel.series))


def _firsts(rows: Rows, *paper_rows: str) -> Rows:
    """The first seed of each method and budget; only of those that the paper calls so, if given."""
    chosen: dict[tuple[str, str], dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        if not paper_rows or row["paper row"] in paper_rows:
            chosen.setdefault((row["method"], row["Q"]), row)
    return list(chosen.values())


def _norms(label: str, row: dict[str, str], dashed: bool) -> Series:
    lengths = [norm for task in norms_of(row) for norm in task]
    mean = statistics.fmean(lengths)
    y = [length / mean for length in lengths]
    slope, start = trend(y)
    x = [float(place + 1) for place in range(len(y))]
    line = [start + slope * place for place in range(len(y))]
    return Series(label, x, y, [None] * len(y), line, dashed)


def _budgets(rows: Rows) -> list[str]:
    return sorted({row["Q"] for row in rows if row["Q"]}, key=int)


def _ordered(suite: Suite, labels: Iterable[str]) -> list[str]:
    """Labels in the suite's order, others after them."""
    known = list(dict.fromkeys(m.label for m in suite.methods))
    found = list(labels)
    return [label for label in known if label in found] + [label for label in found if label not in known]
