"""`votestream learn` from a folder behind a URL: the same rules as for a folder here."""

from __future__ import annotations

import pytest

import votestream as vs
from painted import paint, run
from votestream.model_store.paths import sidecar_path

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green"):
        paint(tmp_path / "photos", label, 12)
    return tmp_path / "photos"


@pytest.fixture
def url(photos):
    system = fsspec.filesystem("memory")
    system.put(str(photos), "/shop/photos", recursive=True)
    yield "memory://shop/photos"
    system.rm("/shop", recursive=True)


@pytest.fixture
def model(tmp_path):
    return tmp_path / "shop.safetensors"


def test_photos_behind_a_url_are_learned_as_those_here(photos, url, model, tmp_path):
    here = tmp_path / "here.safetensors"
    for folder, file in ((photos, here), (url, model)):
        told = run("learn", folder, "--model", file, "--backbone", "pixels")
        assert told.exit_code == 0, told.output
    assert model.read_bytes() == here.read_bytes()
    assert vs.load(model).class_counts_.tolist() == [12, 12]


def test_no_photo_is_learned_twice_from_wherever_it_comes(photos, url, model):
    assert run("learn", url, "--model", model, "--backbone", "pixels").exit_code == 0
    for folder in (url, photos):
        again = run("learn", folder, "--model", model)
        assert "There was nothing new to learn." in again.stdout
    assert len(sidecar_path(model).read_text().splitlines()) == 2 + 24
    fsspec.filesystem("memory").put(str(photos / "red"), "/shop/photos/blue", recursive=True)
    fsspec.filesystem("memory").rm("/shop/photos/red", recursive=True)
    moved = run("learn", url, "--model", model)
    assert vs.load(model).classes_.tolist() == ["blue", "green"], moved.output


def test_the_rules_for_folders_hold_behind_a_url(url, model):
    system = fsspec.filesystem("memory")
    system.pipe("/shop/photos/readme.txt", b"hello")
    system.pipe("/shop/photos/red/broken.jpg", b"")
    told = run("learn", url, "--model", model, "--backbone", "pixels")
    assert told.exit_code == 1
    assert "memory://shop/photos/readme.txt lies in no class folder." in told.stderr.replace(":///", "://")
    assert "broken.jpg is an empty file." in told.stderr
    nested = run("learn", "memory://shop", "--model", model.with_name("other.safetensors"), "--backbone", "pixels")
    assert nested.exit_code == 2
    assert "folders of folders (photos/green, photos/red)" in nested.stderr


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("memory://shop/none", "There is no folder memory://shop/none."),
        ("memory://shop/photos/red/0.png", "is a file: give the folder"),
        ("nosuch://shop", "nosuch://shop cannot be opened: Protocol not known: nosuch."),
    ],
)
def test_a_url_without_photos_is_named(url, model, place, told):
    if place.endswith("0.png"):
        place = "memory:/" + sorted(fsspec.filesystem("memory").find("/shop/photos/red"))[0]
    said = run("learn", place, "--model", model)
    assert said.exit_code == 2
    assert told in said.stderr


def test_a_table_of_photos_says_how_python_learns_it(model, tmp_path):
    (tmp_path / "data.parquet").touch()
    said = run("learn", tmp_path / "data.parquet", "--model", model)
    assert said.exit_code == 2
    assert "model.partial_fit('" in said.stderr
