"""The journal beside a model: undo, photos moved to another class, and being killed at any moment."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import votestream as vs
from killing import run_and_kill
from painted import counts, paint, run
from votestream.model_store.journal import read_journal
from votestream.model_store.paths import journal_path, sidecar_path
from votestream.model_store.stored_model import learner_maker
from votestream.pipeline import ImageClassifier

LEARNERS = ["gaussian_voting", "candidates_voting", "slda"]


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green"):
        paint(tmp_path / "photos", label, 10)
    return tmp_path / "photos"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models" / "shop.safetensors"


def learn(photos, model, *more):
    begin = () if model.exists() else ("--backbone", "pixels")
    result = run("learn", photos, "--model", model, *begin, *more)
    assert result.exit_code == 0, result.output
    return result


def move(photos, number, before, after):
    (photos / after).mkdir(exist_ok=True)
    shutil.move(photos / before / f"photo {number}.png", photos / after / f"moved {before} {number}.png")


def journal_in(model):
    journal, _, _ = read_journal(journal_path(model), learner_maker("cpu"))
    return journal


# ---- undo ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_undo_gives_the_model_from_before_byte_for_byte_and_the_same_again_when_relearned(photos, model, learner):
    learn(photos, model, "--learner", learner)
    before = model.read_bytes()
    paint(photos, "blue", 12)
    paint(photos, "red", 3, start=50)
    learn(photos, model)
    after = model.read_bytes()
    result = run("undo", model, "--photos", 15)
    assert result.exit_code == 0
    assert "15 photos undone: blue 12, red 3." in result.stdout
    assert "Classes removed: blue." in result.stdout
    assert "has learned 20 photos now; 19 more can be undone." in result.stdout
    assert model.read_bytes() == before
    learn(photos, model)
    assert model.read_bytes() == after


@pytest.mark.parametrize("learner", LEARNERS)
def test_undo_takes_the_track_record_back_too(photos, model, learner):
    X = sorted(photos.rglob("*.png"))[::2]
    tracked = vs.ImageClassifier("pixels", vs.create(learner, track=True, device="cpu"))
    tracked.partial_fit(X, [path.parent.name for path in X]).save(model)
    learn(photos, model)
    before = model.read_bytes()
    paint(photos, "blue", 12)
    learn(photos, model)
    assert vs.load(model).track_record().samples > 0
    assert run("undo", model, "--photos", 12).exit_code == 0
    assert model.read_bytes() == before


def test_undo_in_steps_is_undo_at_once_and_ends_within_a_call(photos, model):
    learn(photos, model)
    copy = model.with_name("copy")
    for suffix in ("", ".learned", ".journal"):
        shutil.copy(f"{model}{suffix}", f"{copy}{suffix}")
    for photos_undone in (1, 3, 3):
        run("undo", model, "--photos", photos_undone)
    run("undo", copy, "--photos", 7)
    assert model.read_bytes() == copy.read_bytes()
    assert sum(counts(model).values()) == 13
    journal = journal_in(model)
    assert len(journal) == 13
    plain = vs.create("gaussian_voting", block=1, track=True, device="cpu")
    plain.partial_fit(np.concatenate([call.features for call in journal.calls]), journal.labels, task="run 1")
    plain = ImageClassifier("pixels", plain)
    plain.save(copy)
    assert model.read_bytes() == copy.read_bytes()


def test_undo_takes_one_photo_unless_told_and_a_photo_removed_stays_forgotten(photos, model):
    learn(photos, model)
    paint(photos, "red", 1, (0, 0, 0), start=50)
    learn(photos, model)
    before = counts(model)
    assert "1 photo undone: red 1." in run("undo", model).stdout
    (photos / "red" / "photo 50.png").unlink()
    assert "nothing new" in learn(photos, model).stdout
    assert counts(model) == {**before, "red": before["red"] - 1}


def test_the_old_name_of_the_option_still_works(photos, model):
    learn(photos, model)
    assert "3 photos undone: " in run("undo", model, "--lessons", 3).stdout


def test_what_undo_cannot_do_is_said_and_nothing_is_changed(photos, model, tmp_path):
    def refused(*arguments):
        before = {path: path.read_bytes() for path in model.parent.iterdir()}
        result = run("undo", *arguments)
        assert {path: path.read_bytes() for path in model.parent.iterdir()} == before
        assert (result.exit_code, result.stdout) == (2, "")
        return result.stderr

    assert "There is no model file at" in refused(model)
    learn(photos, model)
    assert "21 photos cannot be undone: the journal has only the newest 20." in refused(model, "--photos", 21)
    assert "undo everything" in refused(model, "--photos", 20)
    assert "Usage:" in refused(model, "--photos", 0)
    vs.NearestClassMean().partial_fit([[1.0]], ["a"]).save(model.with_name("features"))
    assert "trained on features" in refused(model.with_name("features"))
    ranpac = vs.ImageClassifier("pixels", vs.RanPAC(projection=20, device="cpu"))
    ranpac.partial_fit(sorted((photos / "red").iterdir()), ["red"] * 10).save(model.with_name("uncounted"))
    assert "counts no photos" in refused(model.with_name("uncounted"))
    vs.load(model).partial_fit([photos / "red" / "photo 1.png"], ["red"]).save(model)
    assert "does not belong to the model as it is now" in refused(model)
    journal_path(model).unlink()
    assert "has no journal. `votestream learn --journal 0`" in refused(model)


# ---- what the journal holds ---------------------------------------------------------------------


def test_the_journal_holds_the_newest_lessons_and_no_more_than_a_call_besides(photos, model, monkeypatch):
    monkeypatch.setattr("votestream.backbones.backbone.default_batch_size", lambda *_: 10)
    learn(photos, model, "--journal", 15)
    assert len(journal_in(model)) == 20
    paint(photos, "red", 30, start=50)
    learn(photos, model, "--journal", 15)
    assert len(journal_in(model)) == 20  # two calls of ten
    before = model.read_bytes()
    paint(photos, "blue", 20)
    learn(photos, model, "--journal", 15)
    run("undo", model, "--photos", 20)
    assert model.read_bytes() == before


def test_journal_0_keeps_none_and_removes_the_one_there_is(photos, model):
    learn(photos, model)
    assert journal_path(model).exists()
    learn(photos, model, "--journal", 0)  # nothing new
    assert not journal_path(model).exists()
    paint(photos, "blue", 5)
    learn(photos, model, "--journal", 0)
    assert sorted(path.name for path in model.parent.iterdir()) == ["shop.safetensors", "shop.safetensors.learned"]
    assert counts(model) == {"red": 10, "green": 10, "blue": 5}


def test_the_journal_makes_no_difference_to_the_model(photos, model):
    learn(photos, model)
    learn(photos, model.with_name("plain"), "--journal", 0)
    assert model.read_bytes() == model.with_name("plain").read_bytes()


def test_a_journal_of_another_model_is_said_to_be_and_begun_anew(photos, model):
    learn(photos, model)
    old = model.read_bytes()
    paint(photos, "blue", 5)
    learn(photos, model)
    model.write_bytes(old)
    result = learn(photos, model)
    assert "note: " in result.stderr
    assert "does not belong to the model as it is now: a new journal is begun" in result.stderr
    assert counts(model) == {"red": 10, "green": 10, "blue": 5}
    assert run("undo", model, "--photos", 5).exit_code == 0
    assert model.read_bytes() == old
    assert learn(photos, model).stderr == ""


def test_a_damaged_journal_is_named_not_crashed(photos, model):
    learn(photos, model)
    blob = bytearray(journal_path(model).read_bytes())
    blob[-3] ^= 1
    journal_path(model).write_bytes(blob)
    assert "is damaged" in run("undo", model).stderr
    assert "is damaged, or not a journal that this version can read: a new journal" in learn(photos, model).stderr


def test_a_model_cannot_be_loaded_from_a_journal(photos, model):
    learn(photos, model)
    with pytest.raises(vs.ModelFileError):
        vs.load(journal_path(model))


def test_inspect_says_what_the_journal_holds(photos, model):
    learn(photos, model)
    assert "Journal: the features of the newest 20 photos, in shop.safetensors.journal" in run("inspect", model).stdout
    assert json.loads(run("inspect", model, "--json").stdout)["journal"] == 20
    learn(photos, model, "--journal", 0)
    assert "Journal: none." in run("inspect", model).stdout
    assert json.loads(run("inspect", model, "--json").stdout)["journal"] is None


# ---- photos moved to another class --------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_moved_photo_is_corrected_as_if_it_had_always_lain_there(photos, model, learner, tmp_path):
    learn(photos, model, "--learner", learner)
    journal = journal_in(model)
    move(photos, 3, "red", "green")
    result = learn(photos, model)
    assert "Moved to another class, and corrected: 1 photo, " in result.stdout
    assert "from red to green" in result.stdout
    assert counts(model) == {"red": 9, "green": 11}
    corrected = journal_in(model)
    changed = [i for i, pair in enumerate(zip(journal.labels, corrected.labels, strict=True)) if len(set(pair)) == 2]
    assert [(journal.labels[i], corrected.labels[i]) for i in changed] == [("red", "green")]
    plain = vs.ImageClassifier("pixels", corrected.base)
    for call in corrected.calls:
        plain.partial_fit_features(call.features, call.labels, call.task)
    plain.save(tmp_path / "plain")
    assert model.read_bytes() == (tmp_path / "plain").read_bytes()
    assert "nothing new" in learn(photos, model).stdout


def test_photos_moved_back_give_the_first_model_back(photos, model):
    learn(photos, model)
    before = model.read_bytes()
    for number in range(3):
        move(photos, number, "red", "blue")
    assert "3 photos" in learn(photos, model).stdout
    assert counts(model) == {"red": 7, "green": 10, "blue": 3}
    for number in range(3):
        shutil.move(photos / "blue" / f"moved red {number}.png", photos / "red" / f"photo {number}.png")
    shutil.rmtree(photos / "blue")
    learn(photos, model)
    assert model.read_bytes() == before


def test_a_moved_photo_and_new_ones_are_learned_in_one_run(photos, model):
    learn(photos, model)
    move(photos, 3, "red", "green")
    paint(photos, "blue", 4)
    result = learn(photos, model)
    assert "4 photos of 1 class learned" in result.stdout
    assert "corrected: 1 photo" in result.stdout
    assert counts(model) == {"red": 9, "green": 11, "blue": 4}
    assert "nothing new" in learn(photos, model).stdout


def test_where_the_journal_does_not_reach_a_moved_photo_counts_in_both_and_that_is_said(photos, model):
    learn(photos, model, "--journal", 0)
    move(photos, 3, "red", "green")
    result = learn(photos, model)
    assert "but no longer in the journal, so that they count in both: 1 photo, " in result.stdout
    assert counts(model) == {"red": 10, "green": 11}
    assert "nothing new" in learn(photos, model).stdout


def test_a_photo_copied_to_another_class_counts_in_both(photos, model):
    learn(photos, model)
    shutil.copy(photos / "red" / "photo 3.png", photos / "green" / "copy.png")
    result = learn(photos, model)
    assert "1 photo of 1 class learned" in result.stdout
    assert "Moved" not in result.stdout
    assert counts(model) == {"red": 10, "green": 11}


def test_a_dry_run_tells_moved_photos_and_writes_nothing(photos, model):
    learn(photos, model)
    move(photos, 3, "red", "green")
    before = {path: path.read_bytes() for path in model.parent.iterdir()}
    assert "and would be corrected: 1 photo" in run("learn", photos, "--model", model, "--dry-run").stdout
    assert {path: path.read_bytes() for path in model.parent.iterdir()} == before


def test_a_sidecar_of_0_1_0_still_knows_its_photos(photos, model):
    import hashlib

    learn(photos, model, "--journal", 0)
    lines = ["# Digests of the photos that shop.safetensors has learned."]
    for number, path in enumerate(sorted(photos.rglob("*.png")), 1):
        digest = hashlib.blake2b(f"{path.parent.name}\0".encode() + path.read_bytes(), digest_size=16).hexdigest()
        lines.append(f"{digest} {number}")
    sidecar_path(model).write_text("\n".join(lines) + "\n")
    assert "Already known: 20 photos." in learn(photos, model).stdout
    paint(photos, "red", 1, start=50)
    assert "1 photo of 1 class learned" in learn(photos, model).stdout
    assert "nothing new" in learn(photos, model).stdout


# ---- killed at any moment -----------------------------------------------------------------------


def change(photos):
    """New photos of a new class, and one moved."""
    paint(photos, "blue", 8)
    move(photos, 3, "red", "green")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("keep", "reached"), [(12, False), (1000, True)])
def test_learn_killed_at_any_write_ends_as_if_it_had_not_been(photos, model, monkeypatch, moment, keep, reached):
    monkeypatch.setattr("votestream.photos.training.SAVE_SHARE", 1)  # after every batch
    monkeypatch.setattr("votestream.backbones.backbone.default_batch_size", lambda *_: 10)
    learn(photos, model, "--journal", keep)
    start = {path: path.read_bytes() for path in model.parent.iterdir()}
    change(photos)
    command = "learn", photos, "--model", model, "--journal", keep
    steps = run_and_kill(monkeypatch, 0, moment, *command)
    # Sidecar, journal and model for the new photos; the same for the moved one, the sidecar twice; the journal.
    assert steps == (8 if reached else 7)
    whole, held = model.read_bytes(), journal_in(model).keys
    assert counts(model)["red"] == (9 if reached else 10)
    for step in range(1, steps + 1):
        for path, blob in start.items():
            path.write_bytes(blob)
        run_and_kill(monkeypatch, step, moment, *command)
        vs.load(model)
        run(*command)
        assert model.read_bytes() == whole
        assert journal_in(model).keys == held
        assert "nothing new" in run(*command).stdout


@pytest.mark.parametrize("moment", ["before", "after"])
def test_undo_killed_at_any_write_has_been_or_has_not(photos, model, monkeypatch, moment):
    learn(photos, model)
    start = {path: path.read_bytes() for path in model.parent.iterdir()}
    steps = run_and_kill(monkeypatch, 0, moment, "undo", model, "--photos", 3)
    undone = model.read_bytes()
    assert steps == 5
    for step in range(1, steps + 1):
        for path, blob in start.items():
            path.write_bytes(blob)
        run_and_kill(monkeypatch, step, moment, "undo", model, "--photos", 3)
        assert model.read_bytes() in (start[model], undone)
        result = run("learn", photos, "--model", model)  # whatever was taken back lies in the folders still
        assert counts(model) == {"red": 10, "green": 10}
        assert result.exit_code == 0
        run("undo", model, "--photos", 3)
        assert sum(counts(model).values()) == 17


def test_an_undo_that_was_interrupted_is_finished_by_the_next_command_and_that_is_said(photos, model, monkeypatch):
    learn(photos, model)
    run_and_kill(monkeypatch, 4, "before", "undo", model, "--photos", 3)
    assert sum(counts(model).values()) == 20
    assert "note: A change of this model had been interrupted: it is finished now." in learn(photos, model).stderr
    assert learn(photos, model).stderr == ""
