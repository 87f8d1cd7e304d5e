"""Test, then train: what the record counts, and that keeping one changes nothing else."""

from __future__ import annotations

import json
import threading
from itertools import pairwise

import numpy as np
import pytest

import votestream as vs
from conftest import ON_FEATURES, make_on_features
from votestream.io.model_files import read, write
from votestream.testing.promise import learned
from votestream.testing.samples import ImageSamples
from votestream.tracking import Tracker
from votestream.tracking.tallies import LATELY, Course, Lately

TRACKED = [name for name in ON_FEATURES if "track" in vs.create(name).get_params()]


def classes_apart(n=300, width=8, apart=4.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (rng.normal(size=(n, width)) + apart * np.eye(width)[y]).astype(np.float32), y


def test_every_learner_on_features_but_the_joint_probe_can_keep_a_record():
    assert set(ON_FEATURES) - set(TRACKED) == {"joint"}


def test_what_is_counted_is_the_answer_just_before_a_sample_is_learned():
    model = vs.NearestClassMean(track=True, batch_size=1)
    X = np.array([[0.0, 1.0], [9.0, 1.0], [8.0, 1.0], [1.0, 1.0], [7.0, 1.0]])
    record = model.partial_fit(X, ["low", "high", "high", "low", "low"]).track_record()
    assert (record.samples, record.unknown.met) == (5, 2)
    assert (record.so_far.tested, record.so_far.right) == (3, 2)  # 8 is high, 1 is low, 7 is taken for high
    assert [(each.label, each.learned, each.score.tested, each.score.right) for each in record.classes] == [
        ("high", 2, 1, 1),
        ("low", 3, 2, 1),
    ]
    assert record.confusions == (("low", "high", 1),)


def test_first_samples_of_new_classes_are_unknown_and_no_errors():
    X, y = classes_apart(n=60)
    record = vs.NearestClassMean(track=True).partial_fit(X, y).track_record()
    assert record.unknown.met == 10  # the first mini-batch had all classes
    record = vs.NearestClassMean(track=True, batch_size=1).partial_fit(X, y).track_record()
    assert record.unknown.met == 3
    assert record.so_far.tested == len(X) - 3


@pytest.mark.parametrize("name", TRACKED)
def test_a_whole_call_is_recorded_as_its_mini_batches(name, stream):
    whole, cut = make_on_features(name)(track=True), make_on_features(name)(track=True)
    whole.partial_fit(stream.X, stream.y, task=0)
    for i in range(0, len(stream.X), 10):
        cut.partial_fit(stream.X[i : i + 10], stream.y[i : i + 10], task=0)
    assert whole.track_record() == cut.track_record()


def test_mini_batches_of_a_long_call_are_tested_together_and_the_record_is_about_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.integers(0, 5, 4000), rng.integers(0, 10, 4000)])  # five classes come later
    X = (rng.normal(size=(8000, 20)) + 1.2 * np.eye(20)[y]).astype(np.float32)
    whole, cut = vs.GaussianVoting(track=True), vs.GaussianVoting(track=True)
    for i in range(0, len(X), 10):
        cut.partial_fit(X[i : i + 10], y[i : i + 10])
    prepared, prepare = [], vs.GaussianVoting._prepared
    monkeypatch.setattr(vs.GaussianVoting, "_prepared", lambda *given: prepared.append(1) or prepare(*given))
    whole.partial_fit(X, y)
    assert len(prepared) < 400  # of 800 mini-batches
    one, other = whole.track_record(), cut.track_record()
    assert one.so_far.tested == other.so_far.tested
    assert abs(one.so_far.right - other.so_far.right) < 0.005 * other.so_far.tested


def test_tasks_and_labels_are_told_as_the_user_named_them():
    X, y = classes_apart()
    names = np.array(["ox", "ant", "elk"])
    model = vs.GaussianVoting(track=True)
    model.partial_fit(X[y < 2], names[y[y < 2]], task="first").partial_fit(X[y == 2], names[y[y == 2]], task="second")
    record = model.track_record()
    assert [each.label for each in record.classes] == model.classes_.tolist() == ["ant", "elk", "ox"]
    assert [each.task for each in record.classes] == ["first", "second", "first"]
    assert [task.task for task in record.tasks] == ["first", "second"]
    assert sum(task.score.tested for task in record.tasks) == record.so_far.tested


def test_a_record_is_json_and_text():
    X, y = classes_apart(apart=1.0)
    record = vs.create("slda", track=True).partial_fit(X, y).track_record()
    assert json.loads(json.dumps(record.to_dict()))["so_far"]["tested"] == 290
    assert "accuracy so far" in str(record)
    assert "was taken for" in str(record)


def test_accuracy_by_stated_confidence_sums_up_to_all_tests():
    X, y = classes_apart(apart=1.0)
    record = vs.create("slda", track=True).partial_fit(X, y).track_record()
    assert sum(each.score.tested for each in record.stated) == record.so_far.tested
    assert all(each.low <= each.confidence <= each.high for each in record.stated if each.confidence is not None)


def test_how_it_went_over_time_covers_the_stream_and_stays_small():
    X, y = classes_apart(n=2000, width=3)
    record = vs.NearestClassMean(track=True, batch_size=13).partial_fit(X, y).track_record()
    periods = record.over_time
    assert (periods[0].first, periods[-1].last) == (1, 2000)
    assert all(a.last + 1 == b.first for a, b in pairwise(periods))
    assert 32 <= len(periods) <= 64
    assert sum(period.score.tested for period in periods) == record.so_far.tested


def test_periods_are_joined_two_by_two():
    course = Course()
    for _ in range(130):
        course.add(10, 10, 5, 0)
    assert course.length == 32
    assert course.periods().sum(0).tolist() == [1300, 650, 0]


def test_lately_is_the_last_tests():
    lately = Lately()
    lately.add(np.zeros(LATELY, bool))
    for _ in range(30):
        lately.add(np.ones(10, bool))
    assert lately.counts() == (LATELY, 300)


def test_without_track_there_is_a_sentence():
    X, y = classes_apart()
    model = vs.GaussianVoting().partial_fit(X, y)
    for ask in (model.track_record, lambda: model.unknown_score(X), lambda: model.snapshot().unknown_score(X)):
        with pytest.raises(ValueError, match="make it with track=True"):
            ask()


def test_track_cannot_be_switched_once_learning_began():
    X, y = classes_apart()
    model = vs.GaussianVoting().partial_fit(X, y).set_params(track=True)
    with pytest.raises(ValueError, match="track was False when learning began"):
        model.partial_fit(X, y)
    assert model.fit(X, y).track_record().samples == len(X)
    with pytest.raises(ValueError, match="track must be"):
        vs.GaussianVoting(track="yes").partial_fit(X, y)


@pytest.mark.parametrize(("width", "n_classes"), [(12, 6), (500, 3)])
def test_the_bytes_foreseen_are_the_bytes_held(width, n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, width)), np.arange(60) % n_classes
    tracked = vs.NearestClassMean(track=True, device="cpu").partial_fit(X, y).memory_bytes()
    plain = vs.NearestClassMean(device="cpu").partial_fit(X, y).memory_bytes()
    assert tracked - plain == Tracker.bytes_for(width, n_classes)


def test_a_budget_in_bytes_holds_with_a_track_record_in_it(stream):
    for budget in (25_000, 40_000):
        model = vs.GaussianVoting(budget_bytes=budget, track=True, device="cpu")
        for X, y in stream.batches(12):
            assert model.partial_fit(X, y).memory_bytes() <= budget
    with pytest.raises(ValueError, match="track record"):
        vs.GaussianVoting(budget_bytes=15_000, track=True).partial_fit(stream.X, stream.y)


def test_who_predicts_while_a_call_is_under_way_sees_no_state_in_between(monkeypatch):
    X, y = classes_apart()
    model = vs.NearestClassMean(track=True, device="cpu").partial_fit(X[:50], y[:50])
    before, seen = model.predict_proba(X), []
    real = Tracker.learn

    def look(tracker, rows, classes):
        real(tracker, rows, classes)
        reader = threading.Thread(target=lambda: seen.append(model.predict_proba(X)))
        reader.start()
        reader.join()

    monkeypatch.setattr(Tracker, "learn", look)
    model.partial_fit(X[50:120], y[50:120])
    assert len(seen) == 7
    assert all(np.array_equal(each, before) for each in seen)


def test_a_model_on_pictures_has_its_learners_record(picture_stream):
    model = vs.ImageClassifier("pixels", vs.GaussianVoting(track=True, device="cpu"))
    model = learned(model, picture_stream)
    assert model.track_record().samples == len(picture_stream.y)
    assert model.unknown_score(picture_stream.X).shape == picture_stream.y.shape
    same = model.snapshot().unknown_score(picture_stream.X)
    assert np.array_equal(same, model.unknown_score(picture_stream.X))


@pytest.fixture
def picture_stream():
    return ImageSamples()


DAMAGE = {
    "track.record.met": lambda a: a + 1,
    "track.record.classes": lambda a: a[:, ::-1].copy(),
    "track.record.stated": lambda a: -a,
    "track.record.course.length": lambda a: a + 1,
    "track.record.confusions.others": lambda a: a + 99,
    "track.sums.seen": lambda a: a[:, ::-1].copy(),
    "track.sums.stated": lambda a: a + 1e6,
    "track.moments.counts": lambda a: a * 0,
    "track.moments.means": lambda a: a + 9,
    "track.moments.held_samples": lambda a: a * 99,
    "track.moments.scatter.0": lambda a: -a - 1,
    "track.moments.held.0": lambda a: a * np.float32(np.nan),
    "track.ood.table": lambda a: a[:1],
    "track.ood.tested": lambda a: -a,
    "track.left_out.table": lambda a: a[:1],
    "track.left_out.tested": lambda a: -a,
    "track.drift.table": lambda a: -a - 1,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_record_that_does_not_hold_together_is_refused(name, tmp_path, stream):
    path = tmp_path / "m.safetensors"
    learned(vs.NearestClassMean(track=True, device="cpu"), stream).save(path)
    header, arrays = read(path)
    write(path, header, {**arrays, name: DAMAGE[name](arrays[name])})
    with pytest.raises(vs.ModelFileError):
        vs.load(path)


def test_a_record_that_is_not_all_there_is_refused(tmp_path, stream):
    path = tmp_path / "m.safetensors"
    learned(vs.NearestClassMean(track=True, device="cpu"), stream).save(path)
    header, arrays = read(path)
    for name in [name for name in arrays if name.startswith("track.")]:
        write(path, header, {key: array for key, array in arrays.items() if key != name})
        with pytest.raises(vs.ModelFileError):
            vs.load(path)
    write(path, {**header, "params": {**header["params"], "track": False}}, arrays)
    with pytest.raises(vs.ModelFileError, match="mean nothing here"):
        vs.load(path)
