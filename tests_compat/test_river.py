"""VoteStream's learners as river classifiers."""

from __future__ import annotations

import copy
import pickle
from itertools import islice

import numpy as np
import pytest

import votestream as vs

pytest.importorskip("river")
from river import checks, compose, datasets, evaluate, metrics, preprocessing, stream

from votestream.compat.river import RiverClassifier

pd = pytest.importorskip("pandas")

LEARNERS = {
    "ncm": {},
    "slda": {},
    "rls": {},
    "fecam": {},
    "gaussian_voting": {},
    "ranpac": {"projection": 60},
    "foal": {"projection": 60},
    "klda": {"projection": 60, "draws": 2},
    "randumb": {"projection": 60},
    "srda": {},
    "candidates_voting": {},
    "er_features": {},
    "knn": {},
}


ON_ALL_DATA = ("ncm", "slda", "gaussian_voting")  # the others on one data set: every check predicts after every row


def made(name):
    return RiverClassifier(vs.create(name, device="cpu", **LEARNERS[name]))


def checks_of(name):
    """Those that apply; a check on data comes once for each data set."""
    model, seen = made(name), set()
    for i, check in enumerate(checks.yield_checks(model)):
        if check.__name__ not in model._unit_test_skips() and (name in ON_ALL_DATA or check.__name__ not in seen):
            seen.add(check.__name__)
            yield pytest.param(name, i, id=f"{name}-{check.__name__}-{i}")


def test_every_learner_on_features_but_the_joint_probe_is_checked():
    """That one trains anew on all rows for every answer."""
    found = {n for n in vs.list_learners() if n != "image_classifier" and "backbone" not in vs.create(n).get_params()}
    assert found - {"joint"} == set(LEARNERS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "i"), [one for name in LEARNERS for one in checks_of(name)])
def test_rivers_checks_pass(name, i):
    model = made(name)
    next(islice(checks.yield_checks(model), i, None))(model.clone())


@pytest.fixture
def rows():
    return [(x, y) for x, y in datasets.ImageSegments().take(300)]


@pytest.mark.parametrize("name", LEARNERS)
def test_it_answers_as_the_learner_does(name, rows):
    model, plain = made(name), vs.create(name, device="cpu", **LEARNERS[name])
    features = sorted(rows[0][0])
    for x, y in rows[:150]:
        model.learn_one(x, y)
        plain.partial_fit([[x[name] for name in features]], [y])
    X = np.array([[x[name] for name in features] for x, _ in rows[150:]])
    assert model.features == features
    assert [model.predict_one(x) for x, _ in rows[150:170]] == plain.predict(X[:20]).tolist()
    given = model.predict_proba_one(rows[150][0])
    assert list(given) == plain.classes_.tolist()
    assert list(given.values()) == plain.predict_proba(X[:1])[0].tolist()


@pytest.mark.parametrize("labels", [[True, False], ["b", "a"], [7, -1]])
def test_labels_come_back_as_they_were_given(labels):
    model = RiverClassifier(vs.NearestClassMean())
    for i, label in enumerate(labels):
        model.learn_one({"a": 9.0 * i, "b": 1.0}, label)
        assert type(model.predict_one({"a": 9.0 * i, "b": 1.0})) is type(label)
    assert [model.predict_one({"b": 1.0, "a": 9.0 * i}) for i in range(2)] == labels


def test_before_anything_was_learned_nothing_is_predicted():
    model = RiverClassifier(vs.NearestClassMean())
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 6])
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_many(frame).tolist() == [None, None]
    assert model.predict_proba_many(frame).shape == (2, 0)


def test_a_missing_feature_counts_as_zero_and_a_new_one_is_ignored_with_one_warning():
    model, full = RiverClassifier(vs.NearestClassMean()), RiverClassifier(vs.NearestClassMean())
    for one in (model, full):
        one.learn_one({"a": 1.0, "b": 2.0}, "x")
    model.learn_one({"b": 5.0}, "y")
    with pytest.warns(UserWarning, match="that the first row did not have are ignored, as 'c'"):
        model.learn_one({"a": 1.0, "b": 2.0, "c": 9.0}, "x")
    model.learn_one({"b": 1.0, "d": 9.0}, "y")  # would be an error if it warned again
    for x, y in (({"a": 0.0, "b": 5.0}, "y"), ({"a": 1.0, "b": 2.0}, "x"), ({"a": 0.0, "b": 1.0}, "y")):
        full.learn_one(x, y)
    assert model.model.class_means_.tolist() == full.model.class_means_.tolist()


def test_text_is_refused_by_the_name_of_its_feature():
    model = RiverClassifier(vs.NearestClassMean())
    with pytest.raises(ValueError, match=r"x must hold numbers, got 'country': 'FR'; encode it first"):
        model.learn_one({"age": 3, "country": "FR"}, "x")
    encoded = compose.Select("age") + (compose.Select("country") | preprocessing.OneHotEncoder()) | model
    encoded.learn_one({"age": 3, "country": "FR"}, "x")
    assert encoded.predict_one({"age": 3, "country": "FR"}) == "x"


def test_a_refused_first_row_fixes_no_features():
    model = RiverClassifier(vs.NearestClassMean())
    for wrong in ({}, {"a": float("nan")}, {"a": "text"}):
        with pytest.raises(ValueError, match=r"at least one feature|NaN|must hold numbers"):
            model.learn_one(wrong, "x")
    model.learn_one({"b": 1.0}, "x")
    assert model.features == ["b"]


def test_frames_in_any_order_of_columns_are_learned_alike(rows):
    frame, labels = pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])
    one, other = RiverClassifier(vs.StreamingLDA()), RiverClassifier(vs.StreamingLDA())
    one.learn_many(frame, labels)
    other.learn_many(frame[list(frame)[::-1]].astype(float), labels)
    assert one.predict_proba_many(frame).equals(other.predict_proba_many(frame))
    assert one.predict_many(frame[::2]).index.tolist() == frame.index[::2].tolist()


def test_copies_and_pickles_go_on_by_themselves_and_clones_begin_anew(rows):
    learner = vs.GaussianVoting(rank=3)
    model = RiverClassifier(learner)
    for x, y in rows[:100]:
        model.learn_one(x, y)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)):
        twin.learn_one(*rows[100])
        assert (sum(twin.model.class_counts_), sum(model.model.class_counts_)) == (101, 100)
    fresh = model.clone()
    assert fresh.predict_one(rows[0][0]) is None
    assert fresh.model.rank == 3
    assert not hasattr(learner, "n_features_in_")


def test_it_works_in_rivers_pipelines_and_evaluation(rows):
    model = preprocessing.StandardScaler() | RiverClassifier(vs.StreamingLDA())
    assert evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get() > 0.6
    arrays = RiverClassifier(vs.NearestClassMean())
    for x, y in stream.iter_array(np.eye(12), np.arange(12)):
        arrays.learn_one(x, y)
    assert arrays.features == list(range(12))


def test_what_is_no_learner_of_ours_is_refused():
    with pytest.raises(TypeError, match=r"learner must be one of VoteStream's, as vs.GaussianVoting\(\), got 'slda'"):
        RiverClassifier("slda")


def test_the_model_inside_can_be_saved_and_asked_elsewhere(rows, tmp_path):
    model = RiverClassifier(vs.StreamingLDA())
    for x, y in rows:
        model.learn_one(x, y)
    model.model.save(tmp_path / "m.safetensors")
    asked = vs.load(tmp_path / "m.safetensors").predict([[rows[0][0][name] for name in model.features]])
    assert asked.tolist() == [model.predict_one(rows[0][0])]
