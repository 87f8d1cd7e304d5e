"""llms.txt: the pages of the site, one a line, for programs that read rather than look (llmstxt.org)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import votestream


def write(app: Any, error: Exception | None) -> None:
    """Beside index.html, once the site is built."""
    if error is None and app.builder.name == "html":
        (Path(app.outdir) / "llms.txt").write_text(listing(app.env, app.config.project), encoding="utf-8")


def listing(env: Any, project: str) -> str:
    """Captions of the sidebar, and below each its pages in order, subpages after their page."""
    lines = [f"# {project}", "", f"> {votestream.__doc__}", ""]
    root = env.config.root_doc
    for tree in env.tocs[root].findall(lambda node: node.tagname == "toctree"):
        lines += [f"## {tree['caption']}", ""]
        for _, name in tree["entries"]:
            lines += _below(env, name)
        lines.append("")
    return "\n".join(lines)


def _below(env: Any, name: str) -> list[str]:
    lines = [f"- [{env.titles[name].astext()}]({name}.html)"]
    for below in env.toctree_includes.get(name, []):
        lines += _below(env, below)
    return lines
