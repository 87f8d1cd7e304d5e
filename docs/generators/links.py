"""Pages of the repository that lie outside docs/ become pages of the site, and links between all of them still hold."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Where they stand in the site, below docs/; those that are not there are left out.
OUTSIDE = {
    "README.md": "project/readme.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "recipes/README.md": "project/recipes.md",
    "results/README.md": "project/results.md",
}
MOVED = {
    **{path: f"docs/{page}" for path, page in OUTSIDE.items()},
    "docs/gallery/README.rst": "docs/examples/index.rst",
    "docs/tables": "docs/figures/index.md",
    "results": "docs/figures/index.md",
}
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def relinked(text: str, path: str, page: str) -> str:
    """A page's text, its relative links changed from where it lies in the repository to where it stands in the site.

    >>> relinked("[the vote](docs/method.md#vote), [rows](results/a.csv)", "README.md", "docs/project/readme.md")
    '[the vote](../method.md#vote), [rows](../../results/a.csv)'
    >>> relinked("[it](../README.md#more), [that](https://a.org)", "docs/bench.md", "docs/bench.md")
    '[it](project/readme.md#more), [that](https://a.org)'
    """

    def changed(match: re.Match[str]) -> str:
        target = match[2]
        if ":" in target:
            return match[0]
        goal = os.path.normpath(os.path.join(os.path.dirname(path), target))
        found = os.path.relpath(MOVED.get(goal, goal), os.path.dirname(page))
        return f"{match[1]}{Path(found).as_posix()}{match[3] or ''}{match[4]}"

    return LINK.sub(changed, text)


def write(folder: Path) -> None:
    """The pages from outside, into docs/project."""
    folder.mkdir(parents=True)
    for path, page in OUTSIDE.items():
        if (ROOT / path).is_file():
            text = relinked((ROOT / path).read_text(encoding="utf-8"), path, f"docs/{page}")
            (folder / Path(page).name).write_text(text, encoding="utf-8")
