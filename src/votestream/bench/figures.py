"""What the plots show, as numbers: the same for the plot and for the page."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from votestream.bench.appearance import BESIDE, split
from votestream.bench.metrics import anytime_of, interval, measured, n_tasks, norms_of, trend
from votestream.bench.runs import Suite
from votestream.bench.tables import Line, Rows, blocks, by_stream, kind_and_rate, stream_title

# Streams and backbones by the names that people know them by.
IN_FULL = {
    "split-cifar10": "Split CIFAR-10",
    "split-cifar100": "Split CIFAR-100",
    "core50-nc": "CORe50-NC",
    "sample": "the images of the package",
    "reduced_resnet18": "reduced ResNet-18",
    "efficientnet_lite0": "EfficientNet-Lite0",
}
# The paper's tables. Two suites of one name are columns of one table.
TABLES = {
    "online": "Online methods",
    "ablation": "Parts of the method",
    "augmentation": "Parts of the method",
    "offline": "Offline methods",
}
SAID = {"Last": "accuracy after the last task (%)", "Avg": "accuracy, mean over tasks (%)"}
# The paper's backbone is a ResNet-50 there: what we measured with a larger network of ours stands beside it.
LARGER = {"offline": "efficientnet_lite0"}
SPREAD = 0.5  # of the way from one task to the next: points of the same task stand beside one another in it


@dataclass(frozen=True)
class Series:
    """Points under one name; `half` are half the 95 % intervals of y, None where a single seed was run."""

    label: str
    x: list[float]
    y: list[float]
    half: list[float | None]
    trend: list[float] | None = None  # y of a line through the points, which are then not joined
    shift: float = 0.0  # drawn so far beside x, so that intervals do not lie on one another


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


@dataclass(frozen=True)
class Mark:
    """What we measured of a method, or of its variant: a mean over seeds."""

    variant: str
    mean: float
    half: float | None
    seeds: int


@dataclass(frozen=True)
class Beside:
    """A figure of the paper, None where it has none, and what we measured."""

    paper: float | None
    marks: list[Mark]


@dataclass(frozen=True)
class Comparison:
    """A table of the paper beside ours: by method and by column, which is a budget or the size of the steps.

    The methods that the paper has are `papers`, in its order; the `others` are ours, the best first.
    """

    title: str
    columns: list[str]
    papers: list[str]
    others: list[str]
    cells: dict[str, dict[str, Beside]]


def in_full(title: str) -> str:
    """A stream's title with its names written out.

    >>> in_full("split-cifar100, efficientnet_lite0, Q = 1,000")
    'Split CIFAR-100, EfficientNet-Lite0, Q = 1,000'
    """
    return ", ".join(IN_FULL.get(part, part) for part in title.split(", "))


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
        panels.append(Panel(title, _side_by_side(series)))
    return panels


def _side_by_side(series: list[Series]) -> list[Series]:
    step = SPREAD / max(len(series), 1)
    return [replace(each, shift=step * (place - (len(series) - 1) / 2)) for place, each in enumerate(series)]


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
                yield in_full(named), {label: groups[label] for label in _ordered(suite, groups)}


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
            panels.append(Panel(in_full(title), series))
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
            panels.append(Panel(in_full(title), series))
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
            Q = f", Q = {int(row['Q']):,}" if row["Q"] else ""
            made.append(Matrix(f"{label}{Q}\n{in_full(title)}: Last {float(row['Last']):.1f} %", counts, classes))
    return made


def norms(suite: Suite, rows: Rows) -> list[Panel]:
    """Norms of the head's rows over their mean, in order of learning, with trends: panels as in the paper's figures.

    CN by the size of the steps; methods, in the smallest steps and with the fewest exemplars; CN + Exp by their number;
    distillation against exemplars. The mean of all seeds.
    """
    order = {(m.label, str(m.Q or "")): place for place, m in enumerate(suite.methods)}
    known = {}
    for title, own in by_stream(suite, rows).items():
        drawn = [row for row in own if measured(row, "drift") is not None]
        if drawn:
            known[title] = sorted(drawn, key=lambda row: order.get((row["method"], row["Q"]), len(order)))
    if not known:
        return []
    smallest, small = next(iter(known.items()))
    fewest = next(iter(_budgets(small)), "")
    few = [row for row in small if row["Q"] in ("", fewest)]
    by_step = [_norms(f"{r[0]['method']}, {title}", r) for title, own in known.items() for r in _runs(own, "CN")]
    by_Q = [_norms(f"{runs[0]['method']}, Q = {int(runs[0]['Q']):,}", runs) for runs in _runs(small, "CN + Exp")]
    told = f"{smallest}, Q = {int(fewest):,}" if fewest else smallest
    panels = [
        Panel("Plain training (CN)\nby classes a task", by_step),
        Panel(f"All methods\n{told}", [_norms(runs[0]["method"], runs) for runs in _runs(few)]),
        Panel(f"With exemplars (CN + Exp), by their number\n{smallest}", by_Q),
        Panel(
            f"Distillation (KD) and exemplars (CN + Exp)\n{told}",
            [_norms(runs[0]["method"], runs) for runs in _runs(few, "KD", "CN + Exp")],
        ),
    ]
    return [panel for panel in panels if panel.series]


def against_paper(suite: Suite, rows: Rows) -> list[Comparison]:
    """Our figures beside the paper's, a table for each stream: Last where the paper has that, or else Avg.

    Methods without a budget are in every column.
    """
    tables: dict[str, dict[str, dict[str, Beside]]] = {}
    for (_, own), block in zip(by_stream(suite, rows).items(), blocks(suite, rows), strict=True):
        metric = next((m for m in ("Last", *block.metrics) if m in block.metrics and block.with_paper(m)), None)
        backbone = own[0]["backbone"] or suite.backbone
        if metric is None or backbone not in (suite.backbone, LARGER.get(suite.name)):
            continue
        stream, _, step = in_full(stream_title(suite, own[0])).partition(", ")
        title = f"{TABLES.get(suite.name, suite.title)}, {stream}: {SAID.get(metric, metric)}"
        table = tables.setdefault(title, {})
        network = "" if backbone == suite.backbone else f" ({in_full(backbone)})"
        for Q in sorted({line.Q for line in block.lines if line.Q}, key=int) or [""]:
            column = step or (f"Q = {int(Q):,}" if Q else "")
            for line in block.lines:
                if line.Q in ("", Q):
                    _put(table, line, metric, column, network)
    return [_compared(title, cells) for title, cells in tables.items() if cells]


def _put(table: dict[str, dict[str, Beside]], line: Line, metric: str, column: str, network: str) -> None:
    """Variants of a method stand in one place, beside the figure that the paper has for it."""
    method, variants = split(line.method)
    variant, cell = ", ".join(variants), line.cells[metric]
    if variant in BESIDE:
        beside = table.setdefault(f"{method.partition(':')[0]}{network}", {})
        marks = beside.setdefault(column, Beside(cell.paper, [])).marks
        if cell.mean is not None:
            marks.append(Mark(variant, cell.mean, cell.half, cell.seeds))


def _compared(title: str, cells: dict[str, dict[str, Beside]]) -> Comparison:
    def best(method: str) -> float:
        return max((mark.mean for beside in cells[method].values() for mark in beside.marks), default=0.0)

    columns = {column for by_column in cells.values() for column in by_column}
    papers = [method for method in cells if any(beside.paper is not None for beside in cells[method].values())]
    others = sorted((method for method in cells if method not in papers), key=best, reverse=True)
    return Comparison(title, sorted(columns, key=_number), papers, others, cells)


def _number(column: str) -> int:
    return int("0" + "".join(letter for letter in column if letter.isdigit()))


def joined(panels: Iterable[Panel | Matrix | Comparison]) -> list[Comparison]:
    """Comparisons of several suites; those with one title are one table."""
    tables: dict[str, dict[str, dict[str, Beside]]] = {}
    for panel in panels:
        if isinstance(panel, Comparison):
            table = tables.setdefault(panel.title, {})
            for method, by_column in panel.cells.items():
                table.setdefault(method, {}).update(by_column)
    return [_compared(title, cells) for title, cells in tables.items()]


def names(suite: Suite, panels: Iterable[Panel | Matrix | Comparison]) -> list[str]:
    """The series of these panels, each once, in the suite's order."""
    return _ordered(suite, dict.fromkeys(s.label for panel in panels if isinstance(panel, Panel) for s in panel.series))


def _runs(rows: Rows, *paper_rows: str) -> list[Rows]:
    """All seeds of each method and budget; only of those that the paper calls so, if given."""
    found: dict[tuple[str, str], Rows] = {}
    for row in rows:
        if not paper_rows or row["paper row"] in paper_rows:
            found.setdefault((row["method"], row["Q"]), []).append(row)
    return list(found.values())


def _norms(label: str, runs: Rows) -> Series:
    """By the place in the order of learning, whatever class a seed has there."""
    shares = []
    for row in runs:
        lengths = [norm for task in norms_of(row) for norm in task]
        mean = statistics.fmean(lengths)
        shares.append([length / mean for length in lengths])
    y = [statistics.fmean(at) for at in zip(*shares, strict=False)]
    slope, start = trend(y)
    x = [float(place + 1) for place in range(len(y))]
    line = [start + slope * place for place in range(len(y))]
    return Series(label, x, y, [None] * len(y), line)


def _budgets(rows: Rows) -> list[str]:
    return sorted({row["Q"] for row in rows if row["Q"]}, key=int)


def _ordered(suite: Suite, labels: Iterable[str]) -> list[str]:
    """Labels in the suite's order, others after them."""
    known = list(dict.fromkeys(m.label for m in suite.methods))
    found = list(labels)
    return [label for label in known if label in found] + [label for label in found if label not in known]
