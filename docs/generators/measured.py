"""Rows of `results/` for the pages: a learner's lines of the tables, its place among the others, the suites' plots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from votestream.bench.plot import plot_suite, plot_suites
from votestream.bench.results import Results
from votestream.bench.runs import Suite
from votestream.bench.suites import all_suites, find_suite
from votestream.bench.tables import Block, Line, Rows, blocks, body, header, note
from votestream.common.printing import size

# Where a learner's figures are looked for: of the last, which repeats much of the first, only for want of others.
SHOWN, ELSE = ("online", "offline"), "bytes"
PLACES = (("online", "split-cifar100"), ("bytes", "split-cifar100"), ("offline", "CIFAR-100, steps of 10"))
OURS = "gaussian_voting"
PAPERS_TABLES = ("online", "ablation", "augmentation", "offline")


class Measured:
    """What was measured; each file is read once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._read: dict[str, Rows] = {}

    def rows(self, suite: str) -> Rows:
        if suite not in self._read:
            self._read[suite] = Results(self.results / f"{suite}.csv").rows()
        return self._read[suite]

    def tables(self, learner: str) -> list[str]:
        """Its lines of the bench's tables, as reStructuredText."""
        made = [line for name in SHOWN for line in self._table(name, learner)]
        return made or self._table(ELSE, learner)

    def _table(self, name: str, learner: str) -> list[str]:
        suite, own = find_suite(name), self._of(name, learner)
        found = []
        for block in blocks(suite, self.rows(name)):
            lines = [line for line in block.lines if (line.method, line.Q) in own and line.seeds]
            if lines:
                found.append(replace(block, lines=lines))
        if not found:
            return []
        told = f"The suite ``{name}``; ``votestream bench table {name}`` prints :doc:`all methods </tables/{name}>`."
        return [told, note(suite), "", *(line for block in found for line in _list_table(block))]

    def _of(self, name: str, learner: str) -> set[tuple[str, str]]:
        return {(row["method"], row["Q"]) for row in self.rows(name) if row["learner"] == learner}

    def _place(self, learner: str) -> tuple[str, str] | None:
        """The suite and stream that show it among others, by accuracy and bytes."""
        for name, stream in PLACES:
            own = self._of(name, learner)
            points = self._points(name, stream)
            if any((line.method, line.Q) in own for line in points):
                return name, stream
        return None

    def _points(self, name: str, stream: str) -> list[Line]:
        suite = replace(find_suite(name), metrics=("bytes", "Last"))
        titles = (stream, f"{stream}, {suite.backbone}")  # where rows of another backbone are there too
        found = [block for block in blocks(suite, self.rows(name)) if block.stream in titles]
        lines = [line for block in found for line in block.lines]
        return [line for line in lines if line.cells["bytes"].mean and line.cells["Last"].mean is not None]

    def caption(self, learner: str) -> str:
        place = self._place(learner)
        return f"Accuracy after the last task against bytes kept, the suite {place[0]} on {place[1]}." if place else ""

    def draw(self, learner: str, path: Path) -> bool:
        """Its place among the others, by accuracy and bytes; False where nothing was measured."""
        place = self._place(learner)
        if place is None:
            return False
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        lines = self._points(*place)
        own, ours = self._of(place[0], learner), self._of(place[0], OURS)
        groups = (
            ("other methods", "0.75", "o", [li for li in lines if (li.method, li.Q) not in own | ours]),
            ("GaussianVoting", "C0", "s", [li for li in lines if (li.method, li.Q) in ours - own]),
            (learner, "C3", "D", [li for li in lines if (li.method, li.Q) in own]),
        )
        for label, colour, marker, points in groups:
            if points:
                x = [line.cells["bytes"].mean or 0 for line in points]
                y = [line.cells["Last"].mean or 0 for line in points]
                axes.scatter(x, y, s=28, color=colour, marker=marker, label=label, zorder=3)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda count, _: size(round(count)))
        axes.set_xlabel("bytes kept between calls")
        axes.set_ylabel("accuracy after the last task (%)")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
        figure.savefig(path, metadata={"Date": None})
        return True

    def write_figures(self, folder: Path) -> None:
        """A page with the plot of every suite that has one, and all of them beside the paper."""
        folder.mkdir(parents=True)
        tables = sorted(path.stem for path in (folder.parent / "tables").glob("*.md"))
        lines = ["# Figures and tables", "", "Made from the rows in `results/` when this site was built.", ""]
        lines += self._against_paper(folder)
        for suite in all_suites():
            rows = self.rows(suite.name)
            if suite.plot and rows:
                lines += self._figure(suite, rows, folder, suite.name in tables)
        lines += ["```{toctree}", ":hidden:", "", *(f"../tables/{name}" for name in tables), "```"]
        (folder / "index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _against_paper(self, folder: Path) -> list[str]:
        found = [(replace(find_suite(name), plot="paper"), self.rows(name)) for name in PAPERS_TABLES]
        plot_suites(found, folder / "against_the_paper.png")
        command = f"votestream bench plot {' '.join(PAPERS_TABLES)} --kind paper"
        return [
            *(
                "## Against the paper",
                "",
                "The paper's figures and ours, side by side.",
                "",
                f"Command: `{command}`.",
                "",
            ),
            *_image("against_the_paper", "The paper's figures and ours, method by method"),
        ]

    def _figure(self, suite: Suite, rows: Rows, folder: Path, with_table: bool) -> list[str]:
        plot_suite(suite, rows, folder / f"{suite.name}.png")
        table = f"[table](../tables/{suite.name}.md), " if with_table else ""
        return [
            *(f"## {suite.title}", "", note(suite), ""),
            f"See also: {table}[rows](../../results/accuracy/{suite.name}.csv). "
            f"Command: `votestream bench plot {suite.name}`.",
            *("", *_image(suite.name, suite.title)),
        ]


def _image(name: str, alt: str) -> list[str]:
    """An image that links to itself in full size."""
    return [f"```{{image}} {name}.png", f":alt: {alt}", ":width: 100%", "```", ""]


def _list_table(block: Block) -> list[str]:
    lines = [f".. list-table:: {block.stream}", "   :header-rows: 1", "   :class: measured", ""]
    for texts in (header(block), *body(block)):
        lines += [f"   {'* -' if place == 0 else '  -'} {text}".rstrip() for place, text in enumerate(texts)]
    return [*lines, ""]
