"""`votestream learn`, `predict` and `inspect`, as people with folders of photos meet them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from PIL import Image

import votestream as vs
from painted import COLOURS, counts, paint, put, run
from votestream.cli.main import app
from votestream.model_store.model_file import photo_learners
from votestream.model_store.paths import sidecar_path
from votestream.pipeline import ImageClassifier
from votestream.pipeline.prediction_details import PredictionDetails
from votestream.streams import sample_images

OURS = ["shop.safetensors", "shop.safetensors.journal", "shop.safetensors.learned"]
SOURCE = {"PYTHONPATH": str(Path(vs.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Here as in the processes started: on a busy machine threads that wait for each other take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    for label in ("red", "green"):
        paint(folder, label, 30)
    return folder


@pytest.fixture
def model(tmp_path):
    return tmp_path / "shop.safetensors"


@pytest.fixture(params=["gaussian_voting", "candidates_voting"])
def taught(photos, model, request):
    """A model of two tasks on the tiny backbone, by either of the learners that vote."""
    begin = "--backbone", "pixels", "--learner", request.param
    assert run("learn", photos, "--model", model, *begin).exit_code == 0
    for label in ("blue", "grey"):
        paint(photos, label, 30)
    assert run("learn", photos, "--model", model).exit_code == 0
    return model


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- learn --------------------------------------------------------------------------------------


def test_a_folder_a_class_is_learned_and_summed_up(photos, model):
    result = run("learn", photos, "--model", model, "--backbone", "pixels")
    assert result.exit_code == 0
    assert "60 photos of 2 classes learned" in result.stdout
    assert "New classes, in task run 1:" in result.stdout
    assert "uncompressed at the 2 x 2 pixels" in result.stdout
    assert result.stderr == ""
    assert counts(model) == {"red": 30, "green": 30}
    assert left_in(model.parent) == ["photos", *OURS]


def test_learn_ends_with_accuracy_mistakes_and_what_to_do_next(tmp_path, model):
    for label, n in (("red", 40), ("green", 40), ("blue", 3)):
        paint(tmp_path / "photos", label, n)
    paint(tmp_path / "photos", "crimson", 40, COLOURS["red"])
    lines = run("learn", tmp_path / "photos", "--model", model, "--backbone", "pixels").stdout.splitlines()
    accuracy, mistakes, next_, *steps = lines[-6:]
    tested = vs.load(model).track_record().lately.tested
    assert re.match(r"Accuracy now: \d+ % \(95 % interval \d+ to \d+ %\), measured on the newest", accuracy)
    assert f"newest {tested} photos, each before it was learned." in accuracy
    assert re.match(r"Most frequent mistakes: (red as crimson|crimson as red) \(\d+\)", mistakes)
    assert next_ == "Next:"
    assert steps[0] == "  add photos of blue: fewer than 10 were learned"
    assert steps[1].startswith(f"  votestream predict {model} PHOTO ")
    assert steps[2].startswith(f"  votestream evaluate {model} FOLDER ")
    paint(tmp_path / "photos", "blue", 40, start=50)
    lines = run("learn", tmp_path / "photos", "--model", model).stdout.splitlines()
    assert re.match(r"  add photos of (red|crimson), the class with the lowest accuracy \(\d+ %\)", lines[-3])


def test_a_single_class_needs_a_second_one(tmp_path, model):
    paint(tmp_path / "photos", "red", 3)
    lines = run("learn", tmp_path / "photos", "--model", model, "--backbone", "pixels").stdout.splitlines()
    assert "  add a folder with photos of a second class, and run the same command again" in lines


def test_next_week_it_goes_on_with_new_folders_and_new_photos_only(taught, photos):
    assert counts(taught) == {"red": 30, "green": 30, "blue": 30, "grey": 30}
    assert vs.load(taught).tasks_ == ["run 1", "run 2"]
    assert sorted(vs.load(taught).task_of_class_.tolist()) == [0, 0, 1, 1]
    paint(photos, "red", 5, start=100)
    result = run("learn", photos, "--model", taught)
    assert "5 photos of 1 class learned" in result.stdout
    assert "Old classes with new photos: red." in result.stdout
    assert "Already known: 120 photos." in result.stdout
    assert counts(taught)["red"] == 35
    before = taught.read_bytes()
    result = run("learn", photos, "--model", taught)
    assert "nothing new" in result.stdout
    assert result.exit_code == 0
    assert taught.read_bytes() == before


def test_the_learner_is_gaussian_voting_unless_another_is_named_and_stays(photos, model):
    learn = "learn", photos, "--model", model, "--backbone", "pixels"
    assert run(*learn).exit_code == 0
    assert isinstance(vs.load(model).learner_, vs.GaussianVoting)
    model.unlink()
    assert run(*learn, "--learner", "candidates_voting").exit_code == 0
    paint(photos, "blue", 5)
    assert run("learn", photos, "--model", model).exit_code == 0
    learner = vs.load(model).learner_
    assert isinstance(learner, vs.CandidatesVoting)
    assert learner.budget == 2000
    assert len(learner.classes_) == 3
    assert run(*learn, "--learner", "candidates_voting", "--budget", 2000).exit_code == 0  # what it is anyway


def test_a_model_begun_in_python_goes_on_with_its_own_settings(photos, model):
    X = sorted((photos / "red").iterdir())[:5]
    vs.ImageClassifier("pixels", vs.GaussianVoting(rank=3, block=7)).partial_fit(X, ["red"] * 5).save(model)
    run("learn", photos, "--model", model)
    assert (vs.load(model).learner_.rank, vs.load(model).learner_.block) == (3, 7)
    assert counts(model) == {"red": 35, "green": 30}


def test_every_learner_that_is_offered_learns_answers_and_is_inspected(photos, tmp_path):
    offered = photo_learners()
    assert {"gaussian_voting", "candidates_voting", "slda", "ncm", "knn"} <= set(offered)
    assert not {"image_classifier", "joint", "ranpac"} & set(offered)
    for name in offered:
        model = tmp_path / name
        assert run("learn", photos, "--model", model, "--backbone", "pixels", "--learner", name).exit_code == 0
        assert counts(model) == {"red": 30, "green": 30}
        assert ": red " in run("predict", model, photos / "red" / "photo 1.png").stdout
        assert f"Learner: {name}" in run("inspect", model).stdout


def test_new_photos_of_the_last_tasks_classes_still_train_its_weights(photos, model, tmp_path):
    run("learn", photos, "--model", model, "--backbone", "pixels", "--learner", "candidates_voting")
    weights = vs.load(model).learner_.weights_
    paint(tmp_path / "more", "red", 20, start=100)
    run("learn", tmp_path / "more", "--model", model)
    assert not np.array_equal(vs.load(model).learner_.weights_, weights)


@pytest.mark.parametrize("learner", [(), ("--learner", "candidates_voting", "--budget", 10)])
def test_the_model_does_not_grow_with_what_is_known_of_photos(photos, model, learner):
    run("learn", photos, "--model", model, "--backbone", "pixels", *learner)
    before = model.stat().st_size
    paint(photos, "red", 200, start=100)
    run("learn", photos, "--model", model)
    assert model.stat().st_size < before + 100
    lines = sidecar_path(model).read_text().splitlines()
    assert len(lines) == 2 + 260
    assert max(map(len, lines[1:])) <= 43 + len(' "green"')


def test_the_seed_makes_the_model(photos, model, tmp_path):
    files = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run("learn", photos, "--model", tmp_path / name, "--backbone", "pixels", "--seed", seed)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1] != files[2]


def test_a_task_can_be_named(photos, model):
    result = run("learn", photos, "--model", model, "--backbone", "pixels", "--task", "week 7")
    assert "in task week 7" in result.stdout
    assert vs.load(model).tasks_ == ["week 7"]


def test_a_lost_sidecar_only_means_that_photos_count_as_new(photos, model):
    run("learn", photos, "--model", model, "--backbone", "pixels")
    sidecar_path(model).unlink()
    assert "60 photos" in run("learn", photos, "--model", model).stdout
    assert counts(model) == {"red": 60, "green": 60}
    assert "nothing new" in run("learn", photos, "--model", model).stdout


def test_a_model_begun_anew_does_not_believe_the_old_ones_sidecar(photos, model):
    run("learn", photos, "--model", model, "--backbone", "pixels")
    model.unlink()
    run("learn", photos, "--model", model, "--backbone", "pixels")
    assert counts(model) == {"red": 30, "green": 30}


def test_an_older_copy_put_back_learns_again_what_it_had_not_learned(photos, model):
    run("learn", photos, "--model", model, "--backbone", "pixels")
    old = model.read_bytes()
    paint(photos, "blue", 30)
    run("learn", photos, "--model", model)
    model.write_bytes(old)
    assert "30 photos of 1 class learned" in run("learn", photos, "--model", model).stdout
    assert counts(model) == {"red": 30, "green": 30, "blue": 30}


@pytest.mark.parametrize(
    "spoil",
    [
        b"",
        b"# Digests of the ph",
        b"# Digests of the photos that \xff\x00\n",
        b"nonsense\n" + b"a" * 32 + b" 1",
    ],
)
def test_a_damaged_sidecar_is_taken_for_what_is_left_of_it(photos, model, spoil):
    run("learn", photos, "--model", model, "--backbone", "pixels", "--journal", 0)
    sidecar_path(model).write_bytes(spoil)
    assert run("learn", photos, "--model", model).exit_code == 0
    assert counts(model) == {"red": 60, "green": 60}


def test_the_same_photo_twice_in_a_class_is_one_and_in_two_classes_two(photos, model):
    photo = photos / "red" / "photo 0.png"
    for copy in (photos / "red" / "copy.png", photos / "green" / "moved.png"):
        copy.write_bytes(photo.read_bytes())
    result = run("learn", photos, "--model", model, "--backbone", "pixels")
    assert "Already known: 0 photos. Identical copies: 1. Skipped: 0." in result.stdout
    assert counts(model) == {"red": 30, "green": 31}
    again = run("learn", photos, "--model", model).stdout
    assert "Already known: 61 photos. Identical copies: 1. Skipped: 0." in again


def test_names_may_hold_anything_and_litter_is_passed_over(tmp_path, model):
    folder = tmp_path / "my photos [2024]"
    paint(folder, "Bücher & Bäume", 10, (200, 40, 40))
    paint(folder, "[red]", 10, (40, 40, 200))
    paint(folder / "[red]", "older ones/very old", 5, (40, 40, 210))
    for litter in (".DS_Store", "[red]/Thumbs.db", "[red]/desktop.ini", "[red]/.hidden.png", ".git/x/photo.png"):
        (folder / litter).parent.mkdir(parents=True, exist_ok=True)
        (folder / litter).write_text("no photo")
    result = run("learn", folder, "--model", model, "--backbone", "pixels")
    assert (result.exit_code, result.stderr) == (0, "")
    assert counts(model) == {"Bücher & Bäume": 10, "[red]": 15}
    assert "[red]" in run("inspect", model).stdout


def test_a_folders_accents_mean_the_same_however_they_are_composed(tmp_path, model):
    paint(tmp_path / "mac", "B\u0075\u0308che", 10, (200, 40, 40))
    paint(tmp_path / "linux", "B\u00fcche", 10, (200, 40, 41), start=50)
    run("learn", tmp_path / "mac", "--model", model, "--backbone", "pixels")
    run("learn", tmp_path / "linux", "--model", model)
    assert counts(model) == {"B\u00fcche": 20}


def test_a_link_upwards_does_not_lead_to_other_classes(photos, model):
    os.symlink(photos, photos / "red" / "all", target_is_directory=True)
    assert run("learn", photos, "--model", model, "--backbone", "pixels").exit_code == 0
    assert counts(model) == {"red": 30, "green": 30}


def test_rotated_photos_are_learned_as_a_viewer_shows_them(tmp_path):
    """The top half is red, in one file as stored, in the other because its EXIF says so."""
    upright = np.zeros((64, 64, 3), np.uint8)
    upright[:32] = COLOURS["red"]
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter to the right
    put(tmp_path / "upright" / "a" / "1.png", upright)
    put(tmp_path / "turned" / "a" / "1.png", np.rot90(upright), exif=exif)
    means = []
    for folder in ("upright", "turned"):
        run("learn", tmp_path / folder, "--model", tmp_path / folder / "m", "--backbone", "pixels")
        means.append(vs.load(tmp_path / folder / "m").class_means_)
    assert np.array_equal(*means)


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe among the files")
def test_a_warning_of_damaged_exif_names_the_photo(tmp_path):
    """Pillow's own does not, and photos are read in threads."""
    photos = paint_exif(tmp_path, exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0\x01\0\0\0")
    told = run("learn", photos, "--model", tmp_path / "m.safetensors", "--backbone", "pixels")
    assert told.exit_code == 0, told.output
    notes = [line for line in told.stderr.splitlines() if "Corrupt EXIF data" in line]
    assert [line.partition(": Corrupt")[0] for line in notes] == [f"note: {photos / 'red' / 'damaged.jpg'}"]
    asked = run("predict", tmp_path / "m.safetensors", photos / "red")
    assert f"{photos / 'red' / 'damaged.jpg'}: Corrupt EXIF data" in asked.stderr


def paint_exif(folder, exif):
    paint(folder / "photos", "red", 3)
    paint(folder / "photos", "green", 3)
    put(folder / "photos" / "red" / "damaged.jpg", np.full((8, 8, 3), (200, 40, 40), np.uint8), exif=exif)
    return folder / "photos"


def test_bad_files_are_named_and_skipped_and_the_rest_is_learned(photos, model):
    red = photos / "red"
    (red / "text.jpg").write_text("this is text")
    (red / "empty.jpg").touch()
    (red / "cut.png").write_bytes((red / "photo 0.png").read_bytes()[:60])
    (photos / "loose.png").write_bytes((red / "photo 0.png").read_bytes())
    (photos / "nothing in it").mkdir()
    (photos / "all broken").mkdir()
    (photos / "all broken" / "1.jpg").write_text("text")
    os.symlink("nowhere", red / "dangling.png")
    os.mkfifo(red / "pipe.png")
    put(red / "huge.png", np.zeros((100, 100, 3), np.uint8))
    result = run("learn", photos, "--model", model, "--backbone", "pixels", "--max-pixels", 5000)
    assert result.exit_code == 1
    told = result.stderr.splitlines()
    for name in ("text.jpg", "empty.jpg", "cut.png", "loose.png", "nothing in it", "dangling.png", "pipe.png"):
        assert sum(name in line for line in told) == 1, name
    assert any("huge.png is too large" in line and "give --max-pixels 10000" in line for line in told)
    assert any("No photo of the class all broken could be read" in line for line in told)
    assert all(line.startswith("Skipped: ") for line in told)
    assert len(told) == 10
    assert "Skipped: 10." in result.stdout
    assert counts(model) == {"red": 30, "green": 30}
    assert "nothing new" in run("learn", photos, "--model", model, "--max-pixels", 5000).stdout
    told = run("predict", model, red / "huge.png", "--max-pixels", 5000).stderr
    assert "huge.png is too large: 100 x 100 pixels, where 5,000 in all are read" in told
    assert run("predict", model, red / "huge.png", "--max-pixels", 10_000).exit_code == 0
    assert "1 photo of 1 class learned" in run("learn", photos, "--model", model).stdout


def test_heic_photos_without_their_package_are_named_with_what_to_install(photos, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed: importing it fails
    (photos / "red" / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    result = run("learn", photos, "--model", model, "--backbone", "pixels")
    assert result.exit_code == 1
    for part in ("IMG_1.HEIC is a HEIC photo", "pip install 'votestream[heic]'", "-e '.[heic]'"):
        assert part in result.stderr
    assert counts(model) == {"red": 30, "green": 30}


def test_heic_photos_are_learned_and_recognised(photos, model):
    pillow_heif = pytest.importorskip("pillow_heif")
    for name in ("red", "green"):
        image = Image.new("RGB", (64, 64), tuple(COLOURS[name]))
        pillow_heif.from_pillow(image).save(photos / name / "IMG_1.HEIC", quality=95)
    assert run("learn", photos, "--model", model, "--backbone", "pixels").exit_code == 0
    assert counts(model) == {"red": 31, "green": 31}
    assert "green" in run("predict", model, photos / "green" / "IMG_1.HEIC").stdout.split(":")[1]


WRONG = {
    "no such folder": (lambda f: ["learn", f / "none", "--model", f / "m"], "There is no folder"),
    "a file": (lambda f: ["learn", f / "foreign", "--model", f / "m"], "is a file: give the folder"),
    "no class folders": (lambda f: ["learn", f / "photos" / "red", "--model", f / "m"], "no class folder"),
    "nothing readable": (lambda f: ["learn", f / "unreadable", "--model", f / "m"], "No photo could be read"),
    "model is a folder": (lambda f: ["learn", f / "photos", "--model", f], "is a folder: name the model file"),
    "no folder for it": (lambda f: ["learn", f / "photos", "--model", f / "no" / "m"], "no for the model m"),
    "a foreign file": (lambda f: ["learn", f / "photos", "--model", f / "foreign"], "not a VoteStream model"),
    "a model on features": (lambda f: ["learn", f / "photos", "--model", f / "features"], "trained on features"),
    "another backbone": (
        lambda f: ["learn", f / "photos", "--model", f / "old", "--backbone", "reduced_resnet18"],
        "with the backbone pixels, not reduced_resnet18",
    ),
    "another learner": (
        lambda f: ["learn", f / "photos", "--model", f / "old", "--learner", "slda"],
        "made with the learner gaussian_voting, which cannot change: leave --learner out",
    ),
    "another budget": (lambda f: ["learn", f / "photos", "--model", f / "paper's", "--budget", 9], "budget of 2000"),
    "a budget for an old model without": (
        lambda f: ["learn", f / "photos", "--model", f / "old", "--budget", 9],
        "made with gaussian_voting, which keeps no exemplars: leave --budget out",
    ),
    "a budget for a new model without": (
        lambda f: ["learn", f / "photos", "--model", f / "m", "--budget", 9],
        "choose a learner that keeps them, candidates_voting or ",
    ),
    "no such learner": (
        lambda f: ["learn", f / "photos", "--model", f / "m", "--learner", "gauss"],
        "There is no learner for photos called gauss: choose candidates_voting, ",
    ),
    "a learner on images": (
        lambda f: ["learn", f / "photos", "--model", f / "m", "--learner", "image_classifier"],
        "There is no learner for photos called image_classifier",
    ),
    "a learner that keeps everything": (
        lambda f: ["learn", f / "photos", "--model", f / "m", "--learner", "joint"],
        "There is no learner for photos called joint",
    ),
    "an old model that cannot tell what it learned": (
        lambda f: ["learn", f / "photos", "--model", f / "uncounted"],
        "uses the learner ranpac, which counts no photos",
    ),
    "no such backbone": (
        lambda f: ["learn", f / "photos", "--model", f / "m", "--backbone", "pixel"],
        "Did you mean 'pixels'",
    ),
    "no such device": (lambda f: ["learn", f / "photos", "--model", f / "old", "--device", "abacus"], "device must be"),
    "predict without a model": (lambda f: ["predict", f / "none", f / "photos"], "no model file at"),
    "predict by a foreign file": (lambda f: ["predict", f / "foreign", f / "photos"], "not a VoteStream model"),
    "predict by features": (lambda f: ["predict", f / "features", f / "photos"], "trained on features"),
    "inspect nothing": (lambda f: ["inspect", f / "none"], "no model file at"),
    "inspect a foreign file": (lambda f: ["inspect", f / "foreign"], "not a VoteStream model"),
    "inspect a folder": (lambda f: ["inspect", f / "photos"], "no model file at"),
}


@pytest.fixture(scope="module")
def wrong_place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    for label in ("red", "green"):
        paint(folder / "photos", label, 3)
    run("learn", folder / "photos", "--model", folder / "old", "--backbone", "pixels")
    by = ("--learner", "candidates_voting")
    run("learn", folder / "photos", "--model", folder / "paper's", "--backbone", "pixels", *by)
    ranpac = vs.ImageClassifier("pixels", vs.RanPAC(projection=20, device="cpu"))
    ranpac.partial_fit(sorted((folder / "photos" / "red").iterdir()), ["red"] * 3).save(folder / "uncounted")
    (folder / "unreadable" / "a").mkdir(parents=True)
    (folder / "unreadable" / "a" / "b.jpg").write_text("text")
    (folder / "foreign").write_text("some text")
    vs.CandidatesVoting(device="cpu").partial_fit(np.eye(4), ["a", "b", "c", "d"]).save(folder / "features")
    return folder


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_done_is_said_in_a_sentence_and_nothing_is_written(wrong_place, case):
    arguments, sentence = WRONG[case]
    before = {path: path.read_bytes() for path in wrong_place.rglob("*") if path.is_file()}
    result = run(*arguments(wrong_place))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""
    assert result.stderr.endswith(".\n")
    assert {path: path.read_bytes() for path in wrong_place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "arguments",
    [["learn"], ["learn", "."], ["learn", ".", "--model", "m", "--budget", "0"], ["predict", "m"], ["inspect"]],
)
def test_a_command_without_what_it_needs_is_wrong_usage(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_a_model_of_a_backbone_that_changed_is_refused(taught, photos, monkeypatch):
    changed = vs.from_module(vs.create_backbone("pixels")._network, input_size=2, name="pixels", feature_scale=3.0)
    monkeypatch.setattr("votestream.backbones.reference.create_backbone", lambda name, device: changed)
    for command in (["learn", photos, "--model", taught], ["predict", taught, photos]):
        result = run(*command)
        assert result.exit_code == 2
        assert "whose features are different" in result.stderr


def test_a_write_protected_target_is_told_before_any_photo_is_read(photos, model, monkeypatch):
    model.parent.chmod(0o555)
    if os.access(model.parent, os.W_OK):  # whoever may do everything is not stopped by permissions
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != model.parent)
    try:
        result = run("learn", photos, "--model", model, "--backbone", "pixels")
    finally:
        model.parent.chmod(0o755)
    assert result.exit_code == 2
    assert "write-protected" in result.stderr
    assert not model.exists()


def test_a_full_disk_is_told_and_the_next_run_goes_on(photos, model, monkeypatch):
    def full(self, path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ImageClassifier, "save", full)
        result = run("learn", photos, "--model", model, "--backbone", "pixels")
    assert result.exit_code == 2
    assert "cannot be written: No space left on device." in result.stderr
    assert run("learn", photos, "--model", model, "--backbone", "pixels").exit_code == 0
    assert counts(model) == {"red": 30, "green": 30}


def test_two_runs_on_one_model_do_not_undo_each_other(photos, model):
    from filelock import FileLock

    with FileLock(model.with_name(f".{model.name}.lock")):
        result = run("learn", photos, "--model", model, "--backbone", "pixels")
    assert result.exit_code == 2
    assert "in use by another run" in result.stderr


def test_more_classes_than_exemplars_is_told(photos, model):
    by = ("--learner", "candidates_voting")
    result = run("learn", photos, "--model", model, "--backbone", "pixels", *by, "--budget", 1)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: there are more classes than the budget of 1 exemplars")
    assert result.stderr.count("\n") == 1


# ---- stopping -----------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.parametrize("learner", ["gaussian_voting", "candidates_voting"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("save", [1, 2, 4])
def test_killed_while_saving_every_photo_is_still_learned_exactly_once(
    photos, model, monkeypatch, save, moment, learner
):
    """The sidecar is written, the model is not, or just is: the next run knows which."""
    monkeypatch.setattr("votestream.photos.training.SAVE_SHARE", 1)  # after every batch
    monkeypatch.setattr("votestream.backbones.backbone.default_batch_size", lambda *_: 10)
    whole, begin = model.with_name("whole"), ("--backbone", "pixels", "--learner", learner)
    run("learn", photos, "--model", whole, *begin)
    real, calls = ImageClassifier.save, []

    def die(self, path):
        calls.append(path)
        if len(calls) == save and moment == "before":
            raise Killed
        real(self, path)
        if len(calls) == save:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(ImageClassifier, "save", die)
        with pytest.raises(Killed):
            run("learn", photos, "--model", model, *begin)
    assert len(calls) == save
    run("learn", photos, "--model", model, *begin)
    assert counts(model) == {"red": 30, "green": 30}
    assert model.read_bytes() == whole.read_bytes()


LEARNERS = {"ours": (), "paper's": ("--learner", "candidates_voting", "--budget", "50")}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """250 real photos of ten classes, and the models that runs without interruption make of them."""
    folder = tmp_path_factory.mktemp("shelf")
    images, labels = sample_images("test")
    for number, (image, label) in enumerate(zip(images[::2], labels[::2], strict=True)):
        put(folder / "photos" / label / f"{number}.png", image)
    for name, learner in LEARNERS.items():
        done = run("learn", folder / "photos", "--model", folder / name, *learner, "--device", "cpu")
        assert done.exit_code == 0
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("how", "whole"), [("SIGKILL", "ours"), ("SIGINT", "ours"), ("SIGKILL", "paper's")])
def test_a_run_stopped_in_the_middle_goes_on_as_if_it_had_never_stopped(shelf, tmp_path, how, whole):
    """Exactly once each, not twice for the batch in hand; in fact the same file, byte for byte."""
    model = tmp_path / "shop.safetensors"
    arguments = ["learn", str(shelf / "photos"), "--model", str(model), *LEARNERS[whole], "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "votestream", *arguments],
        env={**os.environ, **SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not model.exists() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.Signals[how])
    stdout, stderr = process.communicate(timeout=60)
    if how == "SIGKILL":
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert stdout == ""
        assert stderr.startswith("note: The backbone is reduced_resnet18, because the images have 32 pixels")
        assert stderr.splitlines()[1].startswith("Interrupted: ")
        assert stderr.count("\n") == 2
    assert 0 < sum(counts(model).values()) < 250
    assert run(*arguments).exit_code == 0
    assert counts(model) == dict.fromkeys(counts(shelf / whole), 25)
    assert model.read_bytes() == (shelf / whole).read_bytes()
    assert left_in(tmp_path) == OURS


# ---- predict ------------------------------------------------------------------------------------


def test_every_file_gets_its_label_confidence_and_the_vote_in_words(taught, photos):
    result = run("predict", taught, photos / "red" / "photo 3.png", photos / "blue", "--why")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 31
    files = [photos / "red" / "photo 3.png", *sorted((photos / "blue").iterdir())]
    for path, line, label in zip(files, lines, vs.load(taught).predict(files), strict=True):
        assert line.startswith(f"{path}: {label} ")
        assert " %  (second: " in line
    by_exemplars = isinstance(vs.load(taught).learner_, vs.CandidatesVoting)
    assert ("the nearest exemplar is of red" if by_exemplars else "; task run 1 is ") in lines[0]
    assert ("exemplar" in result.stdout) == by_exemplars


def test_a_prediction_is_one_short_line_unless_the_reasons_are_asked_for(taught, photos):
    photo = photos / "red" / "photo 3.png"
    short = run("predict", taught, photo).stdout
    assert re.fullmatch(rf"{re.escape(str(photo))}: (red|grey) \d+ %\n", short)
    assert run("predict", taught, photo, "--why").stdout.startswith(f"{short[:-1]}  (second: ")


def test_json_gives_the_models_own_numbers_in_order(taught, photos):
    files = [photos / label / f"photo {n}.png" for n in range(20) for label in COLOURS]
    result = run("predict", taught, "--json", *files)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["file"] for answer in answers] == list(map(str, files))
    model = vs.load(taught)
    sure, vote = model.confidence(files), model.vote(files)
    assert [answer["label"] for answer in answers] == model.predict(files).tolist()
    for row, answer in enumerate(answers):
        assert answer["confidence"] == pytest.approx(sure[row], abs=1e-5)
        top = [entry["probability"] for entry in answer["probabilities"]]
        assert len(top) == 4
        assert top == sorted(top, reverse=True)
        assert answer["vote"]["candidates"] == vote.candidates[row].tolist()
        for name in ("s_hat", "prior", "score"):
            assert answer["vote"][name] == pytest.approx(getattr(vote, name)[row], abs=1e-5)
        assert answer["vote"]["gamma"] == pytest.approx(vote.gamma[row], abs=1e-5)
        assert answer["vote"]["winner_task"] == vote.winner_task[row]
        assert ("nearest_exemplar" in answer["vote"]) == isinstance(model.learner_, vs.CandidatesVoting)


def test_no_more_than_five_probabilities_are_given(shelf):
    photo = next((shelf / "photos" / "frog").iterdir())
    answer = json.loads(run("predict", shelf / "ours", photo, "--json").stdout)
    assert len(answer["probabilities"]) == 5


def words_and_numbers(shelf, name):
    """A model of all classes and, in a second task, of red squares, and what it says about cats."""
    paint(shelf / "later", "red", 40)
    both = shelf / f"{name} and red"
    both.write_bytes((shelf / name).read_bytes())
    run("learn", shelf / "later", "--model", both)
    folder = shelf / "photos" / "cat"
    numbers = [json.loads(line) for line in run("predict", both, folder, "--json").stdout.splitlines()]
    return zip(run("predict", both, folder, "--why").stdout.splitlines(), numbers, strict=True)


def test_the_words_say_what_the_numbers_of_weights_and_exemplars_say(shelf):
    told = set()
    for line, answer in words_and_numbers(shelf, "paper's"):
        first, second = (entry["label"] for entry in answer["probabilities"][:2])
        assert f": {first} {100 * answer['confidence']:.0f} %" in line
        assert f"second: {second}" in line
        assert f"the nearest exemplar is of {answer['vote']['nearest_exemplar']}" in line
        s_hat, prior = answer["vote"]["s_hat"], answer["vote"]["prior"]
        mine, other = first == "red", second == "red"
        if mine == other:
            why = "the weights decide between classes of one task"
        elif s_hat[mine] >= s_hat[other]:
            why = (
                "weights and exemplars agree"
                if prior[mine] >= prior[other]
                else "the weights decide, against the exemplars"
            )
        else:
            why = "the exemplars decide, against the weights"
        assert why in line
        told.add(why)
    assert len(told) > 1


def test_the_words_say_what_the_numbers_of_densities_say(shelf):
    for line, answer in words_and_numbers(shelf, "ours"):
        (first, p), (second, _) = (entry.values() for entry in answer["probabilities"][:2])
        prior, s_hat = answer["vote"]["prior"][first == "red"], answer["vote"]["s_hat"][first == "red"]
        assert p == pytest.approx(prior * s_hat, abs=1e-5)
        assert f": {first} {100 * answer['confidence']:.0f} %  (second: {second} " in line
        task = "run 2" if first == "red" else "run 1"
        assert f"; task {task} is {100 * prior:.0f} % likely, and {first} {100 * s_hat:.0f} % within it)" in line


def test_a_class_that_wins_against_the_likelier_task_is_said_to():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 2)), np.repeat(["twin", "other twin", "loner"], 300)
    X[y == "loner", 0] += 2
    learner = vs.GaussianVoting(device="cpu").partial_fit(X[:600], y[:600], task="twins").partial_fit(X[600:], y[600:])
    words = [words for _, words in PredictionDetails(learner.snapshot(), np.array([[1.1, 0], [5, 0]], np.float32))]
    assert words[0].startswith("loner ")
    assert "although task twins is more likely, " in words[0]
    assert "; task 2 is 100 % likely, and loner 100 % within it)" in words[1]


def test_a_single_task_is_not_spoken_of(shelf):
    photo = next((shelf / "photos" / "frog").iterdir())
    assert "task" not in run("predict", shelf / "ours", photo, "--why").stdout


def test_broken_files_are_named_on_stderr_and_the_rest_is_answered(taught, photos, tmp_path):
    (tmp_path / "text.jpg").write_text("text")
    (tmp_path / "leer").mkdir()
    good = photos / "red" / "photo 1.png"
    result = run(
        "predict", taught, "--json", tmp_path / "text.jpg", good, tmp_path / "leer", tmp_path / "none.png", good
    )
    assert result.exit_code == 1
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == [str(good)] * 2
    for name in ("text.jpg", "leer", "none.png"):
        assert name in result.stderr


@pytest.mark.parametrize(
    "learner", [vs.CandidatesVoting(decide="nearest", device="cpu"), vs.StreamingLDA(device="cpu")]
)
def test_a_model_that_decides_without_a_vote_is_not_misquoted(photos, model, learner):
    X = sorted((photos / "red").iterdir())[:5] + sorted((photos / "green").iterdir())[:5]
    vs.ImageClassifier("pixels", learner).partial_fit(X, ["red"] * 5 + ["green"] * 5).save(model)
    assert "second: green" in (text := run("predict", model, X[0], "--why").stdout)
    assert "exemplar" not in text
    assert "task" not in text
    assert "vote" not in json.loads(run("predict", model, "--json", X[0]).stdout)


def test_one_class_is_no_choice(tmp_path, model):
    paint(tmp_path / "one", "red", 5)
    run("learn", tmp_path / "one", "--model", model, "--backbone", "pixels")
    assert "red  (the only class that the model knows)" in run("predict", model, tmp_path / "one", "--why").stdout


def test_a_model_taught_numbers_from_python_goes_on_with_folders_of_those_names(tmp_path, model):
    paint(tmp_path / "photos", "0", 5, (200, 40, 40))
    X = sorted((tmp_path / "photos" / "0").iterdir())
    vs.ImageClassifier("pixels", vs.CandidatesVoting(device="cpu")).partial_fit(X, [0] * 5).save(model)
    run("learn", tmp_path / "photos", "--model", model)
    assert counts(model) == {0: 10}


# ---- inspect ------------------------------------------------------------------------------------


def test_inspect_tells_classes_tasks_counts_and_memory(taught):
    result = run("inspect", taught)
    assert result.exit_code == 0
    model = vs.load(taught)
    learner = model.learner_
    for text in ("4 classes in 2 tasks, 120 photos learned", "run 2", "Backbone: pixels, digest"):
        assert text in result.stdout
    assert f"Learner: {learner.name} on 12 features" in result.stdout
    assert "the 120 photos would take 1.4 kB, uncompressed at the 2 x 2 pixels" in result.stdout
    about = json.loads(run("inspect", taught, "--json").stdout)
    assert about["images_bytes"] == 120 * 2 * 2 * 3
    assert about["file_bytes"] == taught.stat().st_size
    assert about["backbone"] == {"name": "pixels", "digest": model.backbone_.digest, "input_size": 2}
    assert {row["label"]: row["learned"] for row in about["classes"]} == counts(taught)
    if isinstance(learner, vs.CandidatesVoting):
        assert sum(row["exemplars"] for row in about["classes"]) == about["exemplars"] == len(model.exemplars_.features)
        assert {row["directions"] for row in about["classes"]} == {None}
        assert "budget=2000" in result.stdout
        assert "and 120 exemplars, each the features of one photo." in result.stdout
    else:
        assert [row["directions"] for row in about["classes"]] == learner.ranks_.tolist()
        assert {about["exemplars"], *(row["exemplars"] for row in about["classes"])} == {None}
        assert "block=1," in result.stdout
        assert "directions" in result.stdout
        assert "exemplars" not in result.stdout
        assert "Kept: statistics of the classes; no photo, and no single photo's features." in result.stdout
    assert [row["task"] for row in about["classes"]] == model.task_of_class_.tolist()
    assert about["version"] == vs.__version__


def test_inspect_says_whose_single_features_a_file_holds(photos, model):
    X = sorted((photos / "red").iterdir())
    held: dict[vs.Learner, str] = {
        vs.NearestClassMean(): "and the features of 30 photos that will be added to them.",
        vs.GaussianVoting(block=20): "and the features of 10 photos that will be added to them.",
        vs.GaussianVoting(block=15): "no photo, and no single photo's features.",
        vs.NearestNeighbours(budget=7): "and 7 exemplars, each the features of one photo.",
        vs.JointProbe(): "Kept: the features of every single photo.",
    }
    for learner, words in held.items():
        vs.ImageClassifier("pixels", learner.set_params(device="cpu")).partial_fit(X, ["red"] * 30).save(model)
        assert words in run("inspect", model).stdout


def test_inspect_does_without_counts_where_a_learner_has_none(wrong_place):
    text = run("inspect", wrong_place / "uncounted").stdout
    assert "1 class in 1 task\n" in text
    assert "would take" not in text
    assert json.loads(run("inspect", wrong_place / "uncounted", "--json").stdout)["learned"] is None


def test_inspect_needs_no_backbone(taught, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the backbone was made")

    monkeypatch.setattr("votestream.backbones.registry.BACKBONES", {})
    monkeypatch.setattr("votestream.pipeline.image_classifier.create_backbone", never)
    assert "Backbone: pixels" in run("inspect", taught).stdout


def test_inspect_tells_of_models_on_features_too(tmp_path):
    path = tmp_path / "m.safetensors"
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    vs.CandidatesVoting(device="cpu").partial_fit(X, y).save(path)
    text = run("inspect", path).stdout
    assert "2 classes in 1 task, 60 samples learned" in text
    assert "task 1" in text
    assert "Backbone" not in text
    assert "uncompressed" not in text
    assert json.loads(run("inspect", path, "--json").stdout)["backbone"] is None


# ---- what a file tells of single photos ---------------------------------------------------------


def statistics(features):
    """What `votestream learn` keeps of one class: its mean and its directions, times their lengths."""
    gaussians = vs.GaussianVoting(block=1, device="cpu").partial_fit(features, ["a"] * len(features)).memory_.gaussians
    return gaussians.means[0], gaussians.factor(0)


def test_classes_of_one_or_two_photos_give_their_features_away_and_inspect_says_so(tmp_path, model):
    x, y = np.random.default_rng(0).normal(size=(2, 12)).astype(np.float32)
    assert np.allclose(statistics(x[None])[0], x)
    mean, (direction,) = statistics(np.stack((x, y)))
    found = sorted((mean + sign * direction / 2**0.5).tolist() for sign in (1, -1))
    assert np.allclose(found, sorted((x.tolist(), y.tolist())), atol=2e-3)
    for label, n in (("red", 1), ("green", 2), ("blue", 3)):
        paint(tmp_path / "few", label, n)
    run("learn", tmp_path / "few", "--model", model, "--backbone", "pixels")
    told = run("inspect", model).stdout.split("classes with one or two photos, where the statistics contain them: ")[1]
    assert sorted(told.split(".")[0].split(", ")) == ["green", "red"]


def test_three_photos_could_have_been_three_others():
    """Turned about their mean, samples keep their mean and scatter, which is all that is known of them."""
    X = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    axis, cross = np.full((3, 3), 1 / 3), np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / 3**0.5
    others = ((np.eye(3) + axis + 3**0.5 * cross) / 2 @ X).astype(np.float32)  # by 60 degrees
    assert min(np.abs(x - other).max() for x in X for other in others) > 0.5
    (mean, factor), (same_mean, same_factor) = statistics(X), statistics(others)
    assert np.allclose(mean, same_mean, atol=1e-5)
    assert np.allclose(factor.T @ factor, same_factor.T @ same_factor, atol=0.02)


# ---- the whole command --------------------------------------------------------------------------


def test_without_a_command_there_is_a_short_overview():
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 9
    commands = [line.split()[1] for line in lines if line.startswith("  votestream ")]
    assert commands == ["demo", "learn", "predict", "evaluate", "serve"]
    assert max(map(len, lines)) <= 104


def commands_of(group, *names):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, *names, name)
        else:
            yield (*names, name), command


def test_every_command_has_an_example_that_names_it_and_options_with_help():
    found = dict(commands_of(typer.main.get_command(app)))
    assert len(found) > 20
    for names, command in found.items():
        assert f"Example: votestream {' '.join(names)}" in command.help, names
        for option in command.params:
            described = (
                option.param_type_name == "argument" or option.help
            )  # old versions of typer keep no help of arguments
            assert option.hidden or described, (names, option.name)


def test_help_does_not_wait_for_the_network_and_tells_the_exit_codes():
    code = "import sys, votestream.cli.main; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **SOURCE}, capture_output=True)
    assert done.stdout.strip() == b"False"
    for command in ("learn", "predict"):
        assert "1 something was skipped" in " ".join(run(command, "--help").stdout.split())
