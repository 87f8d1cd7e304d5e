"""What a follower does not do: be taught, overwrite another model, or hide that it is old."""

from __future__ import annotations

import shutil
import time

import pytest

import votestream as vs
from serve.followers import following, free_port, lesson_of, refused, teach, writing
from serve.history import rows_of, until
from serve.http_client import Client, image
from votestream.model_store.paths import ModelStoreError
from votestream.serve.app import create_app
from votestream.serve.engine.messages import Conflict, ModelVersion, Upload
from votestream.serve.replica import follower as follower_module
from votestream.serve.web.options import Options


@pytest.fixture
def writer(tmp_path):
    with writing(tmp_path / "writer.safetensors") as made:
        teach(made[0], "cat", "dog")
        yield made


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies" / "copy.safetensors"


# ---- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def client(writer, copy):
    with following(copy, writer[1]) as follower:
        yield Client(create_app({"copy": follower}, Options()))


@pytest.mark.parametrize(
    ("method", "path", "how"),
    [
        ("POST", "/v1/learn?label=cat", {"content": b"not even an image"}),
        ("POST", "/v1/learn-features", {"json": {"rows": [[1.0]], "labels": ["cat"]}}),
        ("POST", "/v1/undo", {}),
        ("POST", "/v1/classes/cat/rename", {"json": {"to": "kitten"}}),
        ("DELETE", "/v1/classes/cat", {}),
        ("POST", "/webhook", {"json": {"action": "ANNOTATION_CREATED"}}),
        ("POST", "/v1/models/copy/undo", {}),
    ],
)
def test_changes_are_refused_with_the_writers_address(client, writer, method, path, how):
    answer = client.request(method, path, **how)
    assert answer.status_code == 421
    assert answer.json() == {
        "error": f"This is a read-only copy: train and correct the model at {writer[1]}.",
        "writer": writer[1],
    }
    assert answer.headers["votestream-writer"] == writer[1]
    assert lesson_of(writer[0]) == 2


def test_what_reads_goes_on_at_a_follower_and_sends_its_number(client, writer):
    result = client.post("/v1/predict-features", json={"rows": rows_of("cat").tolist()}).json()
    assert (result["lesson"], result["answers"][0]["label"]) == (2, "cat")
    about = client.get("/v1/model").json()
    assert about["following"]["writer"] == writer[1]
    assert about["following"]["stale"] is False
    assert [each["label"] for each in about["classes"]] == ["cat", "dog"]
    assert client.get("/v1/models").json()["models"][0]["lesson"] == 2
    file = client.get("/v1/model/file")
    assert ModelVersion.from_tag(file.headers["etag"]) == writer[0].model_file()[0]
    assert file.content == writer[0].model_file()[1]


def test_how_old_a_copy_is_stands_in_the_metrics_and_in_readyz(client):
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"ready": True, "problems": [], "following": True, "stale": False},
    )
    lines = client.get("/metrics").text.splitlines()
    numbers = {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if 'model="copy"' in line}
    assert numbers["votestream_lesson"] == numbers["votestream_writer_lesson"] == 2
    assert numbers["votestream_seconds_behind"] == numbers["votestream_stale"] == 0
    assert 0 <= numbers["votestream_seconds_since_contact"] < 30
    assert numbers["votestream_failed_updates_total"] == 0


@pytest.mark.parametrize(("max_stale", "status"), [(0.2, 503), (None, 200)])
def test_without_contact_a_copy_says_that_it_is_stale_and_with_max_stale_it_is_not_ready(
    tmp_path, copy, monkeypatch, max_stale, status
):
    monkeypatch.setattr(follower_module, "STALE_SECONDS", 0.2)
    with writing(tmp_path / "w.safetensors") as (engine, address):
        teach(engine, "cat", "dog")
        with following(copy, address):
            pass
    with following(copy, address, max_stale) as follower:
        client = Client(create_app({"copy": follower}, Options()))
        until(lambda: client.get("/readyz").json()["stale"])
        ready = client.get("/readyz")
        assert ready.status_code == status
        assert client.post("/v1/predict-features", json={"rows": rows_of("cat").tolist()}).status_code == 200
        with writing(tmp_path / "w.safetensors", int(address.rpartition(":")[2])):
            until(lambda: not follower.stale)


def test_how_long_a_copy_is_behind_is_counted_until_it_has_caught_up(writer, copy, monkeypatch):
    engine, address = writer
    with following(copy, address) as follower, monkeypatch.context() as patched:
        until(lambda: follower._update_seconds and not follower._fetch_wanted)  # what connecting asks for is fetched
        patched.setattr(follower._copy, "update", lambda known: time.sleep(0.3))
        teach(engine, "owl")
        until(lambda: follower.statistics()["seconds_behind"] > 0.2)
        assert follower.statistics()["writer_lesson"] == 3
        until(lambda: "announces lesson 3 but sends lesson 2" in (follower.problem or ""))
        patched.undo()
        until(lambda: lesson_of(follower) == 3 and follower.problem is None)
        assert follower.statistics()["seconds_behind"] == 0


# ---- whose copy it is -----------------------------------------------------------------------------


def test_a_model_that_is_no_copy_is_not_overwritten(writer, copy):
    _, address = writer
    vs.NearestClassMean().partial_fit(rows_of("cat"), ["cat"]).save(copy)
    before = copy.read_bytes()
    with pytest.raises(
        ModelStoreError, match=r"copy.safetensors is not a copy that a follower wrote.* name another file"
    ):
        refused(copy, address)
    assert copy.read_bytes() == before


def test_a_copy_that_was_trained_since_is_not_overwritten(writer, copy):
    _, address = writer
    with following(copy, address):
        pass
    with writing(copy) as (engine, _):
        teach(engine, "elm")
    with pytest.raises(ModelStoreError, match=r"was trained here, and copy.safetensors.lessons has its changes"):
        refused(copy, address)
    assert vs.load(copy).classes_.tolist() == ["cat", "dog", "elm"]


def test_a_copy_that_another_program_changes_meanwhile_is_not_overwritten(writer, copy):
    engine, address = writer
    with following(copy, address) as follower:
        vs.NearestClassMean().partial_fit(rows_of("cat"), ["cat"]).save(copy)
        before = copy.read_bytes()
        teach(engine, "owl")
        until(lambda: "changed by another program" in (follower.problem or ""))
        assert lesson_of(follower) == 2
    assert copy.read_bytes() == before


def test_a_note_that_is_not_ours_is_named(writer, copy):
    beside = copy.with_name("copy.safetensors.follows")
    beside.write_text("[1, 2]")
    with pytest.raises(ModelStoreError, match=r"copy.safetensors.follows is not the note of a follower"):
        refused(copy, writer[1])
    assert beside.read_text() == "[1, 2]"


def test_a_copy_of_another_model_is_refused_at_the_start_and_noticed_later(tmp_path, copy):
    port = free_port()
    with writing(tmp_path / "one.safetensors", port) as (engine, address):
        teach(engine, "cat", "dog")
        follower = following(copy, address)
        opened = follower.__enter__()
    with writing(tmp_path / "other.safetensors", port) as (engine, _):
        teach(engine, "owl", "elm", "oak")
        until(lambda: "serves another model now" in (opened.problem or ""))
        assert (lesson_of(opened), opened.predict_features(rows_of("cat")).result().answers[0].label) == (2, "cat")
        follower.__exit__(None, None, None)
        with pytest.raises(ModelStoreError, match=r"move .*copy.safetensors away"):
            refused(copy, address)
        copy.unlink()
        with following(copy, address) as anew:
            assert lesson_of(anew) == 3


def test_a_copy_whose_writer_cannot_be_asked_is_only_used_for_the_writer_it_came_from(tmp_path, copy):
    model, other = tmp_path / "w.safetensors", free_port()
    with writing(model) as (engine, address):
        teach(engine, "cat", "dog")
        with following(copy, address):
            pass
    with pytest.raises(
        ModelStoreError, match=r"cannot be reached.*not known whether .*copy.safetensors is a copy of its model"
    ):
        refused(copy, f"http://127.0.0.1:{other}")
    moved = f"http://127.0.0.1:{other}"  # the same model at another address
    with writing(model, other), following(copy, moved):
        pass
    with following(copy, moved) as alone:
        assert lesson_of(alone) == 2


def test_a_writer_that_went_back_to_older_files_is_followed_back(tmp_path, copy, caplog):
    folder, port = tmp_path / "models", free_port()
    folder.mkdir()
    model = folder / "w.safetensors"
    with writing(model, port) as (engine, address):
        teach(engine, "cat", "dog")
    shutil.copytree(folder, tmp_path / "backup")
    with writing(model, port) as (engine, _):
        teach(engine, "owl", "owl")
        opening = following(copy, address)
        follower = opening.__enter__()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    with writing(model, port) as (engine, _):
        until(lambda: lesson_of(follower) == 2)
        teach(engine, "elm", "elm")  # as many as before, and others
        until(lambda: lesson_of(follower) == 4)
        assert [each["label"] for each in follower.describe()["classes"]] == ["cat", "dog", "elm"]
        assert follower.statistics()["writer_went_back"] == 1
    opening.__exit__(None, None, None)
    assert "the writer went back from lesson 4 to 2" in caplog.text


def test_a_model_whose_lessons_were_all_undone_is_empty_at_the_follower_too(tmp_path, copy):
    with writing(tmp_path / "w.safetensors") as (engine, address), following(copy, address) as follower:
        assert (follower.state, lesson_of(follower), follower.describe()["learner"]) == ("ready", 0, None)
        teach(engine, "cat")
        until(lambda: lesson_of(follower) == 1)
        until(copy.exists)
        engine.undo().result()
        until(lambda: lesson_of(follower) == 2)
        with pytest.raises(Conflict, match="learned nothing yet"):
            follower.predict_features(rows_of("cat"))
        until(lambda: not copy.exists())
        teach(engine, "cat")
        until(lambda: lesson_of(follower) == 3)


def test_a_model_that_begins_anew_with_images_is_processed_by_its_new_backbone(tmp_path, copy):
    with writing(tmp_path / "w.safetensors") as (engine, address), following(copy, address) as follower:
        teach(engine, "cat")
        engine.undo().result()
        engine.learn([Upload(image("red"))], "red").result()
        until(lambda: lesson_of(follower) == 3)
        assert follower.predict([Upload(image("red", 4))]).result().answers[0].label == "red"
