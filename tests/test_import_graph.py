"""Imports go downwards only: what learns knows nothing of data sets, what arrives nothing of learners."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import votestream

ROOT = Path(votestream.__file__).parent
ROOMS = ("backbones", "bench", "learners", "memory", "photos", "streams", "testing")
ABOVE = {  # what a room may not import, not even inside a function
    "memory": {"backbones", "bench", "demo", "learners", "photos", "streams", "testing"},
    "backbones": {"bench", "demo", "learners", "memory", "photos", "streams", "testing"},
    "learners": {"bench", "demo", "photos", "streams", "testing"},
    "streams": {"bench", "demo", "learners", "memory", "photos", "testing"},
    "bench": {"photos", "testing"},
    "photos": {"bench", "demo", "streams", "testing"},
    "testing": {"bench", "demo", "photos", "streams"},
    # Single files of the package, which any room may use.
    "": {"backbones", "bench", "demo", "learners", "memory", "photos", "streams", "testing"},
}
# Those that are rooms of their own: they use what they like, and only the command line uses them.
AT_THE_TOP = {"__init__", "demo"}


def imported(path: Path) -> set[str]:
    """Modules of ours that a file imports anywhere, without the package's name: `streams.make`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports are not read here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]  # the name may be a module itself
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found.update(name.removeprefix("votestream.") for name in names if name.startswith("votestream."))
    return found


def is_command_line(module: str) -> bool:
    """`cli`, `data_cli`, `bench.cli`, or a name in one of these."""
    return any(part == "cli" or part.endswith("_cli") for part in module.split("."))


FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.parametrize("module", [module for module in FILES if not is_command_line(module)])
def test_imports_go_downwards_only(module):
    path = FILES[module]
    wrong = {name for name in imported(path) if is_command_line(name)}
    room = module.partition(".")[0]
    if room not in AT_THE_TOP:
        wrong |= {name for name in imported(path) if name.partition(".")[0] in ABOVE[room if room in ROOMS else ""]}
    assert not wrong, f"{module} imports {', '.join(sorted(wrong))}"


def test_every_room_has_its_place():
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == set(ROOMS)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from votestream.streams import stream", {"streams.stream"}),
        ("def f():\n    import votestream.data_cli", {"data_cli"}),
        ("from votestream import demo", {"demo"}),
        ("import numpy, torch", set()),
    ],
)
def test_imports_are_found_wherever_they_stand(source, found, tmp_path):
    (tmp_path / "a.py").write_text(source)
    assert imported(tmp_path / "a.py") == found
