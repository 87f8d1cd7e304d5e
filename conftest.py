"""Every test and every example in the docs runs in an empty folder of its own, and leaves no name registered."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from votestream import compat
from votestream.backbones.registry import BACKBONES
from votestream.bench.suites import MAKERS
from votestream.core.registry import LEARNERS
from votestream.memory.keep import KEEP_RULES
from votestream.streams.make import STREAMS

# Modules of votestream.compat are named after the library they import: without it their examples cannot run.
WITHOUT_LIBRARY = {"__init__", "records", "versions"}
collect_ignore = [
    str(path)
    for path in Path(compat.__path__[0]).glob("*.py")
    if path.stem not in WITHOUT_LIBRARY and find_spec(path.stem) is None
]
# Of the site: programs that tests/test_gallery.py runs, what needs Sphinx, and pages that a build has written.
collect_ignore += ["docs/conf.py", "docs/generators/mathml.py"]
collect_ignore += [f"docs/{name}" for name in ("api", "examples", "figures", "gallery", "methods", "project")]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True)
def names_as_before() -> Iterator[None]:
    registries = (BACKBONES, KEEP_RULES, LEARNERS, MAKERS, STREAMS)
    assert all("no such name" not in registry for registry in registries)  # our own are registered by looking one up
    before = [(dict(registry._known), set(registry._tried)) for registry in registries]
    yield
    for registry, (known, tried) in zip(registries, before, strict=True):
        registry._known, registry._tried = known, tried
