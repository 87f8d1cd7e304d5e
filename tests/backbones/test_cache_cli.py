"""`votestream cache` shows what is kept and deletes it when told to."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from votestream.backbones import cached_features
from votestream.cli.cache import app, size

from .samples import random_images, tiny_backbone


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    cached_features(tiny_backbone(), random_images(6, 16, 16))
    return tmp_path


def run(*arguments: str, answer: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), input=answer)
    return result.exit_code, result.output


def test_list_shows_backbone_images_and_place(folder: Path) -> None:
    code, text = run("list")
    assert code == 0
    assert "tiny" in text
    assert " 6 " in text
    assert str(folder) in text.replace("\n", "")


def test_clear_asks_first(folder: Path) -> None:
    assert run("clear", answer="n\n")[0] == 2
    assert "tiny" in run("list")[1]
    assert "Nothing to clear" in run("clear", "--backbone", "other", "--yes")[1]
    code, text = run("clear", answer="y\n")
    assert code == 0
    assert "Deleted 1 entries" in text
    assert "Nothing is cached" in run("list")[1]
    assert "Nothing to clear" in run("clear", "--yes")[1]


def test_another_folder_can_be_named(folder: Path, tmp_path: Path) -> None:
    assert "Nothing is cached" in run("list", "--folder", str(tmp_path / "elsewhere"))[1]


def test_sizes_read_well() -> None:
    assert [size(n) for n in (12, 1500, 2_000_000, 3 * 10**9, 4 * 10**12)] == [
        "12 bytes",
        "1.5 kB",
        "2.0 MB",
        "3.0 GB",
        "4.0 TB",
    ]
