"""`votestream forget`, `rename` and `merge`: the model, what is known of its photos, and its journal stay in step."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import pytest

import votestream as vs
from killing import run_and_kill
from painted import counts, paint, run
from votestream.model_store.paths import journal_path, sidecar_path
from votestream.photos.corrections import open_for_change

COUNTS = {"red": 6, "green": 7, "blue": 8}


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taught")
    for label, n in COUNTS.items():
        paint(folder / "photos", label, n)
    (folder / "models").mkdir()
    run("learn", folder / "photos", "--model", folder / "models" / "m", "--backbone", "pixels")
    return folder


@pytest.fixture
def photos(taught, tmp_path):
    shutil.copytree(taught / "photos", tmp_path / "photos")
    return tmp_path / "photos"


@pytest.fixture
def model(taught, tmp_path):
    shutil.copytree(taught / "models", tmp_path / "models")
    return tmp_path / "models" / "m"


def state(model):
    return {path: path.read_bytes() for path in model.parent.iterdir()}


def learn(photos, model):
    result = run("learn", photos, "--model", model, "--backbone", "pixels")
    assert result.exit_code == 0, result.output
    return result.stdout


def at_a_terminal(monkeypatch):
    terminal = type("", (), {"stdin": type("", (), {"isatty": lambda: True})})
    monkeypatch.setattr("votestream.cli.corrections.sys", terminal)


# ---- forget -------------------------------------------------------------------------------------


def test_forget_takes_the_class_out_and_the_others_photos_stay_known(photos, model):
    result = run("forget", model, "green", "--yes")
    assert result.exit_code == 0
    assert "The class green was deleted, 7 photos." in result.stdout
    assert "`votestream undo` undoes this." in result.stderr
    assert counts(model) == {"red": 6, "blue": 8}
    assert '"green"' not in sidecar_path(model).read_text()
    away = photos.parent / "away"
    shutil.move(photos / "green", away)
    assert "nothing new" in learn(photos, model)
    shutil.move(away, photos / "green")
    assert "7 photos of 1 class learned" in learn(photos, model)
    assert counts(model) == COUNTS


def test_forget_for_good_keeps_nothing_that_could_bring_the_class_back(photos, model):
    result = run("forget", model, "green", "--yes", "--for-good")
    assert result.exit_code == 0
    assert "this cannot be undone: the model has no journal" in result.stderr
    assert not journal_path(model).exists()
    assert all(b"green" not in blob for blob in state(model).values())
    assert "model has no journal" in run("undo", model).stderr.replace(str(model), "model")
    shutil.rmtree(photos / "green")
    assert "nothing new" in learn(photos, model)


def test_forget_is_what_the_model_does_itself(model):
    plain = vs.load(model).forget("green")
    run("forget", model, "green", "--yes")
    X = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)
    assert np.array_equal(vs.load(model).predict_proba(X), plain.predict_proba(X))


def test_forget_asks_and_does_nothing_unless_it_is_agreed_to(model, monkeypatch):
    before = state(model)
    result = run("forget", model, "green")
    assert (result.exit_code, "Add --yes to confirm." in result.stderr) == (2, True)
    at_a_terminal(monkeypatch)
    result = run("forget", model, "green", input="n\n")
    assert (result.exit_code, "Nothing was deleted." in result.stderr) == (2, True)
    assert state(model) == before
    assert run("forget", model, "green", input="y\n").exit_code == 0
    assert "green" not in counts(model)


# ---- rename -------------------------------------------------------------------------------------


def test_a_renamed_class_knows_the_photos_of_its_renamed_folder(photos, model):
    result = run("rename", model, "green", "grün")
    assert result.stdout == "green is called grün now.\n"
    assert "`votestream undo` undoes this." in result.stderr
    assert counts(model) == {"red": 6, "grün": 7, "blue": 8}
    os.rename(photos / "green", photos / "grün")
    assert "nothing new" in learn(photos, model)
    paint(photos, "red", 1, start=50)
    assert "1 photo of 1 class learned" in learn(photos, model)


def test_a_class_renamed_onto_another_becomes_part_of_it(photos, model):
    result = run("rename", model, "green", "red", "--yes")
    assert result.stdout == "green is part of red now.\n"
    assert counts(model) == {"red": 13, "blue": 8}
    for path in list((photos / "green").iterdir()):
        shutil.move(path, photos / "red" / f"green {path.name}")
    (photos / "green").rmdir()
    assert "nothing new" in learn(photos, model)


def test_rename_asks_before_it_joins_two_classes_and_says_what_is_lost(model, monkeypatch):
    before = state(model)
    told = "There is already a class red, with 6 photos. green, with 7 photos, becomes part of it"
    result = run("rename", model, "green", "red")
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert "no longer distinguishes them. Add --yes to confirm." in result.stderr
    at_a_terminal(monkeypatch)
    result = run("rename", model, "green", "red", input="n\n")
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Nothing was renamed." in result.stderr
    assert state(model) == before
    assert run("rename", model, "green", "red", input="y\n").exit_code == 0
    assert counts(model) == {"red": 13, "blue": 8}


def test_labels_that_are_numbers_are_named_by_their_digits(photos, model):
    files = sorted((photos / "red").iterdir())
    vs.ImageClassifier("pixels").partial_fit(files, [0, 0, 0, 1, 1, 2]).save(model)
    sidecar_path(model).unlink()
    run("rename", model, "0", "1", "--yes")
    run("forget", model, "2", "--yes")
    assert counts(model) == {1: 5}


# ---- undo after a change ------------------------------------------------------------------------


def noted(model):
    """Digest and class of the photos that are known."""
    return sorted(re.findall(r'^([0-9a-f]{32}) \d+ (".*")$', sidecar_path(model).read_text(), re.M))


CHANGED: dict[str, list[tuple[str, ...]]] = {
    "rename": [("rename", "green", "grey")],
    "join": [("rename", "green", "red", "--yes")],
    "forget": [("forget", "green", "--yes")],
    "several": [("rename", "green", "grey"), ("forget", "red", "--yes"), ("rename", "grey", "blue", "--yes")],
}


@pytest.mark.parametrize("keep", [0, 5], ids=["all", "few"])
@pytest.mark.parametrize("case", CHANGED)
def test_undo_takes_back_changes_of_classes_byte_for_byte_and_the_photos_are_known_as_before(
    photos, model, monkeypatch, case, keep
):
    """Also where most photos are older than the journal."""
    if keep:
        paint(photos, "red", 6, start=50)
        monkeypatch.setattr("votestream.model_store.stored_model.CALL_PHOTOS", 2)
        assert run("learn", photos, "--model", model, "--journal", keep).exit_code == 0
    before, known, was = model.read_bytes(), noted(model), counts(model)
    for change, *arguments in CHANGED[case]:
        assert run(change, model, *arguments).exit_code == 0
    assert counts(model) != was
    paint(photos, "later", 3, colour=(250, 250, 0), start=70)
    run("learn", photos, "--model", model)
    assert run("undo", model, "--last-run").exit_code == 0
    for _ in CHANGED[case]:
        told = run("undo", model)
        assert told.exit_code == 0, told.output
        assert told.stdout.startswith("Undone: ")
    assert model.read_bytes() == before
    shutil.rmtree(photos / "later")
    assert "nothing new" in learn(photos, model)
    assert noted(model) == known


def test_undo_lists_what_it_can_take_back_and_names_the_files(photos, model):
    run("rename", model, "green", "grey")
    os.rename(photos / "green", photos / "grey")
    paint(photos, "red", 2, start=50)
    learn(photos, model)
    before = state(model)
    listed = run("undo", model, "--list")
    assert listed.exit_code == 0
    assert state(model) == before
    lines = listed.stdout.splitlines()
    assert sorted(line.partition(str(photos))[2] for line in lines[:2]) == [
        "/red/photo 50.png: red",
        "/red/photo 51.png: red",
    ]
    assert lines[2].endswith("green renamed to grey")
    assert lines[-1] == "To undo the newest N of them: --photos N."
    assert len(lines) == 2 + 1 + 21 + 1
    told = run("undo", model, "--last-run")
    assert "2 photos undone: red 2." in told.stdout
    assert f"{photos}/red/photo 50.png" in told.stdout
    told = run("undo", model, "--photos", 3)
    assert told.stdout.startswith("Undone: green renamed to grey.\n2 photos undone: ")
    assert run("undo", model, "--list", "--last-run").exit_code == 2


# ---- merge --------------------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path, model):
    """A second model, which has learned one class more and two photos that the first knows."""
    paint(tmp_path / "elsewhere", "grey", 5)
    paint(tmp_path / "elsewhere", "red", 2)
    run("learn", tmp_path / "elsewhere", "--model", model.with_name("other"), "--backbone", "pixels")
    return model.with_name("other")


def test_merged_models_know_all_classes_and_all_photos(photos, model, other, tmp_path):
    before = state(model)
    out = tmp_path / "both"
    result = run("merge", model, other, "--out", out)
    assert result.exit_code == 0
    assert result.stdout == f"{out}: 28 photos of 4 classes.\n"
    assert "more than one of the models had learned 2 photos" in result.stderr
    assert counts(out) == {"red": 8, "green": 7, "blue": 8, "grey": 5}
    assert state(model) == before
    for folder in (photos, tmp_path / "elsewhere"):
        assert "nothing new" in learn(folder, out)
    X = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)
    plain = vs.merge([vs.load(model), vs.load(other)])
    assert np.array_equal(vs.load(out).predict_proba(X), plain.predict_proba(X))


def test_a_merge_killed_before_its_model_is_written_is_done_again(model, other, tmp_path, monkeypatch):
    out = tmp_path / "both"
    for moment in ("before", "after"):
        assert run_and_kill(monkeypatch, 2 - (moment == "after"), moment, "merge", model, other, "--out", out)
        assert not out.exists()
    assert run("merge", model, other, "--out", out).exit_code == 0
    assert sum(counts(out).values()) == 28
    assert len(sidecar_path(out).read_text().splitlines()) == 29


# ---- what cannot be done ------------------------------------------------------------------------


@pytest.fixture
def wrong_place(model, other, photos):
    folder = model.parent
    by = "--backbone", "pixels", "--learner", "candidates_voting"
    run("learn", photos, "--model", folder / "paper's", *by)
    vs.NearestClassMean().partial_fit([[1.0]], ["a"]).save(folder / "features")
    run("learn", photos.parent / "elsewhere", "--model", folder / "slda", "--backbone", "pixels", "--learner", "slda")
    paint(photos.parent / "one", "red", 2)
    run("learn", photos.parent / "one", "--model", folder / "one", "--backbone", "pixels")
    return folder


WRONG = {
    "forget nobody": (
        lambda f: ["forget", f / "m", "pink", "--yes"],
        "has no class pink: its classes are blue, green, red.",
    ),
    "forget the only class": (lambda f: ["forget", f / "one", "red", "--yes"], "'red' is the only class"),
    "forget without a model": (lambda f: ["forget", f / "none", "red", "--yes"], "There is no model file at"),
    "rename nobody": (lambda f: ["rename", f / "m", "pink", "rose"], "has no class pink"),
    "rename onto another": (
        lambda f: ["rename", f / "paper's", "red", "blue", "--yes"],
        "cannot make one class of two",
    ),
    "rename features": (lambda f: ["rename", f / "features", "a", "b"], "trained on features"),
    "merge two learners": (lambda f: ["merge", f / "m", f / "slda", "--out", f / "new"], "merge"),
    "merge exemplars": (lambda f: ["merge", f / "paper's", f / "m", "--out", f / "new"], "merge"),
    "merge onto a model": (lambda f: ["merge", f / "m", f / "other", "--out", f / "slda"], "slda exists already"),
    "merge one with itself": (lambda f: ["merge", f / "m", f / "m", "--out", f / "new"], "named twice"),
    "merge nothing": (lambda f: ["merge", f / "m", f / "none", "--out", f / "new"], "no model file at"),
    "merge one": (lambda f: ["merge", f / "m", "--out", f / "new"], "give two models or more"),
}


def test_what_cannot_be_changed_is_said_in_a_sentence_and_nothing_is_changed(wrong_place):
    for case, (arguments, sentence) in WRONG.items():
        before = state(wrong_place / "m")
        result = run(*arguments(wrong_place))
        assert (result.exit_code, result.stdout) == (2, ""), case
        assert sentence in result.stderr, case
        assert state(wrong_place / "m") == before, case


# ---- killed at any moment -----------------------------------------------------------------------

CHANGES = {"forget": ("green", "--yes"), "rename": ("green", "grey")}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_killed_at_any_write_has_been_or_has_not(photos, model, monkeypatch, change, moment):
    start, command = state(model), (change, model, *CHANGES[change])
    steps = run_and_kill(monkeypatch, 0, moment, *command)
    changed = model.read_bytes()
    assert steps == 6
    for step in range(1, steps + 1):
        for path, blob in start.items():
            path.write_bytes(blob)
        run_and_kill(monkeypatch, step, moment, *command)
        with open_for_change(model):  # as any command does, it finishes what was begun
            pass
        done = model.read_bytes() == changed
        assert done or model.read_bytes() == start[model]
        if done and change == "rename":
            os.rename(photos / "green", photos / "grey")
        learn(photos, model)
        named = "grey" if done and change == "rename" else "green"
        assert counts(model) == {"red": 6, named: 7, "blue": 8}
        assert "nothing new" in learn(photos, model)
        if named == "grey":
            os.rename(photos / "grey", photos / "green")
