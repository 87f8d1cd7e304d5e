"""Followers: a copy that predicts as the writer does, and what becomes of it when either of the two dies."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import numpy as np
import pytest

import votestream as vs
from serve.followers import following, free_port, lesson_of, teach, writing
from serve.history import rows_of, until
from serve.http_client import image
from serve.processes import service
from votestream.serve.engine import model_view
from votestream.serve.engine.features import ImageRequest, PredictRequest
from votestream.serve.engine.idempotency import PendingAnswer
from votestream.serve.engine.messages import ModelVersion, NotReady, Upload
from votestream.serve.replica import local_copy
from votestream.serve.replica.upstream import Upstream
from votestream.serve.web.options import Limits

PROBE = np.concatenate([rows_of("cat", 5, seed=7), rows_of("dog", 5, seed=7)])


@pytest.fixture
def writer(tmp_path):
    with writing(tmp_path / "writer.safetensors") as made:
        yield made


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies" / "copy.safetensors"


def caught_up(engine, copy):
    until(lambda: lesson_of(copy) == lesson_of(engine))


def test_a_follower_predicts_the_same_bits_as_the_writer_after_every_change(writer, copy):
    engine, address = writer
    teach(engine, "cat", "dog", "cat", "dog", "owl")
    with following(copy, address) as follower:
        changes = [
            lambda: engine.learn_features(rows_of("cat", 30, seed=50), ["cat"] * 30),
            lambda: engine.undo(3),
            lambda: engine.rename("owl", "bird"),
            lambda: engine.learn_features(rows_of("dog", 3, seed=90), ["dog"] * 3, task="later"),
            lambda: engine.forget("bird"),
        ]
        for change in changes:
            change().result()
            caught_up(engine, follower)
            assert follower.predict_features(PROBE).result() == engine.predict_features(PROBE).result()
            assert follower.predict_columns(PROBE).result() == engine.predict_columns(PROBE).result()
            mine, its = (one._view.snapshot.predict_proba(PROBE) for one in (follower, engine))
            assert mine.tobytes() == its.tobytes()
        assert follower.model_file()[1] == engine.model_file()[1]


@pytest.mark.parametrize("learner", ["slda", "candidates_voting", "ncm", "knn", "fecam", "rls"])
def test_other_learners_are_followed_to_the_same_bits(learner, tmp_path, copy):
    with writing(tmp_path / "w.safetensors", learner=learner) as (engine, address):
        teach(engine, *["cat", "dog"] * 10)
        with following(copy, address) as follower:
            for seed in (30, 40):
                teach(engine, "owl", "cat", seed=seed)
                caught_up(engine, follower)
                mine, its = (one._view.snapshot.predict_proba(PROBE) for one in (follower, engine))
                assert mine.tobytes() == its.tobytes()


def test_images_are_predicted_through_the_backbone_that_the_file_names(writer, copy):
    engine, address = writer
    for label in ("red", "green", "red", "green"):
        engine.learn([Upload(image(label))], label).result()
    with following(copy, address) as follower:
        answer = follower.predict([Upload(image("green", 3))]).result().answers[0]
        assert answer == engine.predict([Upload(image("green", 3))]).result().answers[0]
        assert answer.lesson == 4
        assert follower.describe()["backbone"]["name"] == "pixels"


def test_an_image_that_was_processed_by_the_backbone_of_before_is_not_answered(writer, copy):
    engine, address = writer
    engine.learn([Upload(image("red"))], "red").result()
    with following(copy, address) as follower:
        until(lambda: not follower._loader.loading)
        pending = PendingAnswer()
        answer, request = pending.future(), ImageRequest([Upload(b"")], pending, PredictRequest(1))
        request.backbone = vs.create_backbone("tiny", device="cpu")
        request.set(0, np.zeros(12, np.float32))
        follower._features_ready([request])
        with pytest.raises(NotReady, match="another backbone now: send the images again"):
            answer.result(0)


def test_a_burst_of_lessons_is_fetched_one_at_a_time_and_coalesced(writer, copy, monkeypatch):
    engine, address = writer
    teach(engine, "cat", "dog")
    under_way, most, real = 0, 0, Upstream._chunks

    def pieces(self, answer):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.03)
        yield from real(self, answer)
        under_way -= 1

    monkeypatch.setattr(Upstream, "_chunks", pieces)
    with following(copy, address) as follower:
        for seed in range(100):
            engine.learn_features(rows_of("cat", seed=seed), ["cat"]).result()
        caught_up(engine, follower)
        assert most == 1
        assert 1 <= follower.statistics()["updates"] < 60
        assert follower.statistics()["writer_lesson"] == follower.statistics()["lesson"] == 102
        assert follower.statistics()["seconds_behind"] == 0


def test_events_that_were_lost_are_made_up_for(writer, copy, monkeypatch):
    engine, address = writer
    teach(engine, "cat", "dog")
    monkeypatch.setattr("votestream.serve.engine.events.MAX_WAITING", 0)  # subscribers receive only the gap
    with following(copy, address) as follower:
        teach(engine, "owl")
        caught_up(engine, follower)


def test_where_events_do_not_come_through_a_follower_asks_now_and_then(tmp_path, copy):
    with writing(tmp_path / "w.safetensors", limits=Limits(streams=0)) as (engine, address):
        teach(engine, "cat", "dog")
        with following(copy, address) as follower:
            teach(engine, "owl")
            caught_up(engine, follower)
            assert "Too many clients read events" in follower.problem


# ---- the writer's side ----------------------------------------------------------------------------


def test_the_etag_is_the_models_identity_and_the_changes_number(writer, copy):
    engine, address = writer
    teach(engine, "cat", "dog")
    first = httpx.get(f"{address}/v1/model/file")
    version = ModelVersion.from_tag(first.headers["etag"])
    assert version[:2] == (engine._model.identity, 2)
    assert int(first.headers["content-length"]) == len(first.content)
    same = httpx.get(f"{address}/v1/model/file", headers={"if-none-match": version.tag})
    assert (same.status_code, same.content) == (304, b"")
    teach(engine, "owl")
    newer = httpx.get(f"{address}/v1/model/file", headers={"if-none-match": version.tag})
    assert newer.status_code == 200
    assert ModelVersion.from_tag(newer.headers["etag"])[:2] == (version.model, 3)


def test_the_identity_of_a_model_survives_a_restart(tmp_path):
    found = []
    for _ in range(2):
        with writing(tmp_path / "w.safetensors") as (engine, _):
            teach(engine, "cat")
            found.append(engine._model.identity)
    with writing(tmp_path / "other.safetensors") as (engine, _):
        found.append(engine._model.identity)
    assert found[0] == found[1] != found[2]


def test_fifty_followers_that_ask_at_once_get_bytes_that_were_packed_once(writer, monkeypatch):
    engine, address = writer
    teach(engine, "cat", "dog")
    packed, made, real, waiting = model_view.packed, [], engine.model_file, threading.Semaphore(1)
    monkeypatch.setattr(model_view, "packed", lambda *parts: made.append(time.sleep(0.05)) or packed(*parts))

    def alone():
        assert waiting.acquire(blocking=False), "two threads are taken up at once"
        try:
            return real()
        finally:
            waiting.release()

    monkeypatch.setattr(engine, "model_file", alone)

    async def all_of_them():
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            asked = [client.get("/v1/model/file") for _ in range(50)]
            lesson = client.post("/v1/learn-features", json={"rows": rows_of("cat").tolist(), "labels": ["cat"]})
            return await asyncio.gather(*asked, lesson)

    answers = asyncio.run(all_of_them())
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["etag"] for answer in answers[:50]}) <= len(made) <= 2  # before the lesson, and after


# ---- one of the two dies --------------------------------------------------------------------------


def test_a_writer_that_is_killed_and_restarted_is_followed_again_and_the_follower_never_fails(tmp_path, copy):
    model, port, stop, wrong, lessons = tmp_path / "w.safetensors", free_port(), threading.Event(), [], set()

    def ask(follower):
        while not stop.wait(0.01):
            try:
                lessons.add(follower.predict_features(PROBE).result(20).answers[0].lesson)
            except Exception as problem:
                wrong.append(problem)

    with service(model, "--port", port) as running:
        body = {"rows": [row.tolist() for row in PROBE], "labels": ["cat"] * 5 + ["dog"] * 5}
        running.http.post("/v1/learn-features", json=body).raise_for_status()
        with following(copy, running.address) as follower:
            asking = threading.Thread(target=ask, args=(follower,))
            asking.start()
            try:
                running.process.kill()
                running.process.wait(30)  # it holds the model's lock as long as it is there
                until(lambda: follower.problem is not None)
                with writing(model, port) as (engine, _):
                    teach(engine, "owl")
                    until(lambda: 11 in lessons and follower.problem is None)
            finally:
                stop.set()
                asking.join()
    assert not wrong
    assert lessons == {10, 11}


def test_a_follower_that_is_closed_while_it_fetches_writes_nothing_any_more(writer, copy, monkeypatch):
    engine, address = writer
    teach(engine, "cat", "dog")
    reached, go, real = threading.Event(), threading.Event(), local_copy.LocalCopy._load

    def slow(*about):
        reached.set()
        assert go.wait(60)
        return real(*about)

    with following(copy, address) as follower:
        before = {path.name: path.read_bytes() for path in copy.parent.iterdir() if path.is_file()}
        monkeypatch.setattr(local_copy.LocalCopy, "_load", slow)
        teach(engine, "owl")
        assert reached.wait(60)
    go.set()
    follower._threads[1].join(60)
    after = {path.name: path.read_bytes() for path in copy.parent.iterdir()}
    assert after == {name: data for name, data in before.items() if not name.endswith(".lock")}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["_load", "_write_note", "replace"])
def test_a_follower_that_is_killed_between_fetch_and_write_has_the_old_state_or_the_new_one(
    tmp_path, copy, monkeypatch, step, moment
):
    model, port = tmp_path / "w.safetensors", free_port()
    owner = local_copy.os if step == "replace" else local_copy.LocalCopy
    real = getattr(owner, step)

    def deadly(*about):
        if step == "replace" and about[1] != copy:
            return real(*about)  # another file's
        if moment == "after":
            real(*about)
        raise Killed

    with writing(model, port) as (engine, address):
        teach(engine, "cat", "dog")
        with following(copy, address):
            pass
        teach(engine, "owl")
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, deadly)
            with pytest.raises(Killed), following(copy, address):
                pass
    with following(copy, address) as alone:
        assert lesson_of(alone) == (3 if (step, moment) == ("replace", "after") else 2)
        with writing(model, port):
            until(lambda: lesson_of(alone) == 3)
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy.safetensors", "copy.safetensors.follows"]


def test_without_its_writer_a_follower_starts_with_the_last_state(tmp_path, copy):
    with writing(tmp_path / "w.safetensors") as (engine, address):
        teach(engine, "cat", "dog", "owl")
        with following(copy, address):
            pass
        expected = engine.predict_features(PROBE).result()
    with following(copy, address) as alone:
        assert alone.predict_features(PROBE).result() == expected
        assert alone.state == "ready"
        assert alone.stale
        assert "cannot be reached" in alone.problem


def test_without_writer_and_copy_nothing_is_predicted_until_the_writer_is_there(tmp_path, copy):
    port = free_port()
    with following(copy, f"http://127.0.0.1:{port}") as follower:
        assert follower.state == "loading"
        with pytest.raises(NotReady, match="not been reached yet"):
            follower.predict_features(PROBE)
        with writing(tmp_path / "w.safetensors", port) as (engine, _):
            teach(engine, "cat", "dog")
            until(lambda: follower.state == "ready" and lesson_of(follower) == 2)
            assert follower.predict_features(PROBE).result().answers[0].label == "cat"
