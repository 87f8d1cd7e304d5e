"""One page with every table and plot, which needs nothing but itself."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from importlib import resources
from typing import Any

from votestream._version import __version__
from votestream.bench.figures import names
from votestream.bench.kinds import find_kind
from votestream.bench.runs import Suite
from votestream.bench.tables import Block, Rows, blocks, body, failures, header, note


def page(found: list[tuple[Suite, Rows]]) -> str:
    """The page as HTML. Tables are there without scripts; scripts draw the plots from numbers in the page."""
    template = (resources.files("votestream.bench") / "report.html").read_text(encoding="utf-8")
    links = " ".join(f'<a href="#{suite.name}">{suite.name}</a>' for suite, _ in found)
    sections = "\n".join(_section(suite, rows) for suite, rows in found)
    data = {suite.name: _plots(suite, rows) for suite, rows in found if suite.plot}
    about = f"VoteStream {__version__}, {sum(len(rows) for _, rows in found):,} runs"
    for mark, text in (("LINKS", links), ("SECTIONS", sections), ("ABOUT", about), ("DATA", _safe(data))):
        template = template.replace(f"{{{{{mark}}}}}", text)
    return template


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
    head = "".join(f"<th>{html.escape(column)}</th>" for column in header(block))
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in line) + "</tr>" for line in body(block)
    )
    caption = f"<caption>{html.escape(block.stream)}</caption>"
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _plots(suite: Suite, rows: Rows) -> dict[str, Any]:
    kind = find_kind(suite.plot)
    panels = kind.panels(suite, rows)
    return {
        "style": asdict(kind.style),
        "panels": [asdict(panel) for panel in panels],
        "names": names(suite, panels),
    }


def _safe(data: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
