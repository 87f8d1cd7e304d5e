"""A suite's figure as a picture, with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from votestream.bench.figures import Matrix, Panel, against_bytes, curves, matrices
from votestream.bench.runs import Suite
from votestream.bench.tables import Rows
from votestream.cache_cli import size

MARKERS = "os^Dv<>Pp*hX"
PANELS: dict[str, Callable[[Suite, Rows], Any]] = {"curves": curves, "bytes": against_bytes, "confusion": matrices}


def plot_suite(suite: Suite, rows: Rows, path: Path) -> None:
    """Draw it into a file, of the kind that its name ends in."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels: Sequence[Panel | Matrix] = PANELS[suite.plot](suite, rows)
    if not panels:
        raise ValueError(f"The rows of {suite.name} have nothing to draw: all runs failed.")
    across = min(len(panels), 4)
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(4.5 * across, 4.2 * down), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for number, panel in enumerate(panels):
        each = axes[number]
        each.set_title(panel.title, fontsize=9)
        if isinstance(panel, Matrix):
            _draw_matrix(each, panel)
        else:
            _draw_panel(each, panel, suite.plot == "bytes")
    for each in axes[len(panels) :]:
        each.set_visible(False)
    if suite.plot != "confusion":
        handles = {h.get_label(): h for each in axes for h in each.get_legend_handles_labels()[0]}
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, across * 2), fontsize=8
        )
    figure.savefig(path, dpi=130)


def _draw_panel(axes: Any, panel: Panel, by_bytes: bool) -> None:
    for number, series in enumerate(panel.series):
        how = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4, "linewidth": 1.2, "color": f"C{number % 10}"}
        half = [each or 0 for each in series.half]
        axes.errorbar(series.x, series.y, half, elinewidth=0.8, label=series.label, **how)
    if by_bytes:
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda count, _: size(round(count)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("bytes kept" if by_bytes else "tasks learned")
    axes.set_ylabel("accuracy after the last task (%)" if by_bytes else "accuracy on all classes so far (%)")
    axes.grid(alpha=0.3)


def _draw_matrix(axes: Any, matrix: Matrix) -> None:
    shares = [[count / max(sum(row), 1) for count in row] for row in matrix.counts]
    axes.imshow(shares, cmap="viridis", vmin=0, vmax=1)
    axes.set_xlabel("answered, in order of learning")
    axes.set_ylabel("true class")
