"""The working files of every version that was released are read: photos stay known, lessons can be taken back."""

from __future__ import annotations

import json
import shutil

import pytest
from PIL import Image

import golden_files
import golden_working_files as working
from conftest import one_thread
from votestream.photos.corrections import undo
from votestream.photos.photo_list import list_photos
from votestream.photos.training import LearnResult
from votestream.serve.engine.changes import Undo
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.settings import EngineSettings

FOLDERS = sorted(path.relative_to(golden_files.FOLDER) for path in golden_files.FOLDER.glob("*/working"))


@pytest.fixture(params=FOLDERS, ids=str)
def folder(request, tmp_path):
    """A copy, which may be written to."""
    with one_thread():
        yield shutil.copytree(golden_files.FOLDER / request.param, tmp_path / "working")


def test_there_are_working_files():
    assert FOLDERS


def test_photos_are_known_again_and_their_journal_begins_anew(folder):
    """Version 0.3 measures how far samples are from their classes in another way, so journals of 0.2 do not replay."""
    model = folder / working.PHOTOS
    again: LearnResult = working.teach_photos(model, folder / "photos")
    assert (again.learned, sum(again.known.values())) == ({}, len(list_photos(folder / "photos").photos))
    assert [note.partition(".journal ")[2].partition(":")[0] for note in again.notes] == [
        "does not belong to the model as it is now"
    ]
    Image.new("RGB", (8, 8), (250, 0, 0)).save(folder / "photos" / "elm" / "new.png")
    assert sum(working.teach_photos(model, folder / "photos").learned.values()) == 1
    undone = undo(model, 1)
    assert (sum(undone.photos.values()), undone.left) == (1, 0)


def test_a_service_goes_on_with_its_lessons_and_takes_them_back(folder):
    served, remarks = open_model(folder / working.ROWS, EngineSettings(undo_reach=5))
    try:
        answers = json.loads((folder / "answers.json").read_text())["rows"]
        assert served.learner.predict(golden_files.queries(False)).tolist() == answers
        assert remarks == []
        (undone,) = served.change([(Undo(), None)])
        assert undone.about == {"lesson": 9, "kind": "learn", "label": "elm"}
    finally:
        served.journal.close()
