"""`python -m generators.check build/docs`: whether the built site holds together and works without a network."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from generators.api import described, rooms
from generators.links import ROOT
from generators.methods import learners

LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}  # fetched without a click
CODE_OF_OTHERS = "_static"
UNLISTED = ("index.html", "genindex.html", "search.html")  # which llms.txt need not name


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADS.get(tag, "") in given and given.get("rel") != "canonical":
            self.loads.append(given[LOADS[tag]])


def faults(site: Path, private: str = str(ROOT)) -> Iterator[str]:
    """A sentence for each fault; `private` is a path that no page may tell."""
    pages = {path: Page(path) for path in site.rglob("*.html") if CODE_OF_OTHERS not in path.parts}
    if not pages:
        yield f"{site} has no pages: build the site first, `make docs`."
    for path, page in sorted(pages.items()):
        told = path.relative_to(site)
        for target in page.loads:
            if urlsplit(target).scheme in ("http", "https") or target.startswith("//"):
                yield f"{told} loads {target}, which needs a network."
        for target in (*page.links, *page.loads):
            fault = _leads_nowhere(path, target, pages)
            if fault:
                yield f"{told}: {fault}"
        if private in path.read_text(encoding="utf-8"):
            yield f"{told} tells a path of this machine, {private}."


def unlisted(site: Path) -> list[str]:
    """Pages that llms.txt does not name."""
    named = re.findall(r"\]\((.+?)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    pages = [path.relative_to(site).as_posix() for path in site.rglob("*.html") if CODE_OF_OTHERS not in path.parts]
    return sorted(set(pages) - {*named, *UNLISTED})


def _leads_nowhere(path: Path, target: str, pages: dict[Path, Page]) -> str:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return ""
    goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not goal.is_file():
        return f"the link {target} leads to no file."
    if parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].anchors:
        return f"the link {target} leads to a page without that anchor."
    return ""


def missing_names(site: Path) -> list[str]:
    """Public names that no page describes."""
    names = [full for room in rooms() for full in described(room)]
    names += [f"votestream.{cls.__name__}" for cls in learners().values()]
    anchors = {
        anchor
        for folder in ("api", "methods")
        for path in (site / folder).glob("*.html")
        for anchor in re.findall(r'id="(votestream\.[\w.]+)"', path.read_text(encoding="utf-8"))
    }
    return [name for name in names if name not in anchors]


def main(folder: str) -> int:
    site = Path(folder).resolve()
    found = [*faults(site), *(f"no page describes {name}." for name in missing_names(site))]
    found += [f"llms.txt does not list {page}." for page in unlisted(site)]
    print("\n".join(found) or f"{site / 'index.html'}: links hold, nothing needs a network.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
