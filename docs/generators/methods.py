"""A page for each learner: its docstring taken apart, its place among the others, and its figures from `results/`."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

from generators.docstrings import parts
from generators.measured import Measured
from votestream.learners import LEARNERS, Learner

FAMILIES = ("ours", "statistics", "exemplars", "network", "offline")  # folders of votestream.learners
TITLES = {
    "ours": "Voting",
    "statistics": "Statistics of features",
    "exemplars": "Stored features",
    "network": "A network trained in one pass",
    "offline": "A network trained in many passes",
}


def learners() -> dict[str, type[Learner]]:
    """Those of this package that are methods, by name, family after family."""
    found = {name: cls for name, cls in LEARNERS.items() if cls.__module__.startswith("votestream.learners.")}
    return dict(sorted(found.items(), key=lambda item: (FAMILIES.index(family(item[1])), item[0])))


def family(cls: type[Learner]) -> str:
    return cls.__module__.split(".")[2]


def underlined(title: str, sign: str = "=") -> list[str]:
    return [title, sign * len(title), ""]


def write(folder: Path, measured: Measured) -> None:
    folder.mkdir(parents=True)
    for name, cls in learners().items():
        picture = f"{name}.svg" if measured.draw(name, folder / f"{name}.svg") else ""
        (folder / f"{name}.rst").write_text(page(name, cls, measured, picture), encoding="utf-8")
    (folder / "index.rst").write_text(index(), encoding="utf-8")


def page(name: str, cls: type[Learner], measured: Measured, picture: str) -> str:
    told = parts(cls.__doc__ or "")
    images = "backbone" in inspect.signature(cls).parameters
    lines = [
        *underlined(cls.__name__),
        f"``vs.create({name!r})`` learns from {'images' if images else 'features'}.",
        "",
        *told.idea,
    ]
    if told.take:
        lines += [*underlined("When to take it", "-"), told.take, "", "See also :doc:`/choosing`.", ""]
    lines += [*underlined("Example", "-"), *told.example]
    tables = measured.tables(cls.name)
    if picture or tables:
        lines += underlined("Measured", "-")
    if picture:
        lines += [
            f".. figure:: {picture}",
            f"   :alt: {measured.caption(name)}",
            "",
            f"   {measured.caption(name)}",
            "",
        ]
    lines += tables
    if told.reference:
        lines += [*underlined("Reference", "-"), told.reference, ""]
    lines += [
        *underlined("Parameters and methods", "-"),
        f".. autoclass:: votestream.{cls.__name__}",
        "   :members:",
        "   :show-inheritance:",
        "",
        "What every learner has besides: :class:`votestream.Learner`.",
    ]
    return "\n".join(lines) + "\n"


def index() -> str:
    lines = [
        *underlined("The methods"),
        "One page for each learner. All keep the same :doc:`contract </contract>`, so to change one for another is to",
        "change a name. :doc:`/choosing` says which to take for which need.",
        "",
    ]
    for each in FAMILIES:
        own = {name: cls for name, cls in learners().items() if family(cls) == each}
        lines += [*underlined(TITLES[each], "-"), import_module(f"votestream.learners.{each}").__doc__ or "", ""]
        lines += [".. list-table::", "   :widths: 32 68", ""]
        for name, cls in own.items():
            lines += [
                f"   * - :doc:`{cls.__name__} <{name}>`",
                f"     - {' '.join(parts(cls.__doc__ or '').idea[0:1])}",
            ]
        lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in own), ""]
    return "\n".join(lines) + "\n"
