"""One page with every table and plot, which needs nothing but itself."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict
from importlib import resources
from typing import Any

from votestream._version import __version__
from votestream.bench.appearance import BESIDE, COMPARED, OURS, appearances
from votestream.bench.figures import TABLES, against_paper, in_full, joined, names
from votestream.bench.kinds import find_kind
from votestream.bench.runs import Suite
from votestream.bench.tables import Block, Rows, best_places, blocks, body, failures, groups, header, note

AGAINST = (
    '<section id="against-the-paper"><h2>Where we stand against the paper</h2>'
    '<p class="note">A tick is the paper\'s figure, a mark is ours: the mean over seeds with its 95 % interval, hollow '
    "where there is one seed; triangles are read to the letter, squares make a fifth of the passes. Methods on grey "
    "are not in the paper. The backbones differ: docs/reproduction.md says what cannot be the same.</p>"
    '<div class="plot" data-suite="against-the-paper"></div></section>'
)


def page(found: list[tuple[Suite, Rows]]) -> str:
    """The page as HTML. Tables are there without scripts; scripts draw the plots from numbers in the page."""
    template = (resources.files("votestream.bench") / "report.html").read_text(encoding="utf-8")
    compared = joined(table for suite, rows in found if suite.name in TABLES for table in against_paper(suite, rows))
    sections = [*([AGAINST] if compared else []), *(_section(suite, rows) for suite, rows in found)]
    linked = [*(["against-the-paper"] if compared else []), *(suite.name for suite, _ in found)]
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in linked)
    data = {suite.name: _plots(suite, rows) for suite, rows in found if suite.plot}
    if compared:
        data["against-the-paper"] = {"panels": [asdict(table) for table in compared], "style": {}, "appearances": {}}
    about = f"VoteStream {__version__}, {sum(len(rows) for _, rows in found):,} runs"
    declared = _safe({"OURS": OURS, "COMPARED": COMPARED, "BESIDE": BESIDE})
    text = {"LINKS": links, "SECTIONS": "\n".join(sections), "ABOUT": about, "DATA": _safe(data), "DECLARED": declared}
    return re.sub(r"{{([A-Z]+)}}", lambda mark: text[mark[1]], template)  # at once: what is put in stays as it is


def _section(suite: Suite, rows: Rows) -> str:
    failed = failures(suite, rows)
    parts = [
        f'<section id="{suite.name}"><h2>{html.escape(suite.title)}</h2>',
        f'<div class="plot" data-suite="{suite.name}"></div>' if suite.plot else "",
        *(_table(block) for block in blocks(suite, rows)),
        f'<p class="note">{html.escape(note(suite))}</p>',
    ]
    if failed:
        named = "".join(f"<li>{html.escape(each)}</li>" for each in failed)
        parts.append(f"<p>Failed:</p><ul>{named}</ul>")
    commands = dict.fromkeys(row["command"] for row in rows)
    hardware = dict.fromkeys(row["hardware"] for row in rows if row["hardware"])
    made = "\n".join([*(f"$ {each}" for each in commands), *(f"# {each}" for each in hardware)])
    parts.append(f"<details><summary>Made by</summary><pre>{html.escape(made)}</pre></details></section>")
    return "\n".join(parts)


def _table(block: Block) -> str:
    columns, lines, best = header(block), body(block), best_places(block)
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    by_Q, parts = groups(block), []
    for Q, numbers in by_Q.items():
        told = f"Q = {int(Q):,}" if Q else "no budget"
        named = f'<tr class="group"><th colspan="{len(columns)}">{told}</th></tr>' if len(by_Q) > 1 else ""
        made = "".join(f"<tr>{_cells(lines[n], {c for line, c in best if line == n})}</tr>" for n in numbers)
        parts.append(f"<tbody>{named}{made}</tbody>")
    caption = f"<caption>{html.escape(in_full(block.stream))}</caption>"
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>{"".join(parts)}</table></div>'


def _cells(texts: list[str], best: set[int]) -> str:
    escaped = [html.escape(text) for text in texts]
    return "".join(f"<td>{f'<b>{text}</b>' if n in best else text}</td>" for n, text in enumerate(escaped))


def _plots(suite: Suite, rows: Rows) -> dict[str, Any]:
    kind = find_kind(suite.plot)
    panels = kind.panels(suite, rows)
    return {
        "style": asdict(kind.style),
        "panels": [asdict(panel) for panel in panels],
        "appearances": {label: asdict(look) for label, look in appearances(names(suite, panels)).items()},
    }


def _safe(data: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
