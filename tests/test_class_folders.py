"""Where the classes lie below a folder: one rule for `votestream learn` and `folder:` streams."""

from __future__ import annotations

import os

import pytest

from votestream.images.class_folders import by_label, layout_of, walk


def make(root, *files):
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return root


PLAIN = {
    "a folder a class": ["oak/1.jpg", "elm/2.jpg"],
    "sorted by date": ["oak/2023/may/1.jpg", "oak/2024/2.jpg", "elm/2025/3.jpg"],
    "some by date": ["oak/1.jpg", "elm/2023/2.jpg", "elm/2024/3.jpg", "ash/2023/4.jpg"],
    "images within each class": ["n01/images/1.jpg", "n02/images/2.jpg"],
    "kinds of kinds": ["trees/oak/1.jpg", "trees/elm/1.jpg", "birds/owl/1.jpg"],
    "one class": ["oak/1.jpg"],
    "one class in a folder": ["oak/new/1.jpg"],
    "classes called train and test among others": ["train/1.jpg", "car/2.jpg", "test/3.jpg"],
    "one called train, by date, among others": ["train/2024/1.jpg", "car/2.jpg", "bus/3.jpg"],
    "locomotives": ["train/1.jpg"],
    "numbered classes": ["sign 1/1.jpg", "sign 2/2.jpg"],
    "an empty one": ["oak/1.jpg", "elm/.hidden"],
}


@pytest.mark.parametrize("case", PLAIN)
def test_folders_that_may_well_be_classes_are_taken_without_a_question(tmp_path, case):
    found = layout_of(make(tmp_path, *PLAIN[case]))
    assert (found.root, found.doubt, found.held_out) == (tmp_path, "", ())
    assert [path.name for path in found.classes] == sorted({name.split("/")[0] for name in PLAIN[case]})


DOUBTFUL = {
    "rounds and a test": (
        ["round1/oak/1.jpg", "round2/elm/2.jpg", "test/oak/3.jpg", "test/elm/4.jpg"],
        "(round1, round2, test), and several of these hold folders called oak, elm.",
        "round1",
    ),
    "rounds and a folder without photos": (
        ["round1/oak/1.jpg", "round2/elm/2.jpg", "notes/read me.txt"],
        "(round1/oak, round2/elm), and no photo a level above",
        "round1",
    ),
    "rounds": (
        ["round1/oak/1.jpg", "round2/elm/2.jpg"],
        "(round1/oak, round2/elm), and no photo a level above",
        "round1",
    ),
    "years": (["2023/oak/1.jpg", "2024/elm/2.jpg"], "(2023/oak, 2024/elm)", "2023"),
    "domains": (["art/cat/1.jpg", "art/dog/2.jpg", "photo/cat/3.jpg"], "folders called cat.", "art"),
    "one level too many": (["trees/oak/1.jpg", "trees/elm/2.jpg"], "(trees/elm, trees/oak)", "trees"),
    "train alone": (["train/oak/1.jpg"], "(train/oak)", "train"),
    "test without train": (["test/oak/1.jpg", "more/elm/2.jpg"], "(more/elm, test/oak)", "more"),
    "a test among the classes": (
        ["oak/1.jpg", "elm/2.jpg", "test/oak/3.jpg", "test/elm/4.jpg"],
        "test holds no photo itself, but folders called elm, oak, as are the classes beside it.",
        None,
    ),
    "parts without classes": (["train/1.jpg", "test/2.jpg"], "nothing but test, train, and photos lie in them", None),
    "classes beside train and test": (
        ["train/oak/1.jpg", "test/oak/2.jpg", "oak/3.jpg"],
        "test holds no photo itself, but folders called oak",
        "train",
    ),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_folders_that_look_like_a_mistake_are_told_with_what_was_seen(tmp_path, case):
    files, told, instead = DOUBTFUL[case]
    found = layout_of(make(tmp_path, *files))
    assert found.root == tmp_path
    assert told in found.doubt
    assert found.instead == (tmp_path / instead if instead else None)


@pytest.mark.parametrize(
    ("files", "held_out", "beside"),
    [
        (["train/oak/1.jpg", "test/oak/2.jpg"], ["test"], []),
        (["train/oak/1.jpg", "val/oak/2.jpg", "test/oak/2.jpg"], ["test", "val"], []),
        (["Train/oak/1.jpg", "Valid/oak/2.jpg"], ["Valid"], []),
        (["training/oak/1.jpg", "validation/oak/2.jpg"], ["validation"], []),
        (["train/oak/1.jpg", "test/unlabelled.jpg"], ["test"], []),
        (["train/oak/1.jpg", "train/readme.txt", "test/oak/2.jpg", "labels/oak.txt"], ["test"], ["labels"]),
    ],
)
def test_train_is_told_from_what_is_held_out(tmp_path, files, held_out, beside):
    found = layout_of(make(tmp_path, *files))
    assert found.root.name.lower() in ("train", "training")
    assert [path.name for path in found.classes] == ["oak"]
    assert [path.name for path in found.held_out] == held_out
    assert [path.name for path in found.beside] == beside
    assert found.doubt == ""


def test_links_to_folders_are_followed_and_those_to_what_is_above_are_not(tmp_path):
    make(tmp_path / "elsewhere", "oak/1.jpg")
    make(tmp_path / "photos", "elm/2.jpg")
    os.symlink(tmp_path / "elsewhere" / "oak", tmp_path / "photos" / "oak", target_is_directory=True)
    os.symlink(tmp_path / "photos", tmp_path / "photos" / "all", target_is_directory=True)
    found = layout_of(tmp_path / "photos")
    assert [path.name for path in found.classes] == ["elm", "oak"]
    assert [path.name for path in walk(tmp_path / "photos" / "oak", [])] == ["1.jpg"]


def test_one_name_composed_in_two_ways_is_one_class(tmp_path):
    make(tmp_path, "Bu\u0308che/1.jpg", "B\u00fcche/2.jpg")
    assert [len(folders) for folders in by_label(layout_of(tmp_path).classes).values()] == [2]
