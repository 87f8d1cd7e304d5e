"""The kinds of plots, declared once: which numbers they show, and how the plot and the page draw these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from votestream.bench import figures
from votestream.bench.figures import Comparison, Matrix, Panel
from votestream.bench.runs import Suite
from votestream.bench.tables import Rows
from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean


@dataclass(frozen=True)
class Style:
    """How panels are drawn; matrices of confusion and comparisons have no style of their own.

    `x` and `y` name the axes, `point` says in words where a point lies, {x} being its place.
    """

    x: str = ""
    y: str = ""
    point: str = ""
    log: bool = False  # x is a logarithm
    unit: str = ""  # "bytes": x is written in kB and MB
    whole: bool = False  # x has whole numbers only
    percent: bool = True  # y is an accuracy, from 0 to 100
    apart: bool = False  # panels have little in common: each has a legend of its own
    dense: bool = False  # too many points to mark each and its interval


@dataclass(frozen=True)
class Kind:
    """What a kind of plot shows of a suite's rows, and how."""

    panels: Callable[[Suite, Rows], Sequence[Panel | Matrix | Comparison]]
    style: Style = Style()


SO_FAR, LAST = "accuracy on all classes so far (%)", "accuracy after the last task (%)"
KINDS = {
    "curves": Kind(figures.curves, Style("tasks learned", SO_FAR, "after task {x}", whole=True)),
    "anytime": Kind(figures.anytime, Style("samples learned", SO_FAR, "after {x} samples", dense=True)),
    "bytes": Kind(figures.against_bytes, Style("bytes kept", LAST, "with {x}", log=True, unit="bytes")),
    "rates": Kind(figures.against_rates, Style("learning rate", LAST, "at {x}", log=True)),
    "confusion": Kind(figures.matrices),
    "paper": Kind(figures.against_paper),
    "norms": Kind(
        figures.norms,
        Style(
            "class, in order of learning",
            "norm of its weights over their mean",
            "for class {x}",
            percent=False,
            apart=True,
        ),
    ),
}


def find_kind(name: str) -> Kind:
    """The kind of that name.

    >>> find_kind("curve")
    Traceback (most recent call last):
    ...
    ValueError: There is no kind of plot 'curve'. Did you mean 'curves'?
    """
    if name not in KINDS:
        raise ValueError(f"There is no kind of plot {shown(name)}. {did_you_mean(name, KINDS)}")
    return KINDS[name]
