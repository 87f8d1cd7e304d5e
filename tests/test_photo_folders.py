"""benchmarks/photo_folders.py takes any sane folder of photos, and names what is wrong with another."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from painted import COLOURS, paint, put

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks are not part of the source package")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("photo_folders")


@pytest.fixture
def parts_of(script: ModuleType):
    return sys.modules["photo_parts"].parts_of


def judged(script: ModuleType, *arguments: object) -> list[dict[str, str]]:
    out = Path("rows.csv")
    script.main([*map(str, arguments), "--backbones", "auto", "--device", "cpu", "--out", str(out)])
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_of_class_folders_is_split_taught_in_rounds_and_judged(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for label in COLOURS:
        paint(tmp_path / "colours", label, 12)
    for label in ("noon", "night"):
        paint(tmp_path / "light", label, 6, (250, 250, 250) if label == "noon" else (5, 5, 5))
    rows = judged(script, "colours", "light")
    first = rows[0]
    assert (first["photos"], first["classes"], first["taught"], first["tested"]) == ("colours", "4", "32", "16")
    assert first["is"] == "reduced_resnet18"  # the photos are small
    assert float(first["low"]) < float(first["accuracy"]) == 100 <= float(first["high"]) + 0.1
    assert len(first["after each round"].split()) == 3
    assert 0 <= float(first["ECE"]) <= 100
    assert float(first["others: AUROC"]) > 50
    assert 0 <= float(first["half: AUROC"]) <= 100
    assert rows[1]["half: AUROC"] == ""  # two classes have no half of several
    assert "colours: 4 classes, 32 photos taught, 16 tested" in capsys.readouterr().out
    assert len(judged(script, "colours")) == 2  # the row is replaced, the other one stays
    capsys.readouterr()
    script.main(["--show", "--out", "rows.csv"])
    assert f"| colours | `auto` | {first['accuracy']} ({first['low']} to {first['high']}) |" in capsys.readouterr().out


def test_the_table_in_the_docs_is_that_of_the_rows(script: ModuleType) -> None:
    root = BENCHMARKS.parent
    table = script.as_markdown(script.rows_of(root / "results" / "accuracy" / "photo_folders.csv"))
    assert len(table.splitlines()) > 5
    assert table in (root / "docs" / "photos.md").read_text()


def test_rounds_and_a_test_part_are_taken_as_they_stand(parts_of, tmp_path: Path) -> None:
    for part, labels in (("round10", ["blue"]), ("round2", ["green"]), ("round1", ["red"]), ("test", [*COLOURS])):
        for label in labels:
            paint(tmp_path / part, label, 2 + (part == "test"))
    parts = parts_of(tmp_path)
    assert [{photo.label for photo in photos} for photos in parts.rounds] == [{"red"}, {"green"}, {"blue"}]
    assert len(parts.test) == 9
    assert any("grey no photo is taught" in note for note in parts.notes)


def test_train_and_test_are_taken_as_they_stand_and_photos_in_both_are_told(parts_of, tmp_path: Path) -> None:
    for label in ("red", "green", "blue"):
        paint(tmp_path / "train", label, 4)
        paint(tmp_path / "test", label, 2, start=3)  # one of them is in both
    parts = parts_of(tmp_path, n_rounds=2)
    assert sorted(len(photos) for photos in parts.rounds) == [4, 8]
    assert {photo.path.parent.parent.name for photo in parts.test} == {"test"}
    assert any(note.startswith("3 of the test photos are taught too") for note in parts.notes)


def test_the_split_is_by_the_seed_and_shares_no_photo(parts_of, tmp_path: Path) -> None:
    for label in ("red", "green"):
        paint(tmp_path, label, 10)
    splits = []
    for seed in (0, 0, 1):
        parts = parts_of(tmp_path, 1, 0.3, seed)
        taught, test = ({photo.path for photo in photos} for photos in (parts.rounds[0], parts.test))
        assert (len(taught), len(test), taught & test) == (14, 6, set())
        splits.append(test)
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([], "There is no class folder in"),
        (["a.png", "b.png"], "only photos"),
        (["red/a.png", "red/b.png"], "1 class to teach and 1 photos to test: two classes are needed"),
        (["red/a.png", "blue/a.png"], "red has one photo, and two are needed"),
        (["x1/red/a.png", "x1/blue/a.png", "x2/red/a.png"], "Give the folder that holds the classes"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(
    script: ModuleType, tmp_path: Path, made: list[str], said: str
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in made:
        put(folder / name, np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(SystemExit) as stopped:
        script.main([str(folder), "--out", str(tmp_path / "rows.csv")])
    assert str(stopped.value).startswith("photo_folders: ")
    assert said in str(stopped.value)
    assert not (tmp_path / "rows.csv").exists()


def test_broken_photos_are_named_and_left_out(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for part in ("round1", "test"):
        for label in ("red", "blue"):
            paint(tmp_path / "photos" / part, label, 4)
        (tmp_path / "photos" / part / "red" / "broken.jpg").write_text("no photo")
    (row,) = judged(script, "photos")
    assert (row["taught"], row["tested"]) == ("8", "8")
    told = capsys.readouterr().err
    assert "Skipped: photos/round1/red/broken.jpg" in told
    assert "Skipped: photos/test/red/broken.jpg" in told
