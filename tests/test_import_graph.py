"""Imports go downwards only: what learns knows nothing of data sets, what arrives nothing of learners."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import votestream

ROOT = Path(votestream.__file__).parent
# A room imports rooms that stand before it here, but for those named as apart from it.
ORDER = (
    *(
        "common",
        "io",
        "compute",
        "memory",
        "tracking",
        "core",
        "images",
        "backbones",
        "learners",
        "pipeline",
        "streams",
    ),
    *("export", "compat", "model_store", "distributed", "bench", "photos", "serve", "testing", "cli"),
)
APART = {
    "images": {"io", "compute", "core", "memory", "tracking"},
    "backbones": {"core", "memory", "tracking"},
    "streams": {"io", "compute", "core", "memory", "tracking", "learners", "pipeline"},
    "export": {"streams"},
    "model_store": {"streams", "export", "compat"},
    "distributed": {"export", "compat", "streams"},
    "photos": {"bench", "streams", "export"},
    "serve": {"bench", "photos"},
    "testing": {"bench", "compat", "export", "photos", "serve", "streams"},
}
# The rooms of the learners: each uses those before it in its line.
LINES = ("statistics", "exemplars", "ours"), ("network", "offline")
# The rooms and single files of the service: each uses those before it.
SERVICE = ("timed_response", "engine", "replica", "web", "labelstudio", "sample_images", "app")
FREE = {"__init__", "__main__", "demo", "_version"}  # single files that belong to no room; `voting` is pure functions


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


FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}


def allowed(module: str, name: str) -> bool:
    """Whether the module may import what has that name."""
    own, other = module.split("."), name.split(".")
    if other[0] not in ORDER:
        return True  # a single file
    if own[0] not in ORDER:
        return own[0] in FREE or other[0] in ("common", "compute")
    if own[0] != other[0]:
        return ORDER.index(other[0]) < ORDER.index(own[0]) and other[0] not in APART.get(own[0], set())
    if own[0] not in ("learners", "serve") or own[1] == "__init__" or own[1] == other[1]:
        return True
    if own[0] == "serve":
        return SERVICE.index(other[1]) < SERVICE.index(own[1])
    return any(own[1] in line and other[1] in line[: line.index(own[1])] for line in LINES)


def test_imports_go_downwards_only():
    assert len(FILES) > 100
    wrong = [(module, name) for module, path in FILES.items() for name in imported(path) if not allowed(module, name)]
    assert not wrong, "\n".join(f"{module} imports {name}" for module, name in sorted(wrong))


def test_every_room_has_its_place():
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == set(ORDER)
    parts = {path.stem for path in (ROOT / "serve").iterdir() if path.is_dir() or path.suffix == ".py"}
    assert parts - {"__init__", "__pycache__", "page"} == set(SERVICE)
    assert {path.name for path in (ROOT / "learners").iterdir() if path.is_dir() and path.name[0] != "_"} == {
        room for line in LINES for room in line
    }


@pytest.mark.parametrize("room", ["streams", "images.convert", "cli.main"])
def test_reading_data_waits_for_no_torch(room):
    code = f"import sys, votestream.{room}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("common.plugins", "io.take"),
        ("bench.runner", "cli.bench"),
        ("streams.make", "learners.create"),
        ("learners.statistics.ncm", "learners.ours.voting_memory"),
        ("learners.network.er", "learners.statistics.ncm"),
        ("serve.engine.writer", "serve.web.options"),
        ("serve.web.limits", "serve.labelstudio.routes"),
        ("voting", "core.vote"),
    ],
)
def test_imports_upwards_are_seen(module, name):
    assert not allowed(module, name)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from votestream.streams import stream", {"streams.stream"}),
        ("def f():\n    import votestream.cli.data", {"cli.data"}),
        ("from votestream import demo", {"demo"}),
        ("import numpy, torch", set()),
    ],
)
def test_imports_are_found_wherever_they_stand(source, found, tmp_path):
    (tmp_path / "a.py").write_text(source)
    assert imported(tmp_path / "a.py") == found


def test_the_page_on_architecture_names_every_room_and_only_files_that_are_there():
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)/` \|", page, re.M) == list(ORDER)
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", page)) - {"tests/test_import_graph.py"}
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).exists()]
