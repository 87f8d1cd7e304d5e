"""The pages for people who come to the project: their links lead somewhere, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "recipes").glob("*.md"),
    *(ROOT / "results").glob("*.md"),
]


def anchors(page):
    """What GitHub and the documentation site call the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        if ":" in name:
            continue  # on the web
        target = page.parent / name if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_page_a_heading_or_a_file_leads_somewhere(page):
    assert list(broken(page)) == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# Here\n")
    (tmp_path / "page.md").write_text("[a](other.md#here) [b](other.md#there) [c](gone.md) [d](https://example.org)\n")
    assert list(broken(tmp_path / "page.md")) == ["other.md#there", "gone.md"]


def test_contributing_names_files_and_commands_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| a ")]
    files = [name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)]
    assert len(files) > 10
    places = (ROOT, ROOT / "src" / "votestream", ROOT / "src" / "votestream" / "learners")
    assert [name for name in files if not any((place / name).exists() for place in places)] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"`make ([\w-]+)`", text)
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)] == []


def test_the_readme_is_a_newcomers_screen_without_a_count_of_tests():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert not re.search(r"\d (passed|tests)\b", text)


def test_the_workflow_runs_what_ci_runs():
    commands = re.findall(r"^make ([\w-]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    once = re.search(r"target: \[(.*)\]", workflow)[1].split(", ")
    assert len(commands) > 3
    assert [command for command in commands if command not in ("test", *once)] == []


@pytest.mark.parametrize("name", ["tests.yml", "release.yml"])
def test_actions_are_pinned_to_a_commit(name):
    text = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
