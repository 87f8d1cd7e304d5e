"""`votestream predict` into tables and folders."""

from __future__ import annotations

import csv
import json
import os
import re
import threading

import numpy as np
import pytest
from PIL import Image

import votestream as vs
from painted import COLOURS, paint, run
from votestream.photos.predictions import predict_photos
from votestream.photos.sorted_folders import safe_name


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A model of four colours, and photos to ask about."""
    folder = tmp_path_factory.mktemp("shop")
    for label in COLOURS:
        paint(folder / "photos", label, 10)
        paint(folder / "new", label, 2, start=100)
    run("learn", folder / "photos", "--model", folder / "m", "--backbone", "pixels")
    return folder


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_top_gives_that_many_classes_in_words_and_numbers(shop):
    photo = shop / "new" / "red" / "photo 100.png"
    line = run("predict", shop / "m", photo, "--top", 3).stdout
    assert line.startswith(f"{photo}: red ")
    assert line.count(" %") == 3
    assert "second" not in line
    for top, given in ((1, 1), (2, 2), (50, 4)):
        answer = json.loads(run("predict", shop / "m", photo, "--top", top, "--json").stdout)
        assert len(answer["probabilities"]) == given


def test_every_core_looks_at_a_batch_of_its_own_and_answers_keep_their_order(shop, monkeypatch):
    model, files = vs.load(shop / "m"), sorted((shop / "new").rglob("*.png"))
    real, both = model.backbone_.of_prepared, threading.Barrier(2, timeout=60)
    monkeypatch.setattr("votestream.photos.features.usable_cores", lambda: 2)
    monkeypatch.setattr(model.backbone_, "of_prepared", lambda pixels: both.wait() is not None and real(pixels))
    assert [(one.path, one.numbers["label"]) for one in predict_photos(model, files)] == [
        (file, file.parent.name) for file in files
    ]


def test_a_batch_of_which_no_photo_can_be_read_stops_nobody(shop, tmp_path, monkeypatch):
    monkeypatch.setattr("votestream.photos.features.usable_cores", lambda: 2)
    broken = [tmp_path / "a.png", tmp_path / "b.png"]
    for path in broken:
        path.write_bytes(b"no image")
    found = list(predict_photos(vs.load(shop / "m"), [*broken, *sorted((shop / "new" / "red").iterdir())]))
    assert [bool(one.problem) for one in found] == [True, True, False, False]
    assert [one.numbers["label"] for one in found[2:]] == ["red", "red"]


def test_csv_has_a_row_for_each_photo_with_the_models_own_numbers(shop, tmp_path):
    table = tmp_path / "predict_photos.csv"
    result = run("predict", shop / "m", shop / "new", "--csv", table, "--top", 2)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 8
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert list(rows[0]) == ["file", "unknown", "unknown score", "label", "confidence", "label 2", "probability 2"]
    files = sorted((shop / "new").rglob("*.png"))
    model = vs.load(shop / "m")
    assert [row["file"] for row in rows] == list(map(str, files))
    assert [row["label"] for row in rows] == model.predict(files).tolist()
    assert [float(row["confidence"]) for row in rows] == pytest.approx(model.confidence(files), abs=1e-5)


def test_sort_into_copies_photos_by_predicted_class_and_leaves_the_originals(shop, tmp_path):
    before = files_in(shop)
    result = run("predict", shop / "m", shop / "new", "--sort-into", tmp_path / "sorted", "--unknown", 0)
    assert result.exit_code == 0
    assert "8 photos copied into" in result.stderr
    found = files_in(tmp_path / "sorted")
    assert set(found) == {f"{label}/photo {n}.png" for label in COLOURS for n in (100, 101)}
    assert found["red/photo 100.png"] == before["new/red/photo 100.png"]
    assert files_in(shop) == before


def test_sort_into_never_overwrites_and_is_repeated_without_effect(shop, tmp_path):
    (tmp_path / "red").mkdir()
    (tmp_path / "red" / "photo 100.png").write_text("somebody else's")
    run("predict", shop / "m", shop / "new", "--sort-into", tmp_path)
    found = files_in(tmp_path)
    assert found["red/photo 100.png"] == b"somebody else's"
    assert found["red/photo 100 (2).png"] == (shop / "new" / "red" / "photo 100.png").read_bytes()
    again = run("predict", shop / "m", shop / "new", "--sort-into", tmp_path)
    assert "0 photos copied" in again.stderr
    assert "8 were there already" in again.stderr
    assert files_in(tmp_path) == found


def test_photos_of_one_name_from_two_folders_are_both_kept(shop, tmp_path):
    for folder, start in (("a", 0), ("b", 1)):
        paint(tmp_path / folder, "red", 1, start=start)
    os.rename(tmp_path / "b" / "red" / "photo 1.png", tmp_path / "b" / "red" / "photo 0.png")
    run("predict", shop / "m", tmp_path / "a", tmp_path / "b", "--sort-into", tmp_path / "sorted")
    assert set(files_in(tmp_path / "sorted")) == {"red/photo 0.png", "red/photo 0 (2).png"}


def test_link_makes_links_that_lead_to_the_photos(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(shop)
    for times in ("8 photos linked", "8 were there already"):
        result = run("predict", shop / "m", "new", "--sort-into", tmp_path, "--link")
        assert times in result.stderr
    link = tmp_path / "red" / "photo 100.png"
    assert link.is_symlink()
    assert link.resolve() == (shop / "new" / "red" / "photo 100.png").resolve()


def test_what_was_sorted_into_a_folder_of_the_photos_is_not_asked_about_again(shop, tmp_path):
    paint(tmp_path, "red", 2)
    for _ in range(2):
        result = run("predict", shop / "m", tmp_path, "--sort-into", tmp_path / "sorted")
        assert len(result.stdout.splitlines()) == 2


def test_unreadable_photos_are_named_and_not_sorted(shop, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "text.jpg").write_text("text")
    paint(tmp_path / "in", "red", 1)
    result = run(
        "predict", shop / "m", tmp_path / "in", "--sort-into", tmp_path / "sorted", "--csv", tmp_path / "t.csv"
    )
    assert result.exit_code == 1
    assert "text.jpg" in result.stderr
    assert set(files_in(tmp_path / "sorted")) == {"red/photo 0.png"}
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 2


def test_a_label_that_would_lead_elsewhere_gets_a_folder_of_its_own(shop, tmp_path):
    photos = [shop / "new" / label / "photo 100.png" for label in COLOURS]
    labels = ["../../up", "/etc", "a/b", "a_b"]
    vs.ImageClassifier("pixels").partial_fit(photos, labels).save(tmp_path / "odd")
    run("predict", tmp_path / "odd", *photos, "--sort-into", tmp_path / "in" / "sorted")
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["sorted"]
    folders = sorted(path.name for path in (tmp_path / "in" / "sorted").iterdir())
    assert folders == ["_.._.._up", "_etc", "a_b", "a_b (2)"]


@pytest.mark.parametrize("label", ["", ".", "..", " ", "nul", "COM1.txt", "a\n\x00b", "x" * 500, "é" * 300, "..."])
def test_a_safe_name_is_the_name_of_one_visible_folder(label):
    name = safe_name(label)
    assert name
    assert name == os.path.basename(name)
    assert not name.startswith(".")
    assert name.isprintable()
    assert len(os.fsencode(name)) <= 210
    assert name.lower() not in ("nul", "com1.txt")


WRONG = {
    "a table that is no .csv": (["--csv", "photo.jpg"], "must be a file whose name ends in .csv"),
    "a table nowhere": (["--csv", "none/t.csv"], "there is no folder none"),
    "a table in place of a folder": (["--csv", "folder.csv"], "is a folder"),
    "links into nothing": (["--link"], "needs --sort-into FOLDER"),
    "none at the top": (["--top", "0"], "Invalid value for '--top'"),
    "a file to sort into": (["--sort-into", "photo.jpg"], "is a file: give --sort-into a folder."),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_said_and_nothing_is_written(shop, tmp_path, monkeypatch, case):
    options, sentence = WRONG[case]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "photo.jpg").write_text("a photo")
    (tmp_path / "folder.csv").mkdir()
    result = run("predict", shop / "m", shop / "new", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in " ".join(result.stderr.replace("│", " ").split())
    assert files_in(tmp_path) == {"photo.jpg": b"a photo"}


@pytest.fixture(scope="module")
def odd(shop):
    """A photo unlike any that was learned: a checkerboard."""
    board = np.kron(np.indices((4, 4)).sum(0) % 2, np.ones((6, 6))).astype(np.uint8) * 255
    path = shop / "odd.png"
    Image.fromarray(np.stack([board, 255 - board, board], axis=2)).save(path)
    return path


def test_a_photo_unlike_all_that_was_learned_is_called_unknown(shop, odd):
    line = run("predict", shop / "m", odd).stdout
    assert re.fullmatch(rf"{re.escape(str(odd))}: unknown  \(nearest: \w+\)\n", line)
    answer = json.loads(run("predict", shop / "m", odd, "--json").stdout)
    assert answer["unknown"]
    assert answer["unknown_score"] > 0.95
    assert answer["label"] in COLOURS


def test_unknown_0_names_every_photo(shop, odd):
    assert ": unknown" not in run("predict", shop / "m", odd, shop / "new", "--unknown", 0).stdout
    answer = json.loads(run("predict", shop / "m", odd, "--json", "--unknown", 0).stdout)
    assert not answer["unknown"]


def test_unknown_photos_are_sorted_apart_even_from_a_class_of_that_name(shop, odd, tmp_path):
    vs.load(shop / "m").rename("red", "unknown").save(tmp_path / "m")
    red = shop / "new" / "red" / "photo 100.png"
    result = run("predict", tmp_path / "m", red, odd, "--sort-into", tmp_path / "sorted")
    assert result.exit_code == 0
    assert set(files_in(tmp_path / "sorted")) == {"unknown/photo 100.png", "unknown (2)/odd.png"}


def test_inspect_shows_how_good_the_model_is(shop):
    assert (
        "Accuracy, each tested before it was learned: 100.0 % (88.6 to 100.0) of 30"
        in run("inspect", shop / "m").stdout
    )
    record = json.loads(run("inspect", shop / "m", "--json").stdout)["track_record"]
    assert record["so_far"]["tested"] == 30
    assert record["unknown"]["met"] == 10
