"""Docstrings as reStructuredText.

Docstrings here are plain text: paragraphs, `code` in single backticks, `Parameters` (underlined) or `Args:` with an
entry a line, equations behind `.. math::`, paragraphs that begin with "Take it" and "Reference:", and examples.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

import votestream

TITLES = {"Args": "Parameters", "Example": "Example", "Examples": "Example"}
HEADED = re.compile(r"(Args|Attributes|Raises|Returns|Yields|Examples?):$")
ENTRY = re.compile(r"(\S.*?)\s*: (.*)$")
SPECIAL = re.compile(r"([\\*|_])")
TAKE, REFERENCE = "Take it ", "Reference: "


@dataclass
class Parts:
    """What a docstring says, by kind, as reStructuredText."""

    idea: list[str] = field(default_factory=list)
    take: str = ""
    reference: str = ""
    parameters: list[str] = field(default_factory=list)
    example: list[str] = field(default_factory=list)
    equations: int = 0


def escaped(text: str) -> str:
    """Plain text that means the same to a reader of reStructuredText; `code` becomes literal, a public class a link.

    >>> escaped("sign(x) |x|^tukey, as `a*b` says")
    'sign(x) \\\\|x\\\\|^tukey, as ``a*b`` says'
    """
    pieces = re.split(r"(`+[^`]+`+)", text)
    return "".join(_code(p.strip("`")) if p.startswith("`") else SPECIAL.sub(r"\\\1", p) for p in pieces)


def _code(text: str) -> str:
    known = text[:1].isupper() and text in votestream.__all__
    return f":py:obj:`{text} <votestream.{text}>`" if known else f"``{text}``"


def blocks(docstring: str) -> Iterator[list[str]]:
    """Paragraphs; what is indented below one, as an equation or the entries of `Args:`, belongs to it."""
    block: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        if line.strip():
            below = line.startswith(" ") or (block and not _ended(block))
            if block and not below:
                yield _trimmed(block)
                block = []
            block.append(line)
        elif block:
            block.append("")
    if block:
        yield _trimmed(block)


def _ended(block: list[str]) -> bool:
    return block[-1] == ""


def _trimmed(block: list[str]) -> list[str]:
    while block and not block[-1]:
        block = block[:-1]
    return block


def parts(docstring: str) -> Parts:
    """A docstring taken apart.

    >>> found = parts("Keeps means.\\n\\nTake it for speed.\\n\\nReference: Me, 2026.\\n\\n>>> 1 + 1\\n2")
    >>> found.idea, found.take, found.reference, found.example
    (['Keeps means.', ''], 'For speed.', 'Me, 2026.', ['>>> 1 + 1', '2', ''])
    """
    found = Parts()
    for block in blocks(docstring):
        first, joined = block[0], " ".join(line.strip() for line in block)
        headed = HEADED.match(first)
        if joined.startswith(TAKE):
            found.take = _sentence(joined.removeprefix(TAKE))
        elif joined.startswith(REFERENCE):
            found.reference = _sentence(joined.removeprefix(REFERENCE))
        elif first.startswith(">>>"):
            found.example += [*block, ""]
        elif first.startswith(".. math::"):
            found.equations += 1
            found.idea += [*block, ""]
        elif len(block) > 1 and set(block[1]) == {"-"}:
            _section(found, first, block[2:])
        elif headed:
            _section(found, headed[1], textwrap.dedent("\n".join(block[1:])).splitlines())
        else:
            found.idea += [*_paragraph(block), ""]
    return found


def _sentence(text: str) -> str:
    return escaped(text[0].upper() + text[1:])


def _section(found: Parts, title: str, lines: list[str]) -> None:
    title = TITLES.get(title, title)
    if title == "Example":
        found.example += [*lines, ""]
        return
    goal = found.parameters if title == "Parameters" else found.idea
    if title != "Parameters":
        goal += [f".. rubric:: {title}", ""]
    goal += [*_entries(lines), ""]


def _entries(lines: list[str]) -> list[str]:
    """A list of definitions: names, and what they are, behind a colon or on the lines below."""
    entries: list[list[str]] = []
    for line in lines:
        names_go_on = entries and entries[-1][0].endswith(",")
        if entries and (line.startswith(" ") or names_go_on):
            entries[-1].append(line.strip())
        else:
            entries.append([line])
    made: list[str] = []
    for entry in entries:
        found = ENTRY.match(" ".join(entry))
        names, text = found.groups() if found else (entry[0], " ".join(entry[1:]))
        if text:
            made += [", ".join(f"``{name.strip('` ')}``" for name in names.split(",")), f"    {escaped(text)}"]
        else:
            made.append(escaped(names))
    return made


def _paragraph(block: list[str]) -> list[str]:
    """Text, escaped; what is indented below it is shown as it stands, unless it goes on with the items of a list."""
    if any(line.startswith("- ") for line in block):
        return [line if not line else f"{line[: _indent(line)]}{escaped(line.strip())}" for line in block]
    shown = [line for line in block if not line or line.startswith(" ")]
    text = escaped(" ".join(line for line in block if line and not line.startswith(" ")))
    return [text, "", "::", "", *shown] if any(shown) else [text]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def to_rst(docstring: str) -> list[str]:
    """All of it, in the order in which readers need it.

    >>> to_rst("Adds.\\n\\nArgs:\\n    a: one\\n    b: another\\n")
    ['Adds.', '', '.. rubric:: Parameters', '', '``a``', '    one', '``b``', '    another', '']
    """
    found = parts(docstring)
    lines = [*found.idea]
    for title, text in (("When to take it", found.take), ("Reference", found.reference)):
        lines += [f".. rubric:: {title}", "", text, ""] if text else []
    lines += [".. rubric:: Parameters", "", *found.parameters] if found.parameters else []
    return lines + ([".. rubric:: Example", "", *found.example] if found.example else [])
