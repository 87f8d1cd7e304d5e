"""A disk that is full or cannot be written: lessons are refused, predictions go on, and all recovers."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from serve.history import History, do, learn, rows_of, until
from votestream.io import model_files
from votestream.model_store.journal import fingerprint
from votestream.serve.engine import Engine
from votestream.serve.engine.changes import Undo
from votestream.serve.engine.messages import DiskError
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.settings import EngineSettings


@pytest.fixture
def engine(tmp_path):
    opened = Engine.open(tmp_path / "m.safetensors", EngineSettings(backbone="pixels", checkpoint_seconds=1e9))
    yield opened
    opened.close()


def fill(engine):
    """The journal may grow no more."""
    database = engine._model.journal._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")


def make_room(engine):
    engine._model.journal._db.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_refuses_lessons_and_predictions_go_on(engine):
    engine.learn_features(rows_of("cat"), ["cat"]).result()
    before = fingerprint(engine._model.learner)
    fill(engine)
    wide = rows_of("cat", 100, seed=5)
    for _ in range(3):
        with pytest.raises(DiskError, match="not learned: database or disk is full"):
            engine.learn_features(wide, ["dog"] * 100).result()
    assert "disk is full" in engine.problem
    assert fingerprint(engine._model.learner) == before
    answer = engine.predict_features(rows_of("cat")).result().answers[0]
    assert (answer.label, answer.lesson) == ("cat", 1)
    assert engine.describe()["lesson"] == 1
    make_room(engine)
    assert engine.learn_features(rows_of("dog"), ["dog"]).result().lessons[0].lesson == 2
    assert engine.problem is None
    assert engine.statistics()["refused_by_disk"] == 3


def test_a_read_only_disk_refuses_lessons_and_recovers(engine):
    database = engine._model.journal._db
    engine.learn_features(rows_of("cat"), ["cat"]).result()
    database.execute("PRAGMA query_only = ON")
    for change in (lambda: engine.learn_features(rows_of("dog"), ["dog"]), engine.undo):
        with pytest.raises(DiskError, match="readonly database"):
            change().result()
    assert engine.predict_features(rows_of("cat")).result().answers[0].lesson == 1
    database.execute("PRAGMA query_only = OFF")
    assert engine.undo().result().lesson == 2


def test_a_refused_undo_leaves_the_lesson(tmp_path, monkeypatch):
    model, _ = open_model(tmp_path / "m.safetensors", EngineSettings())
    history = History()
    do(model, history, learn("cat", "dog"))
    monkeypatch.setattr(model.journal, "mark_undone", raising(sqlite3.OperationalError("disk I/O error")))
    with pytest.raises(DiskError):
        do(model, history, Undo())
    assert fingerprint(model.learner) == history.fingerprint()
    monkeypatch.undo()
    do(model, history, Undo())
    assert fingerprint(model.learner) == history.fingerprint()
    model.journal.close()


def raising(problem):
    def function(*arguments):
        raise problem

    return function


def test_a_model_file_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    engine = Engine.open(path, EngineSettings(backbone="pixels", checkpoint_changes=2))
    with monkeypatch.context() as patched:
        patched.setattr(model_files, "write", raising(OSError(errno.ENOSPC, "No space left on device")))
        engine.learn_features(rows_of("cat", 2), ["cat", "cat"]).result()
        engine.learn_features(rows_of("dog"), ["dog"]).result()  # after the fold that failed
        assert "No space left on device. The lessons are safe beside it." in engine.problem
        assert engine.predict_features(rows_of("cat")).result().answers[0].lesson == 3
        engine.close()
    assert not path.exists()
    again = Engine.open(path, EngineSettings())
    assert again.describe()["images"] == 3
    again.close()
    assert path.exists()


def test_the_model_file_is_written_after_so_many_lessons_and_so_many_seconds(tmp_path):
    for settings in ({"checkpoint_changes": 1}, {"checkpoint_seconds": 0.01}):
        path = tmp_path / f"{next(iter(settings))}.safetensors"
        engine = Engine.open(path, EngineSettings(backbone="pixels", **settings))
        engine.learn_features(rows_of("cat"), ["cat"]).result()
        until(lambda engine=engine: engine.statistics()["unfolded"] == 0)
        assert path.exists()
        engine.close()
