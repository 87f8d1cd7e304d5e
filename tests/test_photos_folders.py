"""`votestream learn` and the ways in which people lay out their folders: nothing is learned by mistake in silence."""

from __future__ import annotations

import json

import pytest

import votestream as vs
from painted import counts, paint, run

BEGIN = "--backbone", "pixels"
NFC, NFD = "B\u00fcche", "Bu\u0308che"


@pytest.fixture
def model(tmp_path):
    return tmp_path / "shop.safetensors"


@pytest.fixture
def rounds(tmp_path):
    """A level too high: rounds and a test, each with class folders."""
    for part in ("round1", "round2", "test"):
        for label in ("red", "green"):
            paint(tmp_path / "flowers" / part, label, 3)
    return tmp_path / "flowers"


@pytest.fixture
def terminal(monkeypatch):
    """As if somebody sat there: the tests' input is no terminal."""
    monkeypatch.setattr("votestream.cli.photos.sys", type("", (), {"stdin": type("", (), {"isatty": lambda: True})}))


def test_of_train_and_test_only_train_is_learned_and_that_is_said(tmp_path, model):
    for part, n in (("train", 5), ("test", 2), ("val", 2)):
        for label in ("red", "green"):
            paint(tmp_path / "tt" / part, label, n)
    result = run("learn", tmp_path / "tt", "--model", model, *BEGIN)
    assert result.exit_code == 0
    assert (
        result.stderr
        == f"note: {tmp_path / 'tt'} is divided into parts: train is used for training, test, val are not used.\n"
    )
    assert counts(model) == {"red": 5, "green": 5}


def test_a_level_too_high_is_refused_without_a_terminal_and_the_right_command_is_named(rounds, model):
    result = run("learn", rounds, "--model", model, *BEGIN)
    assert result.exit_code == 2
    assert f"{rounds} holds folders of folders (round1, round2, test)" in result.stderr
    assert "several of these hold folders called green, red." in result.stderr
    assert f"use `votestream learn {rounds / 'round1'} --model {model}`" in result.stderr
    assert "To learn round1, round2, test as classes, add --yes." in result.stderr
    assert not model.exists()


def test_yes_answers_the_question_and_a_model_that_knows_the_classes_is_not_asked_again(rounds, model):
    assert run("learn", rounds, "--model", model, *BEGIN, "--yes").exit_code == 0
    assert counts(model) == {"round1": 6, "round2": 6, "test": 6}
    paint(rounds / "round1", "red", 1, start=50)
    assert run("learn", rounds, "--model", model).exit_code == 0
    assert counts(model)["round1"] == 7


def test_at_a_terminal_the_question_is_asked_and_no_is_the_answer_of_who_says_nothing(rounds, model, terminal):
    for answer in ("n\n", "\n", ""):
        result = run("learn", rounds, "--model", model, *BEGIN, input=answer)
        assert result.exit_code == 2
        assert "Learn round1, round2, test as classes anyway? [y/N]" in result.stderr
        assert result.stderr.endswith("Nothing was learned.\n")
        assert not model.exists()
    assert run("learn", rounds, "--model", model, *BEGIN, input="y\n").exit_code == 0
    assert len(counts(model)) == 3


def test_a_class_folder_in_place_of_the_one_above_is_told_which_to_give(tmp_path, model):
    paint(tmp_path / "photos", "red", 2)
    result = run("learn", tmp_path / "photos" / "red", "--model", model)
    assert result.exit_code == 2
    assert f"If red is a class, give the folder above it, {tmp_path / 'photos'}." in result.stderr


# ---- trying it out ------------------------------------------------------------------------------


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_lists_classes_and_counts_and_writes_nothing(tmp_path, model):
    photos = tmp_path / "photos"
    paint(photos, "red", 4)
    run("learn", photos, "--model", model, *BEGIN)
    paint(photos, "red", 2, start=50)
    paint(photos, "green", 3)
    (photos / "green" / "copy.png").write_bytes((photos / "green" / "photo 1.png").read_bytes())
    (photos / "green" / "notes.jpg").write_text("no photo")
    before = files_in(tmp_path)
    result = run("learn", photos, "--model", model, "--dry-run")
    assert files_in(tmp_path) == before
    assert result.exit_code == 1  # as the run itself would end
    assert "notes.jpg is not an image" in result.stderr
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [["green (new class)", "3", "0", "1"], ["red", "2", "4", "0"]]
    assert f"5 photos of 2 classes would be learned into {model}." in " ".join(result.stdout.split())
    assert "Already known: 4 photos. Identical copies: 1. Skipped: 1." in result.stdout
    assert "Not checked: whether every photo can be decoded" in result.stdout
    told = run("learn", photos, "--model", model)
    assert "5 photos of 2 classes learned" in told.stdout
    assert "Already known: 4 photos. Identical copies: 1. Skipped: 1." in told.stdout
    assert run("learn", photos / "..", "--model", model, "--dry-run").exit_code != 0


def test_a_dry_run_of_a_doubtful_folder_says_so_and_lists_it(rounds, model):
    result = run("learn", rounds, "--model", model, *BEGIN, "--dry-run")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"note: {rounds} holds folders of folders")
    assert "round1 (new class)" in result.stdout
    assert not model.exists()


def test_a_dry_run_refuses_what_the_run_would_refuse(rounds, model):
    wrong = run("learn", rounds / "round1", "--model", model, "--dry-run", "--backbone", "pixel")
    assert (wrong.exit_code, "Did you mean 'pixels'" in wrong.stderr) == (2, True)


# ---- names --------------------------------------------------------------------------------------


def test_one_name_composed_in_two_ways_is_one_class_and_that_is_said(tmp_path, model):
    for number, name in enumerate((NFC, NFD)):
        paint(tmp_path / "photos", name, 3, (200, 40, 40), start=10 * number)
    result = run("learn", tmp_path / "photos", "--model", model, *BEGIN)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"note: Two folders are called {NFC}, their letters composed in different ways")
    assert counts(model) == {NFC: 6}


@pytest.mark.parametrize("folder", [NFC, NFD])
def test_a_model_taught_a_name_in_another_form_goes_on_with_its_own_class(tmp_path, model, folder):
    paint(tmp_path / "photos", folder, 5, (200, 40, 40))
    X = sorted((tmp_path / "photos" / folder).iterdir())
    vs.ImageClassifier("pixels", vs.GaussianVoting(device="cpu")).partial_fit(X, [NFD] * 5).save(model)
    result = run("learn", tmp_path / "photos", "--model", model)
    assert "New" not in result.stdout
    assert counts(model) == {NFD: 10}


def test_a_model_that_holds_a_name_in_both_forms_takes_the_composed_one(tmp_path, model):
    paint(tmp_path / "photos", NFD, 4, (200, 40, 40))
    X = sorted((tmp_path / "photos" / NFD).iterdir())
    vs.ImageClassifier("pixels", vs.GaussianVoting(device="cpu")).partial_fit(X, [NFC, NFD] * 2).save(model)
    run("learn", tmp_path / "photos", "--model", model)
    assert counts(model) == {NFC: 6, NFD: 2}


def test_thousands_of_classes_do_not_print_thousands_of_names(tmp_path, model):
    names = [f"class number {i}" for i in range(60)]
    for i, name in enumerate(names):
        paint(tmp_path / "photos", name, 1, (i, 200 - i, 40))
    for i in range(20):
        (tmp_path / "photos" / f"empty {i}").mkdir()
        (tmp_path / "photos" / f"broken {i}").mkdir()
        (tmp_path / "photos" / f"broken {i}" / "1.jpg").write_text("text")
    for more in (["--dry-run"], []):
        learned = run("learn", tmp_path / "photos", "--model", model, *BEGIN, *more)
        told = [line for line in learned.stderr.splitlines() if "is not an image" not in line]
        assert len(told) == 2
        assert "and 15 more hold no photo" in told[0]
        assert "and 15 more could be read" in told[1]
    assert learned.stdout.count("class number") == 10 + 3  # the new classes, and those that need more photos
    assert "and 50 more." in learned.stdout
    inspected = run("inspect", model).stdout
    assert inspected.count("class number") == 40 + 10  # the table, and those of one photo
    assert "And 20 more classes: --json lists them all." in inspected
    assert len(json.loads(run("inspect", model, "--json").stdout)["classes"]) == 60


# ---- names that are nearly the same -------------------------------------------------------------


@pytest.fixture
def plastic(tmp_path, model):
    """A model that knows plastic, and a folder that has Plastic too."""
    for label in ("plastic", "metal"):
        paint(tmp_path / "first", label, 4, colour=(200, 40, 40))
    assert run("learn", tmp_path / "first", "--model", model, *BEGIN).stderr == ""
    paint(tmp_path / "second", "Plastic", 4, colour=(40, 40, 200), start=10)
    paint(tmp_path / "second", "metal", 1, colour=(200, 40, 40), start=10)
    return tmp_path / "second"


NEARLY = "Plastic is a new class, and {} has a class plastic: if they are the same, give both folders one name"


@pytest.mark.parametrize("more", [(), ("--yes",)])
def test_a_class_of_nearly_a_known_name_is_named_where_nobody_can_be_asked(plastic, model, more):
    result = run("learn", plastic, "--model", model, *more)
    assert result.exit_code == 0, result.output
    assert NEARLY.format(model) in result.stderr
    assert counts(model) == {"plastic": 4, "metal": 5, "Plastic": 4}


def test_a_class_of_nearly_a_known_name_is_asked_about_once(plastic, model, terminal):
    before = model.read_bytes()
    refused = run("learn", plastic, "--model", model, input="n\n")
    assert (refused.exit_code, "Nothing was learned." in refused.stderr) == (2, True)
    assert model.read_bytes() == before
    assert run("learn", plastic, "--model", model, input="y\n").exit_code == 0
    assert counts(model)["Plastic"] == 4
    paint(plastic, "Plastic", 2, colour=(40, 40, 200), start=20)
    again = run("learn", plastic, "--model", model, input="")
    assert (again.exit_code, again.stderr) == (0, "")
    assert counts(model)["Plastic"] == 6


def test_two_folders_of_nearly_one_name_are_asked_about(tmp_path, model, terminal):
    for label in ("old paper", "Old-Paper", "glass"):
        paint(tmp_path / "photos", label, 3, colour=(40, 200, 40))
    result = run("learn", tmp_path / "photos", "--model", model, *BEGIN, input="n\n")
    assert result.exit_code == 2
    assert "old paper is a new class, and there is also Old-Paper" in result.stderr
    assert not model.exists()
