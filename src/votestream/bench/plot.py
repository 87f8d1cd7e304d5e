"""Suites' figures as plots, with matplotlib."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from votestream.bench.appearance import BESIDE, COMPARED, OURS, Appearance, appearances
from votestream.bench.figures import Beside, Comparison, Matrix, Panel, joined, names
from votestream.bench.kinds import Style, find_kind
from votestream.bench.runs import Suite
from votestream.bench.tables import Rows
from votestream.common.printing import size

MARKERS = {
    "circle": "o",
    "square": "s",
    "up": "^",
    "diamond": "D",
    "down": "v",
    "plus": "P",
    "cross": "X",
    "star": "*",
}
LINES = {"solid": "-", "dashed": "--", "dotted": ":", "dashdot": "-."}
LINE_HEIGHT, HEAD_HEIGHT, LEGEND_HEIGHT = 0.15, 0.62, 0.6  # inches; the head is what stands above and below the lines


def plot_suite(suite: Suite, rows: Rows, path: Path) -> None:
    """Draw it into a file, of the kind that its name ends in."""
    plot_suites([(suite, rows)], path)


def plot_suites(found: list[tuple[Suite, Rows]], path: Path) -> None:
    """Draw suites with one kind of plot into one file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    for suite, _ in found:
        if not suite.plot:
            raise ValueError(f"{suite.name} has no figure: see `votestream bench show {suite.name}`.")
    if len({suite.plot for suite, _ in found}) > 1:
        told = ", ".join(f"{suite.name} as {suite.plot}" for suite, _ in found)
        raise ValueError(f"One figure has one kind of plot; these are drawn as several: {told}. --kind names one.")
    kind = find_kind(found[0][0].plot)
    panels = [panel for suite, rows in found for panel in kind.panels(suite, rows)]
    if not panels:
        called = " and ".join(suite.name for suite, _ in found)
        raise ValueError(
            f"The rows of {called} have nothing to draw: runs failed, or their learners lack what the figure shows."
        )
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    tables = joined(panels)
    if tables:
        _draw_tables(figure, tables)
    else:
        order = list(dict.fromkeys(label for suite, _ in found for label in names(suite, panels)))
        _draw_panels(figure, [panel for panel in panels if not isinstance(panel, Comparison)], kind.style, order)
    figure.savefig(path, dpi=160 if tables else 130)


def _draw_panels(figure: Any, panels: list[Panel | Matrix], style: Style, order: list[str]) -> None:
    matrices = any(isinstance(panel, Matrix) for panel in panels)
    across = min(len(panels), 2 if style.apart else 3 if matrices else 4)
    down = math.ceil(len(panels) / across)
    width = max(4.5 * across, 7.0)  # inches; a single panel has a legend beside which it must not look small
    figure.set_size_inches(width, (4.8 if matrices else 4.2) * down)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    drawn_as = appearances(order)
    for each, panel in zip(axes, panels, strict=False):
        each.set_title(panel.title, fontsize=9)
        if isinstance(panel, Matrix):
            image = _draw_matrix(each, panel)
        else:
            _draw_panel(each, panel, style, drawn_as)
            if style.apart:
                each.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    for each in axes[len(panels) :]:
        each.set_visible(False)
    if matrices:
        bar = figure.colorbar(image, ax=list(axes), shrink=0.7, aspect=40)
        bar.set_label("share of the true class's test samples")
    elif not style.apart:
        drawn = {h.get_label(): h for each in axes for h in each.get_legend_handles_labels()[0]}
        widest = 0.6 + 0.075 * max(map(len, order))  # inches
        columns = max(1, min(5, int(width / widest)))
        handles = [drawn[label] for label in order]
        figure.legend(handles, order, loc="outside lower center", ncols=columns, fontsize=8, handlelength=3.5)


def _draw_panel(axes: Any, panel: Panel, style: Style, drawn_as: dict[str, Appearance]) -> None:
    for series in panel.series:
        look = drawn_as[series.label]
        line = {"color": look.colour, "linestyle": LINES[look.dashes], "label": series.label}
        shape = {
            "marker": MARKERS[look.shape],
            "markersize": 6 if look.shape == "star" else 4,
            "markerfacecolor": "white" if look.hollow else look.colour,
        }
        if series.trend is not None:
            axes.plot(series.x, series.y, ".", markersize=3, alpha=0.4, color=look.colour)
            axes.plot(series.x, series.trend, linewidth=1.5, **line)
        elif style.dense:
            axes.plot(series.x, series.y, linewidth=1.0, markevery=10, **line, **shape)
        else:
            x = [place + series.shift for place in series.x]
            _, _, bars = axes.errorbar(
                x,
                series.y,
                [each or 0 for each in series.half],
                elinewidth=0.7,
                linewidth=1.1,
                **line,
                **shape,
            )
            for bar in bars:
                bar.set_alpha(0.5)
    if style.whole:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        places = [place for series in panel.series for place in series.x]
        axes.set_xlim(min(places) - 0.5, max(places) + 0.5)
    if style.log:
        axes.set_xscale("log")
    if style.unit == "bytes":
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda count, _: size(round(count)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", labelsize=7)
    if style.percent:  # the interval of two seeds may reach far out of what an accuracy can be
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0), min(high, 100))
    axes.set_xlabel(style.x)
    axes.set_ylabel(style.y)
    axes.grid(alpha=0.3)


def _draw_matrix(axes: Any, matrix: Matrix) -> Any:
    from matplotlib.colors import PowerNorm

    shares = [[count / max(sum(row), 1) for count in row] for row in matrix.counts]
    axes.set_xlabel("predicted class, in order of learning")
    axes.set_ylabel("true class, in order of learning")
    return axes.imshow(shares, cmap="viridis", norm=PowerNorm(0.5, 0, 1))  # so that few of a hundred are seen too


def _draw_tables(figure: Any, tables: list[Comparison]) -> None:
    """A row of plots for each table of the paper, a plot for each of its columns."""
    heights = [LINE_HEIGHT * (len(table.papers) + len(table.others) + 1) + HEAD_HEIGHT for table in tables]
    figure.set_size_inches(10, sum(heights) + LEGEND_HEIGHT)
    legend, *parts = figure.subfigures(len(tables) + 1, 1, height_ratios=[LEGEND_HEIGHT, *heights])
    for part, table in zip(parts, tables, strict=True):
        part.suptitle(table.title, fontsize=10, x=0.01, ha="left", weight="bold")
        axes = part.subplots(1, len(table.columns), sharex=True, sharey=True, squeeze=False).ravel()
        for each, column in zip(axes, table.columns, strict=True):
            _draw_column(each, table, column)
        low, high = axes[0].get_xlim()  # the interval of two seeds may reach far out of what an accuracy can be
        axes[0].set_xlim(max(low, -2), min(high, 102))
    _explain(legend)


def _draw_column(axes: Any, table: Comparison, column: str) -> None:
    """A line for each method: a tick where the paper's figure lies, and marks for ours."""
    places = {method: -place for place, method in enumerate(table.papers)}
    places |= {method: -(len(places) + 1 + place) for place, method in enumerate(table.others)}  # a line is left free
    axes.set_yticks(list(places.values()), list(places), fontsize=8)
    for label in axes.get_yticklabels():
        label.set_weight("bold" if label.get_text().startswith(OURS) else "normal")
    axes.set_ylim(min(places.values()) - 0.8, 0.8)
    if table.others:
        axes.axhspan(min(places.values()) - 0.8, -len(table.papers), color="0.94", zorder=0)
    for method, place in places.items():
        if column in table.cells[method]:
            colour = COMPARED["papers" if method in table.papers else "others"]
            _draw_beside(axes, table.cells[method][column], place, colour)
    axes.set_title(column, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_beside(axes: Any, beside: Beside, place: float, colour: str) -> None:
    if beside.paper is not None:
        axes.plot([beside.paper], [place], "|", color="black", markersize=9, markeredgewidth=2.2, zorder=4)
    for number, mark in enumerate(beside.marks):
        y = place - 0.4 * (number - (len(beside.marks) - 1) / 2)
        if beside.paper is not None:
            axes.plot([beside.paper, mark.mean], [y, y], "-", color="0.6", linewidth=0.7)
        axes.errorbar(mark.mean, y, xerr=mark.half, **_drawn_as(mark.variant, mark.seeds, colour))


def _drawn_as(variant: str, seeds: int, colour: str) -> dict[str, Any]:
    return {
        "marker": MARKERS[BESIDE[variant]],
        "color": colour,
        "markerfacecolor": "white" if seeds == 1 else colour,
        "markersize": 4.5,
        "linestyle": "none",
        "elinewidth": 1.6,
    }


def _explain(part: Any) -> None:
    """What ticks and marks are."""
    from matplotlib.lines import Line2D

    def shown(label: str, variant: str = "", seeds: int = 3, colour: str = COMPARED["papers"]) -> Any:
        how = {name: value for name, value in _drawn_as(variant, seeds, colour).items() if name != "elinewidth"}
        return Line2D([], [], label=label, **how)

    tick: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 2.2, "linestyle": "none"}
    handles = [
        Line2D([], [], label="the paper's figure", color="black", **tick),
        shown("ours: mean and 95 % interval over seeds"),
        shown("one seed", seeds=1),
        shown("to the letter", "to the letter"),
        shown("short: a fifth of the passes", "short"),
        shown("not in the paper", colour=COMPARED["others"]),
    ]
    part.legend(handles=handles, loc="center", ncols=3, fontsize=9, frameon=False)
