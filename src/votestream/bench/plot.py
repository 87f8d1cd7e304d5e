"""A suite's figure as a plot, with matplotlib."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from votestream.bench.figures import Matrix, Panel, names
from votestream.bench.kinds import Style, find_kind
from votestream.bench.runs import Suite
from votestream.bench.tables import Rows
from votestream.common.printing import size

MARKERS = "os^Dv<>Pp*hX"


def plot_suite(suite: Suite, rows: Rows, path: Path) -> None:
    """Draw it into a file, of the kind that its name ends in."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not suite.plot:
        raise ValueError(f"{suite.name} has no figure: see `votestream bench show {suite.name}`.")
    kind = find_kind(suite.plot)
    panels, style = kind.panels(suite, rows), kind.style
    if not panels:
        raise ValueError(
            f"The rows of {suite.name} have nothing to draw: runs failed, or their learners lack what the figure shows."
        )
    across = min(len(panels), 2 if style.apart else 4)
    down = math.ceil(len(panels) / across)
    width = max(4.5 * across, 7.0)  # inches; a single panel has a legend beside which it must not look small
    figure = Figure(figsize=(width, 4.2 * down), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    order = looks(names(suite, panels))
    for number, panel in enumerate(panels):
        each = axes[number]
        each.set_title(panel.title, fontsize=9)
        if isinstance(panel, Matrix):
            _draw_matrix(each, panel)
        elif style.apart:
            _draw_panel(each, panel, style, looks(names(suite, [panel])))
            each.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
        else:
            _draw_panel(each, panel, style, order)
    for each in axes[len(panels) :]:
        each.set_visible(False)
    if order and not style.apart:
        drawn = {h.get_label(): h for each in axes for h in each.get_legend_handles_labels()[0]}
        handles = [drawn[label] for label in order]
        widest = 0.5 + 0.075 * max(map(len, order))  # inches
        columns = max(1, min(5, int(width / widest)))
        figure.legend(handles, list(order), loc="outside lower center", ncols=columns, fontsize=8)
    figure.savefig(path, dpi=130)


def looks(labels: list[str]) -> dict[str, dict[str, Any]]:
    """Marker, colour and line for each, so that no two look the same."""
    return {
        label: {
            "marker": MARKERS[number % len(MARKERS)],
            "color": f"C{number % 10}",
            "linestyle": ("-", "--", ":")[number // 10 % 3],
        }
        for number, label in enumerate(labels)
    }


def _draw_panel(axes: Any, panel: Panel, style: Style, order: dict[str, dict[str, Any]]) -> None:
    for series in panel.series:
        how = order[series.label]
        if series.trend is not None:
            axes.plot(series.x, series.y, ".", markersize=3, alpha=0.4, color=how["color"])
            line = "--" if series.dashed else "-"
            axes.plot(series.x, series.trend, line, linewidth=1.5, label=series.label, color=how["color"])
        elif style.dense:
            axes.plot(series.x, series.y, linewidth=1.0, label=series.label, **{**how, "marker": None})
        else:
            half = [each or 0 for each in series.half]
            bars = {"elinewidth": 0.8, "linewidth": 1.2, "markersize": 4}
            axes.errorbar(series.x, series.y, half, label=series.label, **bars, **how)
    if style.whole:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
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


def _draw_matrix(axes: Any, matrix: Matrix) -> None:
    shares = [[count / max(sum(row), 1) for count in row] for row in matrix.counts]
    axes.imshow(shares, cmap="viridis", vmin=0, vmax=1)
    axes.set_xlabel("answered, in order of learning")
    axes.set_ylabel("true class")
