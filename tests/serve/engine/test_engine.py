"""The engine: it learns while it predicts, from many threads, with bounded queues, once for each key."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest

import votestream as vs
from serve.history import History, learn, png, rows_of, until, upload
from votestream.model_store.journal import fingerprint
from votestream.model_store.paths import ModelStoreError
from votestream.pipeline.prediction_details import PredictionDetails
from votestream.serve.engine import Engine, events, idempotency
from votestream.serve.engine.features import LearnRequest, PredictRequest
from votestream.serve.engine.messages import BadRequest, Conflict, InternalError, NotFound, NotReady, TooBusy, Upload
from votestream.serve.engine.served_model import ServedModel
from votestream.serve.engine.settings import EngineSettings


@pytest.fixture
def opened(tmp_path):
    """Opens the same model anew with every call."""
    engines = []

    def open_engine(**settings):
        for engine in engines:
            engine.close()
        engines[:] = [Engine.open(tmp_path / "m.safetensors", EngineSettings(**{"backbone": "pixels", **settings}))]
        return engines[0]

    yield open_engine
    for engine in engines:
        engine.close()


def taken_out(engine):
    """Wait until the writer has taken all jobs out of its queue."""
    until(lambda: not engine.statistics()["samples_waiting"])


@pytest.fixture
def held(monkeypatch):
    """The writer waits before each group, until it is released."""
    gate = threading.Event()
    real = ServedModel.change

    def waiting(model, jobs):
        gate.wait(120)
        return real(model, jobs)

    monkeypatch.setattr(ServedModel, "change", waiting)
    yield gate
    gate.set()


def test_images_are_learned_and_predicted(opened):
    engine = opened()
    taught = engine.learn([upload(10), upload(30, "b.png")], "night").result()
    assert [(lesson.lesson, lesson.new_class, lesson.file) for lesson in taught.lessons] == [
        (1, True, "a.png"),
        (2, False, "b.png"),
    ]
    (lesson,) = engine.learn([upload(240)], "day").result().lessons
    assert (lesson.lesson, lesson.new_class, lesson.was.label) == (3, True, "night")
    answers = engine.predict([upload(12, "x.png"), upload(238, "y.png")]).result().answers
    assert [(answer.label, answer.file, answer.lesson) for answer in answers] == [
        ("night", "x.png", 3),
        ("day", "y.png", 3),
    ]
    about = engine.describe()
    assert (about["images"], about["lesson"], about["backbone"]["name"]) == (3, 3, "pixels")


def test_an_answer_is_what_votestream_predict_says(opened):
    engine = opened()
    for colour in (10, 20, 30):
        engine.learn([upload(colour)], "night", task="dark").result()
    for colour in (220, 240, 250):
        engine.learn([upload(colour)], "day", task="bright").result()
    (answer,) = engine.predict([upload(100)]).result().answers
    Path("copy.safetensors").write_bytes(engine.model_file()[1])
    model = vs.load("copy.safetensors")
    row = model.backbone_(np.full((1, 4, 4, 3), 100, np.uint8))
    numbers, words = next(iter(PredictionDetails(model.learner_.snapshot(), row, unknown=0.05)))
    assert (answer.label, answer.confidence, answer.unknown_score, answer.unknown, answer.words) == (
        *(numbers[key] for key in ("label", "confidence", "unknown_score", "unknown")),
        words,
    )
    assert [vote.task for vote in answer.vote] == ["dark", "bright"]
    assert [vote.score for vote in answer.vote] == numbers["vote"]["score"]
    assert answer.winner_task == numbers["vote"]["winner_task"]


def test_the_model_file_is_the_one_that_save_writes(opened, tmp_path):
    engine = opened()
    engine.learn([upload(10), upload(200)], "grey").result()
    etag, data = engine.model_file()
    assert engine.model_file()[0] == etag
    engine.close()
    assert (tmp_path / "m.safetensors").read_bytes() == data
    vs.load(tmp_path / "m.safetensors").save(tmp_path / "saved.safetensors")
    assert (tmp_path / "saved.safetensors").read_bytes() == data


def test_files_that_cannot_be_read_are_named_and_the_rest_is_done(opened):
    engine = opened()
    bad = [Upload(b"", "empty.png"), Upload(b"not an image", "text.png"), Upload(upload().data[:45], "half.png")]
    taught = engine.learn([bad[0], upload(), *bad[1:]], "grey").result()
    assert len(taught.lessons) == 1
    assert [problem.file for problem in taught.problems] == ["empty.png", "text.png", "half.png"]
    answers = engine.predict([*bad, upload(5, "dark.png")]).result()
    assert [answer.file for answer in answers.answers] == ["dark.png"]
    assert len(answers.problems) == 3
    assert engine.learn(bad, "grey").result().lessons == []
    assert engine.describe()["lesson"] == 1


def test_nothing_is_predicted_before_anything_is_learned(opened):
    engine = opened()
    for ask in (lambda: engine.predict([upload()]), lambda: engine.predict_features(rows_of("cat"))):
        with pytest.raises(Conflict, match="learned nothing yet"):
            ask()
    with pytest.raises(Conflict, match="no file of it"):
        engine.model_file()
    assert engine.describe()["classes"] == []


def test_a_new_model_chooses_its_backbone_by_its_first_image(opened):
    engine = opened(backbone=None)
    engine.learn([Upload(png(100, side=32), "small.png")], "grey").result()
    assert engine.describe()["backbone"]["name"] == "reduced_resnet18"


def test_a_model_on_rows_of_numbers_takes_no_images(opened):
    engine = opened()
    engine.learn_features(rows_of("cat"), ["cat"]).result()
    for ask in (lambda: engine.predict([upload()]), lambda: engine.learn([upload()], "cat")):
        with pytest.raises(BadRequest, match="rows of numbers, not on images"):
            ask()


@pytest.mark.parametrize(
    ("rows", "labels", "why"),
    [
        ([[1.0, np.nan]], ["a"], "NaN"),
        ([[1.0, 2.0], [3.0]], ["a", "b"], "differ in length"),
        ([[1.0, 2.0]], ["a", "b"], "a label for each row"),
        ([[1.0, 2.0]], [""], "at least one letter"),
        ([[1.0, 2.0]], ["a\nb"], "printable"),
        ([[1.0, 2.0]], ["\ud800"], "printable"),
        ([[1.0, 2.0]], ["x" * 201], "at most 200 characters"),
        ([[1.0, 2.0]], [0.5], "text or an integer"),
        ([], [], "must be 2-D"),
        ([["a", "b"]], ["a"], "must hold numbers"),
        ([[1.0, 2.0, 3.0]], ["a"], "expecting 2 features"),
    ],
)
def test_rows_and_labels_that_cannot_be_learned_are_refused(opened, rows, labels, why):
    engine = opened()
    engine.learn_features([[0.0, 1.0]], ["a"]).result()
    before = fingerprint(engine._model.learner)
    with pytest.raises(BadRequest, match=why):
        engine.learn_features(rows, labels).result()
    assert fingerprint(engine._model.learner) == before


def test_numbers_beyond_all_bounds_are_refused(opened):
    engine = opened()
    with pytest.raises(BadRequest, match="at most 4,096 numbers, got 4,097"):
        engine.learn_features(np.zeros((1, 4097)), ["a"])
    engine.learn_features([[0.0, 1.0]], ["a"]).result()
    for lesson in (10**30, -(10**5000), 2**62):
        with pytest.raises(NotFound):
            engine.undo(lesson).result()
    with pytest.raises(BadRequest, match="an integer of"):
        engine.learn_features([[0.0, 1.0]], [10**400]).result()
    for change in (lambda: engine.forget(10**5000), lambda: engine.rename("a", 10**5000)):
        with pytest.raises((Conflict, NotFound)):
            change().result()


def test_rows_of_another_width_are_not_predicted(opened):
    engine = opened()
    engine.learn_features([[0.0, 1.0]], ["a"]).result()
    with pytest.raises(BadRequest, match="expecting 2 features"):
        engine.predict_features([[1.0]]).result()
    with pytest.raises(BadRequest, match="top must be"):
        engine.predict_features([[0.0, 1.0]], top=0)


# ---- at the same time -----------------------------------------------------------------------------


def test_predictions_never_wait_for_a_lesson(opened, held):
    engine = opened()
    held.set()
    engine.learn([upload(10)], "night").result()
    engine.learn([upload(240)], "day").result()
    held.clear()
    lesson = engine.learn([upload(20)], "night")
    answer = engine.predict([upload(15)]).result(60).answers[0]
    assert (answer.label, answer.lesson) == ("night", 2)
    assert engine.predict_features(np.zeros((1, 12))).result(60).answers[0].lesson == 2
    assert engine.describe()["lesson"] == 2
    engine.model_file()
    assert not lesson.done()
    held.set()
    assert lesson.result(60).lessons[0].lesson == 3


def test_lessons_and_predictions_of_many_threads_lead_to_the_acknowledged_state(opened):
    engine, history, noting = opened(checkpoint_changes=7, undo_reach=10), History(), threading.Lock()
    query = rows_of("cat", seed=1000)

    def change(job):
        outcome = engine.learn_features(job.rows, job.labels).result()
        with noting:
            history.note(job, outcome)

    def teach(teacher):
        for seed in range(8):
            change(learn(("cat", "dog", "oak")[teacher % 3], seed=100 * teacher + seed))

    def ask(_):
        return [engine.predict_features(query).result().answers[0] for _ in range(15)]

    change(learn("cat", "dog", seed=5000))
    with ThreadPoolExecutor(8) as pool:
        lessons = [pool.submit(teach, teacher) for teacher in range(4)]
        answers = [answer for found in pool.map(ask, range(4)) for answer in found]
        wait(lessons)
        for lesson in lessons:
            lesson.result()
    assert engine.describe()["lesson"] == history.number == 34
    assert fingerprint(engine._model.learner) == history.fingerprint()
    replayed = {number: history.model(number) for number in {answer.lesson for answer in answers}}
    for answer in answers:
        (sure,) = replayed[answer.lesson].confidence(query)
        assert answer.confidence == (None if np.isnan(sure) else round(float(sure), 6))
    before = fingerprint(engine._model.learner)
    assert fingerprint(opened(backbone=None)._model.learner) == before


@pytest.fixture
def extracting(opened, monkeypatch):
    """An engine whose backbone waits at its first images until it is released, and the batches that it processes."""
    engine = opened()
    engine.learn([upload(0)], "night").result()
    backbone, gate, batches = engine._loader.backbone, threading.Event(), []
    real = backbone.of_prepared

    def extract(pixels):
        batches.append(sorted(pixels[:, 0, 0, 0].tolist()))
        gate.wait(120)
        return real(pixels)

    monkeypatch.setattr(backbone, "of_prepared", extract)
    yield engine, batches, gate
    gate.set()


def test_images_that_wait_share_a_batch(extracting):
    engine, batches, gate = extracting
    first = engine.predict([upload(1)])
    until(lambda: batches == [[1]])
    predictions = [engine.predict([upload(colour)]) for colour in range(20, 200, 20)]
    until(lambda: len(engine._extractor._queues[PredictRequest].prepared) == 9)
    gate.set()
    assert {len(future.result(60).answers) for future in (first, *predictions)} == {1}
    assert batches == [[1], list(range(20, 200, 20))]


def test_images_to_predict_go_before_those_to_learn(extracting, monkeypatch):
    engine, batches, gate = extracting
    monkeypatch.setattr(engine._loader.backbone, "batch_size", 3)
    first = engine.predict([upload(1)])
    until(lambda: batches == [[1]])
    lesson = engine.learn([upload(n) for n in range(2, 8)], "night")
    until(lambda: len(engine._extractor._queues[LearnRequest].prepared) == 6)
    predictions = engine.predict([upload(100 + n) for n in range(3)])
    until(lambda: len(engine._extractor._queues[PredictRequest].prepared) == 3)
    gate.set()
    assert len(first.result(60).answers) == 1
    assert len(predictions.result(60).answers) == 3
    assert len(lesson.result(60).lessons) == 6
    assert [sum(pixel >= 100 for pixel in pixels) for pixels in batches] == [0, 2, 1, 0]
    assert [len(pixels) for pixels in batches] == [1, 3, 3, 3]


def test_full_queues_refuse_at_once_and_empty_again(opened, held):
    engine = opened(max_rows=3, max_images=2, max_image_bytes=10_000)
    futures = [engine.learn_features(rows_of("cat"), ["cat"])]
    taken_out(engine)
    futures += [engine.learn_features(rows_of("cat", seed=seed), ["cat"]) for seed in range(1, 4)]
    with pytest.raises(TooBusy) as refused:
        engine.learn_features(rows_of("cat", seed=4), ["cat"])
    assert refused.value.retry_after >= 1
    with pytest.raises(BadRequest, match="at most 3 samples"):
        engine.learn_features(rows_of("cat", 4), ["cat"] * 4)
    assert engine.statistics()["too_busy"] == 1
    held.set()
    assert [future.result(60).lessons[0].lesson for future in futures] == list(range(1, len(futures) + 1))
    assert engine.statistics()["samples_waiting"] == 0


def test_images_that_wait_are_counted_in_bytes_too(opened):
    data = upload().data
    engine = opened(max_image_bytes=2 * len(data))
    with pytest.raises(BadRequest, match="at most 256 images"):
        engine.learn([upload()] * 3, "grey")
    engine.learn([upload()] * 2, "grey").result()
    assert engine.statistics()["image_bytes_waiting"] == engine.statistics()["images_waiting"] == 0


def test_a_request_that_was_cancelled_is_not_learned(opened, held):
    engine = opened()
    first = engine.learn_features(rows_of("cat"), ["cat"])
    taken_out(engine)
    second = engine.learn_features(rows_of("dog"), ["dog"])
    assert second.cancel()
    third = engine.learn_features(rows_of("oak"), ["oak"])
    held.set()
    assert third.result(60).lessons[0].lesson == 2
    assert first.result().lessons[0].lesson == 1
    assert [each["label"] for each in engine.describe()["classes"]] == ["cat", "oak"]


def test_closing_while_busy_finishes_what_was_taken(opened, held, tmp_path):
    engine = opened()
    lessons = [engine.learn([upload(20 * n)], "grey") for n in range(5)]
    closing = threading.Thread(target=engine.close)
    closing.start()
    until(lambda: engine.state == "stopping")
    with pytest.raises(NotReady, match="stopping"):
        engine.learn([upload()], "grey")
    with pytest.raises(NotReady):
        engine.predict([upload()])
    held.set()
    closing.join(60)
    assert sorted(lesson.result(1).lessons[0].lesson for lesson in lessons) == [1, 2, 3, 4, 5]
    engine.close()
    assert opened().describe()["images"] == 5


def test_a_writer_that_fails_says_so_and_every_request_is_answered(opened, monkeypatch, caplog):
    engine = opened()
    engine.learn_features(rows_of("cat"), ["cat"]).result()

    def die(model, jobs):
        raise SystemExit("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(ServedModel, "change", die)
        with pytest.raises(InternalError):
            engine.learn_features(rows_of("dog"), ["dog"]).result(60)
    engine._writer._thread.join(60)
    with pytest.raises(NotReady, match="stopped learning"):
        engine.learn_features(rows_of("dog"), ["dog"])
    assert "restart" in engine.problem
    assert engine.predict_features(rows_of("cat")).result(60).answers[0].label == "cat"
    assert opened().describe()["images"] == 1


def test_a_change_that_is_on_disk_is_answered_even_if_telling_followers_of_it_fails(opened, monkeypatch, caplog):
    engine = opened()
    engine.subscribe()

    def broken(event):
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(engine._events, "publish", broken)
        learned = engine.learn_features(rows_of("cat", 2), ["cat", "cat"], key="k").result(60)
        engine._writer._thread.join(60)
    assert [sample.lesson for sample in learned.lessons] == [1, 2]
    assert engine.predict_features(rows_of("cat")).result(60).answers[0].lesson == 2
    assert "RuntimeError: a bug" in engine.problem
    again = opened()
    assert again.describe()["images"] == 2
    assert again.learn_features(rows_of("cat", 2), ["cat", "cat"], key="k").result(60) == learned


def test_a_second_engine_on_one_model_is_refused(opened, tmp_path):
    opened()
    with pytest.raises(ModelStoreError, match="in use by another run"):
        Engine.open(tmp_path / "m.safetensors")


def test_an_engine_may_be_closed_by_another_thread(opened):
    engine = opened()
    closing = threading.Thread(target=engine.close)
    closing.start()
    closing.join()
    opened()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_gets_the_error_that_the_engine_is_not_its_own(opened, monkeypatch):
    engine = opened()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(NotReady, match="another process"):
        engine.learn([upload()], "grey")
    engine.close()
    monkeypatch.undo()
    engine.learn([upload()], "grey").result()


# ---- keys ---------------------------------------------------------------------------------------


def test_a_key_makes_a_request_count_once(opened):
    engine = opened()
    ask = (
        lambda: engine.learn([upload(), Upload(b"", "empty")], "grey", key="1").result(),
        lambda: engine.learn_features(np.ones((1, 12)), ["one"], key="2").result(),
        lambda: engine.rename("one", "two", key="3").result(),
        lambda: engine.forget("two", key="4").result(),
        lambda: engine.undo(4, key="5").result(),
    )
    first = [one() for one in ask]
    assert [one() for one in ask] == first
    assert engine.describe()["lesson"] == 5
    engine = opened()  # and after a restart
    assert engine.learn([upload(), Upload(b"", "empty")], "grey", key="1").result() == first[0]
    assert engine.undo(4, key="5").result() == first[-1]
    assert engine.describe()["lesson"] == 5
    for other in (
        lambda: engine.learn([upload(3), Upload(b"", "empty")], "grey", key="1"),
        lambda: engine.learn([upload(), Upload(b"", "empty")], "gray", key="1"),
        lambda: engine.undo(key="1"),
    ):
        with pytest.raises(Conflict, match="used for another request"):
            other()


def test_a_request_sent_again_before_it_is_answered_counts_once(opened, held):
    engine = opened()
    futures = [engine.learn_features(rows_of("cat"), ["cat"], key="k") for _ in range(3)]
    assert futures[0].cancel() in (True, False)  # one who hangs up takes nothing from the others
    with pytest.raises(Conflict):
        engine.learn_features(rows_of("dog"), ["dog"], key="k")
    held.set()
    assert {future.result(60).lessons[0].lesson for future in futures[1:]} == {1}
    assert engine.describe()["lesson"] == 1


def test_a_refused_request_may_be_sent_again_with_its_key(opened):
    engine = opened()
    engine.learn_features(rows_of("cat"), ["cat"]).result()
    for _ in range(2):
        with pytest.raises(NotFound):
            engine.forget("dog", key="k").result()
    engine.learn_features(rows_of("dog"), ["dog"]).result()
    assert engine.forget("dog", key="k").result().lesson == 3


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb"])
def test_an_odd_key_is_refused(opened, key):
    with pytest.raises(BadRequest, match="idempotency key"):
        opened().undo(key=key)


# ---- events -------------------------------------------------------------------------------------


def test_every_change_is_published_to_subscribers(opened):
    engine, woken = opened(), []
    listening = engine.subscribe(lambda: woken.append(1))
    engine.learn([upload(10), upload(12)], "night").result()
    engine.learn([upload(240)], "day").result()
    engine.learn([upload(11)], "night").result()
    engine.undo().result()
    received = [listening.get(5) for _ in range(5)]
    assert [(event["lesson"], event["kind"], event["right"]) for event in received] == [
        (1, "learn", None),
        (2, "learn", None),
        (3, "learn", None),
        (4, "learn", True),
        (5, "undo", None),
    ]
    assert (received[3]["images"], received[3]["classes"], received[3]["was"]["label"]) == (4, 2, "night")
    assert received[3]["lately"] is not None
    assert len(woken) == 5
    engine.close()
    assert listening.get(5) is None
    assert listening.closed


def test_a_slow_subscriber_learns_how_many_events_it_lost(monkeypatch):
    monkeypatch.setattr(events, "MAX_WAITING", 3)
    all_of_them = events.Events()
    slow = all_of_them.subscribe()
    for number in range(5):
        all_of_them.publish({"lesson": number})
    assert slow.get() == {"lesson": 0}
    all_of_them.publish({"lesson": 5})
    assert [slow.get() for _ in range(5)] == [
        {"lesson": 1},
        {"lesson": 2},
        {"kind": "gap", "lost": 2},
        {"lesson": 5},
        None,
    ]
    slow.close()
    assert len(all_of_them) == 0


def test_only_so_many_answers_are_kept(opened, monkeypatch):
    monkeypatch.setattr(idempotency, "MAX_KEYS", 3)
    engine = opened()
    for n in range(6):
        engine.learn([upload(n)], "grey", key=str(n)).result()
    kept = engine._model.journal.stored_answers()
    assert [each.key for each in kept] == ["2", "3", "4", "5"]  # the oldest goes with the next change
    assert engine.learn([upload(4)], "grey", key="4").result().lessons[0].lesson == 5
    assert engine.learn([upload(0)], "grey", key="0").result().lessons[0].lesson == 7


def test_the_service_goes_on_after_an_error_in_feature_extraction(opened, monkeypatch):
    engine = opened()
    engine.learn([upload(10)], "night").result()

    def broken(*arguments):
        raise RuntimeError("a bug")

    for owner, name in ((engine._loader.backbone, "of_prepared"), (engine._extractor, "_finished")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, broken)
            for ask in (lambda: engine.predict([upload()]), lambda: engine.learn([upload()], "grey")):
                with pytest.raises(InternalError, match="a bug"):
                    ask().result(60)
    assert engine.predict([upload()]).result(60).answers[0].label == "night"
    assert engine.describe()["lesson"] == 1


def test_an_answer_that_nobody_waits_for_accepts_no_more_futures():
    pending = idempotency.PendingAnswer()
    first, second = pending.future(), pending.future()
    first.cancel()
    assert not pending.abandoned
    second.cancel()
    assert pending.abandoned
    third = pending.future()  # in time
    assert pending.start()
    assert not third.cancel()
    pending.resolve(1)
    assert third.result() == 1
    assert pending.future() is None
    given_up = idempotency.PendingAnswer()
    given_up.future().cancel()
    assert not given_up.start()
    assert given_up.future() is None


def test_a_key_whose_requests_were_all_cancelled_may_be_sent_again(opened, held):
    engine = opened()
    first = engine.learn_features(rows_of("cat"), ["cat"])
    taken_out(engine)
    given_up = engine.learn_features(rows_of("dog"), ["dog"], key="k")
    assert given_up.cancel()
    held.set()
    first.result(60)
    assert engine.learn_features(rows_of("dog"), ["dog"], key="k").result(60).lessons[0].lesson == 2


def test_a_service_that_cannot_start_leaves_nothing_behind(tmp_path):
    with pytest.raises(ModelStoreError, match="There is no learner for photos called none"):
        Engine.open(tmp_path / "shop.safetensors", EngineSettings(learner="none"))
    assert not list(tmp_path.iterdir())
