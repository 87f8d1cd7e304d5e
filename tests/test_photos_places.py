"""What lies where `votestream learn` writes: links, pipes, folders and other people's files."""

from __future__ import annotations

import os

import pytest

from painted import counts, paint, run
from votestream.model_store.paths import journal_path, sidecar_path

OURS = ["shop.safetensors", "shop.safetensors.journal", "shop.safetensors.learned"]


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green"):
        paint(tmp_path / "photos", label, 5)
    return tmp_path / "photos"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models" / "shop.safetensors"


def learn(photos, model):
    return run("learn", photos, "--model", model, "--backbone", "pixels")


def test_a_link_to_a_model_is_written_through_and_nothing_is_learned_twice(photos, model, tmp_path):
    learn(photos, model)
    link = tmp_path / "latest"
    os.symlink("models/shop.safetensors", link)
    assert "nothing new" in learn(photos, link).stdout
    paint(photos, "red", 2, start=50)
    assert "2 photos of 1 class learned" in learn(photos, link).stdout
    assert link.is_symlink()
    assert counts(model) == counts(link) == {"red": 7, "green": 5}
    assert "nothing new" in learn(photos, model).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "models", "photos"]
    assert sorted(path.name for path in model.parent.iterdir()) == OURS


def test_a_link_to_a_model_that_is_not_there_yet_begins_it_there(photos, model, tmp_path):
    os.symlink("models/shop.safetensors", tmp_path / "latest")
    assert learn(photos, tmp_path / "latest").exit_code == 0
    assert counts(model) == {"red": 5, "green": 5}
    os.symlink("circle", tmp_path / "circle")
    result = learn(photos, tmp_path / "circle")
    assert (result.exit_code, "leads back to itself" in result.stderr) == (2, True)


def test_a_link_to_a_sidecar_elsewhere_is_written_through(photos, model, tmp_path):
    os.symlink("../learned", sidecar_path(model))
    learn(photos, model)
    assert "nothing new" in learn(photos, model).stdout
    assert (model.parent / "shop.safetensors.learned").is_symlink()
    assert len((tmp_path / "learned").read_text().splitlines()) == 12


NAMES = {
    "sidecar": "shop.safetensors.learned",
    "its new version": ".shop.safetensors.learned.partial",
    "journal": "shop.safetensors.journal",
    "lock": ".shop.safetensors.lock",
}
THINGS = {
    "a device": lambda path: os.symlink(os.devnull, path),
    "a folder": lambda path: path.mkdir(),
    "a foreign file": lambda path: path.write_text("Dear diary, today we learned nothing.\n"),
}
if hasattr(os, "mkfifo"):  # Windows has none
    THINGS["a pipe"] = os.mkfifo


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("place", NAMES)
@pytest.mark.parametrize("known", [True, False])
def test_what_is_not_ours_is_named_and_left_alone_and_nobody_waits_for_it(photos, model, place, thing, known):
    if known:
        learn(photos, model)
        sidecar_path(model).unlink()
        journal_path(model).unlink()
    path = model.parent / NAMES[place]
    THINGS[thing](path)

    def now():
        about = path.lstat()  # not when it was last read, which reading it here changes
        content = path.read_bytes() if path.is_file() else None
        return about.st_ino, about.st_mode, about.st_size, about.st_mtime_ns, content, model.exists()

    before = now()
    result = learn(photos, model)
    assert result.exit_code == 2
    assert f"{path} is in the way: `votestream learn` " in result.stderr
    assert "Move it away." in result.stderr
    assert now() == before
    assert set(model.parent.iterdir()) <= {model, path}
    (path.rmdir if thing == "a folder" else path.unlink)()
    assert learn(photos, model).exit_code == 0


def test_what_a_killed_run_left_is_not_in_the_way(photos, model):
    learn(photos, model)
    (model.parent / NAMES["lock"]).touch()
    (model.parent / NAMES["its new version"]).write_bytes(sidecar_path(model).read_bytes()[:20])
    paint(photos, "red", 1, start=50)
    assert learn(photos, model).exit_code == 0
    assert sorted(path.name for path in model.parent.iterdir()) == OURS
