"""Rows become tables: ours with its interval, the paper's figure beside it, and the difference."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from votestream.bench.metrics import find_metric, interval, measured
from votestream.bench.paper import SOURCES, figure
from votestream.bench.runs import StreamSpec, Suite, as_json

Rows = list[dict[str, str]]
TEX = str.maketrans(
    {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$"}
    | {plain: f"\\{plain}" for plain in "&%_#${}"}
)
BETTER = {
    **dict.fromkeys(("Avg", "Avg after the first", "Last", "AAA", "WC-Acc", "prequential", "BWT"), max),
    "forgetting": min,
}
CSV_FIELDS = ("suite", "stream", "method", "Q", "metric", "mean", "interval", "seeds", "paper", "difference")


@dataclass(frozen=True)
class Cell:
    """A mean over seeds, and what the paper has in its place; None where there is nothing."""

    mean: float | None
    half: float | None  # of the 95 % interval
    seeds: int
    paper: float | None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.paper is None else self.mean - self.paper


@dataclass(frozen=True)
class Line:
    """A method at a budget."""

    method: str
    Q: str
    cells: dict[str, Cell]
    seeds: int
    best: bool = False  # of those that differ in their learning rate only

    @property
    def is_bound(self) -> bool:
        return self.method.startswith("Upper bound")


@dataclass(frozen=True)
class Block:
    """A stream's table."""

    stream: str
    lines: list[Line]
    metrics: tuple[str, ...]
    chooses: bool = False

    def with_paper(self, metric: str) -> bool:
        return any(line.cells[metric].paper is not None for line in self.lines)


def blocks(suite: Suite, rows: Rows) -> list[Block]:
    """A table for each stream that has rows, in the suite's order. Figures that only the paper has are in it too, but
    not once more for another backbone.

    Methods of the suite stand in its order, others that were run with it after them.
    """
    labels = list(dict.fromkeys([(m.label, m.Q) for m in suite.methods]))
    paper_rows = {(m.label, m.Q): m.paper for m in suite.methods}
    made = []
    for title, of_stream in by_stream(suite, rows).items():
        stream, best = stream_title(suite, of_stream[0]), _best(of_stream) if suite.chooses else set()
        found: dict[tuple[str, int | None], Rows] = defaultdict(list)
        for row in of_stream:
            found[row["method"], int(row["Q"]) if row["Q"] else None].append(row)
        usual = of_stream[0]["backbone"] in ("", suite.backbone)
        compared = {(paper_rows[key], key[1]) for key in found if key in paper_rows}
        lines = []
        for method, Q in [*labels, *(key for key in found if key not in paper_rows)]:
            own = found.get((method, Q), [])
            paper_row = paper_rows.get((method, Q)) or (own[0]["paper row"] if own else "") or ""
            cells = {}
            for metric in suite.metrics:
                printed = None if suite.held_out else figure(suite.name, stream, paper_row, Q, metric)
                cells[metric] = _cell(own, metric, printed)
            told = any(cell.paper is not None for cell in cells.values())
            alone = told and usual and (paper_row, Q) not in compared
            if own or alone:
                compared.add((paper_row, Q))
                lines.append(Line(method, "" if Q is None else str(Q), cells, len(own), (method, Q) in best))
        made.append(Block(title, lines, suite.metrics, suite.chooses))
    return made


def _best(rows: Rows) -> set[tuple[str, int | None]]:
    """Method and Q with the best Last, of each kind that was run with several learning rates; of equals the fastest."""
    kinds: dict[str, dict[tuple[str, int | None], list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in (row for row in rows if row["Last"]):
        kind, rate = kind_and_rate(row)
        method = row["method"], int(row["Q"]) if row["Q"] else None
        kinds[kind][method].append((float(row["Last"]), rate or 0.0))
    several = [by_rate for by_rate in kinds.values() if len(by_rate) > 1]
    return {
        max(by_rate, key=lambda m: tuple(map(statistics.fmean, zip(*by_rate[m], strict=True)))) for by_rate in several
    }


def kind_and_rate(row: Mapping[str, str]) -> tuple[str, float | None]:
    """What tells a row's method from those that differ in more than the learning rate, and that rate, if it has one."""
    settings = json.loads(row["settings"])
    rate = settings.pop("lr", None)
    return as_json([row["learner"], settings]), None if rate is None else float(rate)


def by_stream(suite: Suite, rows: Rows) -> dict[str, Rows]:
    """Rows that may be averaged, under the stream's name, and what else tells them apart where there are several."""
    titled: dict[str, Rows] = {stream.title: [] for stream in suite.streams}
    for row in _told_apart(suite, rows):
        if not row["error"]:
            titled.setdefault(stream_title(suite, row), []).append(row)
    found: dict[str, Rows] = {}
    for stream, own in titled.items():
        kinds = list(dict.fromkeys((row["backbone"], row["digest"], row["options"]) for row in own))
        backbones, options = {kind[0] for kind in kinds}, {kind[2] for kind in kinds}
        named = len(backbones) > 1, len({kind[:2] for kind in kinds}) > len(backbones), len(options) > 1
        for kind in kinds:
            title = ", ".join([stream, *(part for part, differs in zip(kind, named, strict=True) if differs)])
            rows_of_kind = [row for row in own if (row["backbone"], row["digest"], row["options"]) == kind]
            found[title] = _of_one_setting(suite, stream, rows_of_kind)
    return found


def _of_one_setting(suite: Suite, title: str, rows: Rows) -> Rows:
    """Without the rows of a name that was run with another learner or settings too: the suite's count, or else the
    latest.
    """
    stream = next((stream for stream in suite.streams if stream.title == title), StreamSpec(title))
    now = {(m.label, "" if m.Q is None else str(m.Q), (m.learner, m.settings_json)) for m in suite.methods_on(stream)}
    chosen: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        key = row["method"], row["Q"]
        if (*key, chosen.get(key)) not in now:
            chosen[key] = row["learner"], row["settings"]
    return [row for row in rows if (row["learner"], row["settings"]) == chosen[row["method"], row["Q"]]]


def _told_apart(suite: Suite, rows: Rows) -> Rows:
    """Learners of one's own (`module:Class`) that share their name with others are called after their module too."""
    learners = defaultdict(set)
    for method, learner in [
        *((m.label, m.learner) for m in suite.methods),
        *((r["method"], r["learner"]) for r in rows),
    ]:
        learners[method].add(learner)
    return [
        {**row, "method": f"{row['method']} of {row['learner']}"}
        if ":" in row["learner"] and len(learners[row["method"]]) > 1
        else row
        for row in rows
    ]


def failures(suite: Suite, rows: Rows) -> list[str]:
    """A line for each run that failed: which, and why."""
    told = []
    for row in (row for row in rows if row["error"]):
        Q = f", Q {row['Q']}" if row["Q"] else ""
        reason = row["error"].split(" | ")[-1]
        told.append(f"{row['method']}{Q} on {stream_title(suite, row)}, seed {row['seed']}: {reason}")
    return told


def stream_title(suite: Suite, row: dict[str, str]) -> str:
    """What the suite calls the row's stream; its name and options, where that is none of the suite's."""
    options = _cut(json.loads(row["options"]))
    for stream in suite.streams:
        if (stream.name, _cut(stream.options)) == (row["stream"], options):
            return stream.title
    return ", ".join([row["stream"], *(f"{name} {value}" for name, value in options.items())])


def _cut(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that say on what it is tested, and when."""
    return {name: value for name, value in options.items() if name not in ("test_share", "anytime")}


def _cell(rows: Rows, metric: str, paper: float | None) -> Cell:
    values = [value for row in rows if (value := measured(row, metric)) is not None]
    mean = statistics.fmean(values) if values else None
    return Cell(mean, interval(values), len(values), paper)


def as_text(value: float | None, metric: str, signed: bool = False) -> str:
    """A number as tables show it: bytes whole, accuracies to a tenth, nothing for None.

    >>> as_text(1280000.0, "bytes"), as_text(47.66, "Last"), as_text(-0.52, "Last", signed=True), as_text(None, "Avg")
    ('1,280,000', '47.7', '-0.5', '')
    >>> as_text(-0.02, "Last")
    '0.0'
    """
    if value is None:
        return ""
    sign = "+" if signed else ""
    digits = find_metric(metric).digits
    return f"{round(value, digits) + 0.0:{sign},.{digits}f}"  # + 0.0: no minus before zero


def cell_text(cell: Cell, metric: str) -> str:
    mean = as_text(cell.mean, metric)
    half = "" if find_metric(metric).digits == 0 and not cell.half else as_text(cell.half, metric)
    return f"{mean} ± {half}" if half else mean


def header(block: Block) -> list[str]:
    columns = ["method", "Q"]
    for metric in block.metrics:
        columns += [metric, "paper", "difference"] if block.with_paper(metric) else [metric]
    return [*columns, "seeds", *(["best"] if block.chooses else [])]


def body(block: Block) -> list[list[str]]:
    made = []
    for line in block.lines:
        texts = [line.method, line.Q]
        for metric in block.metrics:
            cell = line.cells[metric]
            texts.append(cell_text(cell, metric))
            if block.with_paper(metric):
                texts += [as_text(cell.paper, metric), as_text(cell.difference, metric, signed=True)]
        texts.append(str(line.seeds) if line.seeds else "")
        made.append([*texts, "best" if line.best else ""] if block.chooses else texts)
    return made


def groups(block: Block) -> dict[str, list[int]]:
    """Which lines have the same Q, "" for those without one."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(block.lines):
        found[line.Q].append(number)
    return dict(sorted(found.items(), key=lambda group: int(group[0] or 0)))


def best_places(block: Block) -> set[tuple[int, int]]:
    """Line and column of what is best among lines of the same Q, as `body` has them: ours, and the paper's figures.

    Upper bounds do not compete, and what looks the same is best together. In a table that chooses, the chosen are.
    """
    columns = header(block)
    if block.chooses:
        return {
            (n, c)
            for n, line in enumerate(block.lines)
            if line.best
            for c, name in enumerate(columns)
            if name == "Last"
        }
    found = set()
    for metric in (metric for metric in block.metrics if metric in BETTER):
        column = columns.index(metric)
        for place, which in ((column, "mean"), (column + 1, "paper"))[: 1 + block.with_paper(metric)]:
            for numbers in groups(block).values():
                cells = {n: block.lines[n].cells[metric] for n in numbers if not block.lines[n].is_bound}
                values = {n: value for n, cell in cells.items() if (value := getattr(cell, which)) is not None}
                if len(set(values.values())) > 1:
                    best = as_text(BETTER[metric](values.values()), metric)
                    found |= {(n, place) for n, value in values.items() if as_text(value, metric) == best}
    return found


def note(suite: Suite) -> str:
    """What the figures are."""
    told = []
    if suite.metrics != ("bytes",):
        told.append("Accuracies in per cent, mean ± half the 95 % interval over seeds (Student's t).")
    if suite.held_out and not suite.chooses:  # which say so themselves
        told.append("Tested on a fifth of the training part, to choose settings.")
    elif suite.name in SOURCES:
        told.append(f"The paper's figures: {SOURCES[suite.name]}.")
    return " ".join([*told, *([suite.remark] if suite.remark else [])])


def markdown(suite: Suite, rows: Rows) -> str:
    parts = [f"## {suite.title}", note(suite)]
    for block in blocks(suite, rows):
        columns = header(block)
        ruler = ["---", *["---:"] * (len(columns) - 1)]
        lines = [columns, ruler, *body(block)]
        parts += [f"### {block.stream}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts) + "\n"


def latex(suite: Suite, rows: Rows) -> str:
    """Tables for a paper, with the rules of booktabs."""
    parts = []
    for block in blocks(suite, rows):
        columns = header(block)
        lines = [" & ".join(map(_tex, line)) + r" \\" for line in body(block)]
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"\centering",
                    rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
                    r"\toprule",
                    " & ".join(map(_tex, columns)) + r" \\",
                    r"\midrule",
                    *lines,
                    r"\bottomrule",
                    r"\end{tabular}",
                    rf"\caption{{{_tex(suite.title)}: {_tex(block.stream)}. {_tex(note(suite))}}}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts) + "\n"


def _tex(text: str) -> str:
    if re.match(r"-[\d.]", text):  # a minus sign, not a hyphen
        return "$-$" + _tex(text[1:])
    return text.translate(TEX)


def comma_separated(suite: Suite, rows: Rows) -> str:
    """One line a cell, numbers in full: for programs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_FIELDS)
    for block in blocks(suite, rows):
        for line in block.lines:
            for metric, cell in line.cells.items():
                numbers = [cell.mean, cell.half, cell.seeds, cell.paper, cell.difference]
                texts = ["" if n is None else n if isinstance(n, int) else f"{n:.6g}" for n in numbers]
                if find_metric(metric).digits == 0 and cell.mean is not None:
                    texts[0] = f"{cell.mean:.0f}"
                writer.writerow([suite.name, block.stream, line.method, line.Q, metric, *texts])
    return text.getvalue()


FORMATS = {"md": markdown, "tex": latex, "csv": comma_separated}
