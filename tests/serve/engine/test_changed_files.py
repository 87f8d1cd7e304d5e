"""Files that someone else has changed, damaged or mixed up while the model was not served."""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import pytest

import votestream as vs
from painted import counts, paint, run
from serve.history import History, do, learn, rows_of, until, upload
from votestream.model_store import stored_model
from votestream.model_store.journal import fingerprint
from votestream.model_store.paths import ModelStoreError, sidecar_path
from votestream.pipeline import ImageClassifier
from votestream.serve.engine import Engine
from votestream.serve.engine.changes import Forget, Rename, Undo
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.settings import EngineSettings


@pytest.fixture
def path(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models" / "shop.safetensors"


class Opening:
    """Opens the model as the service does; one at a time."""

    def __init__(self, path):
        self.path, self.models = path, []

    def __call__(self):
        self.close()
        self.models.append(open_model(self.path, EngineSettings(device="cpu")))
        return self.models[-1]

    def close(self):
        for model, _ in self.models:
            model.journal.close()


@pytest.fixture
def opened(path):
    opening = Opening(path)
    yield opening
    opening.close()


def lessons_file(path):
    return path.with_name(f"{path.name}.lessons")


def test_a_model_that_another_program_trained_is_the_new_base_and_no_lesson_is_lost(path, opened):
    model, _ = opened()
    do(model, history := History(), learn("cat", "dog"))
    model.write_checkpoint()
    do(model, history, learn("oak"), learn("elm"), learn("cat", seed=9))
    opened.close()
    other = vs.load(path)
    other.partial_fit(rows_of("fir", 3), ["fir"] * 3)
    other.save(path)
    model, remarks = opened()
    other.partial_fit(rows_of("oak"), ["oak"]).partial_fit(rows_of("elm"), ["elm"])
    other.partial_fit(rows_of("cat", seed=9), ["cat"])
    assert fingerprint(model.learner) == fingerprint(other)
    assert "changed by another program" in remarks[0]
    assert "3 lessons that were not in it were learned again" in remarks[0]
    assert model.number == 5
    with pytest.raises(Exception, match="too old to undo: the oldest that can be undone is 3"):
        do(model, history, Undo(2))
    do(model, history, Undo(4))
    assert "elm" not in model.learner.classes_
    model.write_checkpoint()
    assert opened()[1] == []


def test_changes_that_no_longer_fit_are_reported(path, opened):
    model, _ = opened()
    do(model, History(), learn("cat", "dog"))
    model.write_checkpoint()
    do(model, History(), Rename("cat", "lion"))
    do(model, History(), Undo(2))
    do(model, History(), learn("oak"))
    opened.close()
    vs.GaussianVoting(track=True).partial_fit(rows_of("fir", 3), ["fir"] * 3).save(path)
    model, remarks = opened()
    assert model.learner.classes_.tolist() == ["fir", "oak"]
    assert "2 changes do not fit it any more" in remarks[0]
    assert opened()[0].learner.classes_.tolist() == ["fir", "oak"]


def test_a_copy_of_the_model_put_back_is_the_new_base(path, opened):
    model, _ = opened()
    do(model, History(), learn("cat", "dog"))
    model.write_checkpoint()
    shutil.copy(path, path.with_name("copy"))
    do(model, History(), learn("oak"))
    model.write_checkpoint()
    opened.close()
    shutil.copy(path.with_name("copy"), path)
    model, remarks = opened()
    assert model.learner.classes_.tolist() == ["cat", "dog"]
    assert len(remarks) == 1


def test_a_model_file_that_is_gone_is_made_again(path, opened):
    model, _ = opened()
    do(model, history := History(), learn("cat", "dog"))
    model.write_checkpoint()
    opened.close()
    path.unlink()
    model, remarks = opened()
    assert "was missing: it was restored" in remarks[0]
    assert fingerprint(model.learner) == history.fingerprint()
    model.write_checkpoint()
    assert path.exists()
    assert opened()[1] == []


def test_lessons_of_another_model_are_refused_and_stay(path, opened):
    model, _ = opened()
    do(model, History(), learn("cat", "dog"))
    opened.close()
    backbone = vs.create_backbone("pixels")
    images = np.zeros((2, 4, 4, 3), np.uint8)
    ImageClassifier(backbone, vs.GaussianVoting()).partial_fit(images, ["night", "night"]).save(path)
    before = lessons_file(path).read_bytes()
    with pytest.raises(ModelStoreError, match=r"2 lessons of another model, .* with rows of numbers; .* pixels"):
        opened()
    assert lessons_file(path).read_bytes() == before
    lessons_file(path).unlink()
    assert opened()[0].learner.classes_.tolist() == ["night"]


def test_a_damaged_journal_is_named_and_refused_and_stays(path, opened):
    model, _ = opened()
    for seed in range(40):
        do(model, History(), learn("cat", "dog", seed=seed))
    model.write_checkpoint()  # no lesson is learned again at the next start: only an undo would read them
    opened.close()
    whole = lessons_file(path).read_bytes()
    row = rows_of("cat", seed=3)[0].tobytes()
    assert row in whole
    for damaged in (
        whole.replace(row, row[:-1] + b"\1"),  # a bit of a lesson
        whole[: len(whole) // 2],
        whole[:4096] + bytes(4096) + whole[8192:],
        b"not a database" + whole[14:],
        b"Dear diary",
    ):
        lessons_file(path).write_bytes(damaged)
        with pytest.raises(
            ModelStoreError, match=r"shop\.safetensors\.lessons .*(copy of it back|cannot be used)"
        ) as refused:
            opened()
        assert "\n" not in str(refused.value)
        assert lessons_file(path).read_bytes() == damaged
    lessons_file(path).write_bytes(whole)
    assert opened()[0].number == 80


def test_another_database_is_left_alone(path, opened):
    with sqlite3.connect(lessons_file(path)) as database:
        database.execute("CREATE TABLE mine (a)")
    database.close()
    with pytest.raises(ModelStoreError, match="is in the way"):
        opened()
    lessons_file(path).unlink()
    lessons_file(path).mkdir()
    with pytest.raises(ModelStoreError, match="is in the way"):
        opened()


def test_a_journal_of_a_newer_version_is_refused(path, opened):
    opened()
    opened.close()
    with sqlite3.connect(lessons_file(path)) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(ModelStoreError, match="version 2, and this VoteStream reads 1"):
        opened()


def test_a_damaged_model_file_is_refused(path, opened):
    path.write_bytes(b"x" * 100)
    with pytest.raises(ModelStoreError, match="damaged or not a VoteStream model"):
        opened()


def test_a_learner_that_trains_a_network_is_refused(path, opened):
    model = vs.create("er", backbone="tiny", device="cpu")
    model.partial_fit(np.zeros((2, 4, 4, 3), np.uint8), ["a", "b"]).save(path)
    with pytest.raises(ModelStoreError, match="trains a network itself"):
        opened()


def test_a_model_of_rows_takes_no_backbone(path, opened):
    model, _ = opened()
    do(model, History(), learn("cat"))
    model.write_checkpoint()
    opened.close()
    with pytest.raises(ModelStoreError, match="trained on rows of numbers"):
        open_model(path, EngineSettings(backbone="pixels"))


class Killed(BaseException):
    pass


def die(*arguments):
    raise Killed


# ---- with the photo tool ------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green", "blue"):
        paint(tmp_path / "photos", label, 6)
    return tmp_path / "photos"


def learn_photos(photos, path):
    begin = () if path.exists() else ("--backbone", "pixels")
    result = run("learn", photos, "--model", path, *begin)
    assert result.exit_code == 0, result.output
    return result


def served(path):
    return Engine.open(path, EngineSettings())


def test_votestream_learn_goes_on_after_serving_and_learns_only_what_is_new(path, photos):
    learn_photos(photos, path)
    engine = served(path)
    engine.learn([upload(100)], "grey").result()
    engine.close()
    paint(photos, "red", 2, start=20)
    learn_photos(photos, path)
    assert counts(path) == {"blue": 6, "green": 6, "grey": 1, "red": 8}
    engine = served(path)
    assert "changed by another program" in engine.remarks[0]
    assert engine.learn([upload(90)], "grey").result().lessons[0].lesson == 2
    engine.close()
    assert counts(path)["grey"] == 2


def test_photos_of_classes_renamed_and_forgotten_while_serving_are_known_by_their_new_names(path, photos):
    learn_photos(photos, path)
    engine = served(path)
    engine.learn([upload(100)], "grey").result()
    for change in (engine.rename("red", "rot"), engine.forget("green"), engine.rename("rot", "rouge")):
        change.result()
    engine.close()
    (photos / "red").rename(photos / "rouge")
    shutil.rmtree(photos / "green")
    learn_photos(photos, path)
    assert counts(path) == {"blue": 6, "grey": 1, "rouge": 6}
    paint(photos, "green", 6)
    learn_photos(photos, path)
    assert counts(path) == {"blue": 6, "green": 6, "grey": 1, "rouge": 6}


@pytest.mark.parametrize("moment", ["noted", "written"])
def test_a_kill_while_a_checkpoint_relabels_classes_leaves_the_notes_on_photos_right(path, photos, monkeypatch, moment):
    from votestream.serve.engine import served_model

    learn_photos(photos, path)
    model, _ = open_model(path, EngineSettings())
    do(model, History(), Rename("red", "rouge"), Forget("green"))

    with monkeypatch.context() as patched:
        patched.setattr(
            *((served_model.model_files, "write", die) if moment == "noted" else (served_model, "keep_labels_of", die))
        )
        with pytest.raises(Killed):
            model.write_checkpoint()
    model.journal.close()
    served(path).close()
    (photos / "red").rename(photos / "rouge")
    shutil.rmtree(photos / "green")
    learn_photos(photos, path)
    assert counts(path) == {"blue": 6, "rouge": 6}


def test_a_killed_run_of_votestream_learn_is_finished_before_serving(path, photos, monkeypatch):
    learn_photos(photos, path)
    whole = path.read_bytes()
    paint(photos, "grey", 5)
    learn_photos(photos, path)
    after = path.read_bytes()
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    shutil.rmtree(photos / "grey")
    learn_photos(photos, path)
    assert path.read_bytes() == whole
    paint(photos, "grey", 5)

    with monkeypatch.context() as patched:
        patched.setattr(ImageClassifier, "save", die)
        with pytest.raises(Killed):
            run("learn", photos, "--model", path, catch_exceptions=False)
    assert path.read_bytes() == whole
    served(path).close()
    assert path.read_bytes() == after


def test_photos_noted_by_a_run_that_died_before_it_learned_them_are_learned_later(path, photos, monkeypatch):
    learn_photos(photos, path)
    paint(photos, "grey", 3)

    with monkeypatch.context() as patched:
        patched.setattr(stored_model, "write_journal", die)
        with pytest.raises(Killed):
            run("learn", photos, "--model", path, catch_exceptions=False)
    assert '"grey"' in sidecar_path(path).read_text()
    engine = served(path)
    engine.learn([upload(n) for n in range(5)], "dark").result()
    engine.close()
    learn_photos(photos, path)
    assert counts(path)["grey"] == 3


def test_rows_from_votestream_models_may_be_learned_too(path, photos):
    learn_photos(photos, path)
    engine = served(path)
    row = np.zeros((1, 12), np.float32)
    assert engine.learn_features(row, ["red"]).result().lessons[0].was is not None
    engine.close()
    assert counts(path)["red"] == 7


def test_a_model_file_changed_while_it_is_served_is_not_overwritten(path):
    engine = Engine.open(path, EngineSettings(backbone="pixels", checkpoint_seconds=0))
    engine.learn_features(rows_of("cat"), ["cat"]).result()
    until(lambda: not engine.statistics()["unfolded"])
    other = vs.load(path).partial_fit(rows_of("fir"), ["fir"])
    other.save(path)
    engine.learn_features(rows_of("dog"), ["dog"]).result()
    until(lambda: engine.problem is not None)
    assert "another program changed it, and it is not overwritten. Restart the service" in engine.problem
    engine.close()
    assert vs.load(path).classes_.tolist() == ["cat", "fir"]
    engine = Engine.open(path, EngineSettings())
    engine.close()
    assert vs.load(path).classes_.tolist() == ["cat", "dog", "fir"]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"learner": "ncm"}, "made with the learner gaussian_voting, which cannot change: leave --learner out"),
        ({"budget": 7}, "made with gaussian_voting, which keeps no exemplars: leave --budget out"),
        ({"backbone": "tiny"}, "made with the backbone pixels, not tiny: leave --backbone out"),
        ({"views": "3"}, "made with the views 2: leave --views out"),
    ],
)
def test_what_a_served_model_was_begun_with_stays(tmp_path, wish, why):
    path = tmp_path / "shop.safetensors"
    vs.ImageClassifier("pixels", vs.GaussianVoting()).partial_fit(np.zeros((2, 2, 2, 3), np.uint8), ["a", "b"]).save(
        path
    )
    with pytest.raises(ModelStoreError, match=why):
        Engine.open(path, EngineSettings(**wish))
