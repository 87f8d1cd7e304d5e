"""`votestream learn --on`: photos learned by many workers, with the same report, sidecar and rules."""

from __future__ import annotations

import shutil

import pytest

import votestream as vs
from painted import counts, paint, run
from votestream.distributed.executor import Here, WorkerDied
from votestream.model_store.paths import journal_path, sidecar_path
from votestream.model_store.sidecar import PhotoDigests
from votestream.photos import parallel_training
from votestream.photos.parallel_training import DigestTable


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green"):
        paint(tmp_path / "photos", label, 12)
    return tmp_path / "photos"


@pytest.fixture
def model(tmp_path):
    return tmp_path / "shop.safetensors"


@pytest.fixture
def here(monkeypatch):
    """Workers are this process, and chunks hold five photos."""
    monkeypatch.setattr(parallel_training, "make_executor", lambda *given: Here())
    whole = parallel_training.learn_photos_in_parallel
    monkeypatch.setattr(parallel_training, "learn_photos_in_parallel", lambda *given: whole(*given, chunk=5))


def learn(folder, model, *more):
    return run("learn", folder, "--model", model, *more)


def test_processes_learn_a_folder_as_this_process_does_with_the_same_report(photos, model, tmp_path):
    (photos / "red" / "broken.png").write_bytes(b"no photo")
    alone = tmp_path / "alone.safetensors"
    here = learn(photos, alone, "--backbone", "pixels")
    told = learn(photos, model, "--backbone", "pixels", "--on", "processes", "--workers", "1")
    assert told.exit_code == here.exit_code == 1, told.output
    ours, theirs = (told.stdout.replace(str(file), "MODEL") for told, file in ((told, model), (here, alone)))
    theirs = "".join(line for line in theirs.splitlines(True) if not line.startswith("Accuracy now"))  # untested here
    assert ours.replace("green, red", "red, green") == theirs  # class by class, as photos are not mixed
    assert "broken.png is not an image" in told.stderr
    assert counts(model) == counts(alone) == {"green": 12, "red": 12}
    noted, expected = (
        {(line.split()[0], line.split()[2]) for line in sidecar_path(file).read_text().splitlines()[2:]}
        for file in (model, alone)
    )
    assert len(noted) == 24
    assert noted == expected
    refused = run("undo", model)
    assert refused.exit_code == 2
    assert "`learn --on`" in " ".join(refused.stderr.split())


def test_no_photo_is_learned_twice_by_whomever(photos, model, here):
    assert learn(photos, model, "--backbone", "pixels").exit_code == 0
    before = model.read_bytes()
    again = learn(photos, model, "--on", "processes")
    assert "There was nothing new to learn." in again.stdout
    assert "Already known: 24 photos." in again.stdout
    assert model.read_bytes() == before
    paint(photos, "blue", 7)
    more = learn(photos, model, "--on", "processes")
    assert "7 photos of 1 class learned" in more.stdout
    assert "New classes, in task run 2: blue." in more.stdout
    assert "There was nothing new to learn." in learn(photos, model).stdout
    assert counts(model) == {"blue": 7, "green": 12, "red": 12}


def test_the_journal_is_cleared_and_that_is_said(photos, model, here):
    learn(photos, model, "--backbone", "pixels")
    assert journal_path(model).exists()
    paint(photos, "blue", 7)
    told = learn(photos, model, "--on", "processes")
    assert "The journal was deleted: photos that workers learned cannot be undone." in told.stderr
    assert not journal_path(model).exists()
    paint(photos, "grey", 3)
    assert "3 photos of 1 class learned" in learn(photos, model).stdout
    assert run("undo", model, "--photos", "3").exit_code == 0
    assert counts(model) == {"blue": 7, "green": 12, "red": 12}
    assert run("undo", model, "--photos", "1").exit_code == 2


def test_a_photo_that_was_moved_counts_in_both_classes_and_is_named(photos, model, here):
    learn(photos, model, "--backbone", "pixels", "--on", "processes")
    shutil.move(photos / "red" / "photo 3.png", photos / "green" / "moved.png")
    told = learn(photos, model, "--on", "processes")
    assert "moved.png from red to green" in told.stdout
    assert counts(model) == {"green": 13, "red": 12}


def test_copies_are_passed_over_in_a_chunk_and_counted_twice_beyond(photos, model, here):
    shutil.copy(photos / "green" / "photo 0.png", photos / "green" / "photo 0 copy.png")
    shutil.copy(photos / "green" / "photo 0.png", photos / "green" / "z copy.png")
    told = learn(photos, model, "--backbone", "pixels", "--on", "processes")
    assert "Identical copies: 1. Copies that several workers learned, which count twice: 1." in told.stdout
    assert counts(model) == {"green": 13, "red": 12}
    assert "There was nothing new to learn." in learn(photos, model).stdout


class Interrupted(Here):
    def run(self, make, items):
        for number, result in super().run(make, items):
            if number == 2:
                raise KeyboardInterrupt
            yield number, result


def test_ctrl_c_leaves_the_model_as_it_was_and_tells_of_the_store(photos, model, here, monkeypatch, tmp_path):
    monkeypatch.setattr(parallel_training, "make_executor", lambda *given: Interrupted())
    told = learn(photos, model, "--backbone", "pixels", "--on", "processes")
    assert told.exit_code == 130
    assert "there is no model yet. With --store FOLDER, finished parts would have been kept." in told.stderr
    assert not model.exists()
    assert not sidecar_path(model).exists()
    store = tmp_path / "parts"
    told = learn(photos, model, "--backbone", "pixels", "--on", "processes", "--store", store)
    assert "run the same command to continue" in told.stderr
    assert len(list(store.glob("*/*.part"))) == 3
    monkeypatch.setattr(parallel_training, "make_executor", lambda *given: Here())
    told = learn(photos, model, "--backbone", "pixels", "--on", "processes", "--store", store)
    assert told.exit_code == 0, told.output
    assert counts(model) == {"green": 12, "red": 12}


def test_learners_that_cannot_be_merged_learn_in_order(photos, model, here, tmp_path):
    alone = tmp_path / "alone.safetensors"
    options = ("--backbone", "pixels", "--learner", "candidates_voting", "--budget", "10")
    learn(photos, alone, *options)
    told = learn(photos, model, *options, "--on", "processes")
    assert told.exit_code == 0, told.output
    assert vs.load(model).exemplars_.features.tolist() == vs.load(alone).exemplars_.features.tolist()


def test_photos_behind_a_url_are_opened_by_the_workers(photos, model, here):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.put(str(photos), "/shop/photos", recursive=True)
    try:
        told = learn("memory://shop/photos", model, "--backbone", "pixels", "--on", "processes")
        assert told.exit_code == 0, told.output
        assert counts(model) == {"green": 12, "red": 12}
    finally:
        system.rm("/shop", recursive=True)


def test_what_cannot_be_done_is_said_in_a_sentence(photos, model, here, monkeypatch):
    told = learn(photos, model, "--workers", "2")
    assert told.exit_code == 2
    assert "needs --on processes or --on ray" in told.stderr
    monkeypatch.undo()
    told = learn(photos, model, "--backbone", "pixels", "--on", "clouds")
    assert "on must be 'here', 'processes', 'ray' or 'ray://HOST:PORT', got 'clouds'." in told.stderr

    class Dying(Here):
        def run(self, make, items):
            raise WorkerDied(0, "photos")

    monkeypatch.setattr(parallel_training, "make_executor", lambda *given: Dying())
    told = learn(photos, model, "--backbone", "pixels", "--on", "processes")
    assert told.exit_code == 2
    assert "3 workers died at item 0" in told.stderr


def test_known_photos_are_found_among_many_and_others_are_not():
    entries = [(f"{number:032x}", "oak" if number % 2 else "elm") for number in range(0, 2000, 3)]
    known = DigestTable([*entries, ("f" * 32, None), (f"{3:032x}", "fig")])
    assert all(known.has_learned(PhotoDigests(digest), label) for digest, label in entries)
    assert not any(known.has_digest(PhotoDigests(f"{number:032x}")) for number in range(1, 2000, 3))
    assert known.has_learned(PhotoDigests(f"{3:032x}"), "fig")
    assert not known.has_learned(PhotoDigests(f"{3:032x}"), "elm")
    assert known.holds_dated
    assert known.has_learned(PhotoDigests("0" * 31 + "1", dated="f" * 32), "any")
    assert not known.has_digest(PhotoDigests("f" * 32))
