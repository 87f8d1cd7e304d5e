"""A track record follows the corrections of its model: forget, rename, merge."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from votestream.testing.promise import reloaded

NAMES = np.array(["ant", "bee", "cat", "dog"])


def taught(seed=0, classes=(0, 1, 2, 3), n=200, name="gaussian_voting"):
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n)
    X = rng.normal(size=(n, 6)) + 1.5 * np.eye(6)[y]
    return vs.create(name, track=True, device="cpu").partial_fit(X, NAMES[y]), X, NAMES[y]


def by_label(model):
    return {each.label: (each.learned, each.score.tested, each.score.right) for each in model.track_record().classes}


@pytest.mark.parametrize("name", ["gaussian_voting", "ncm", "knn"])
def test_a_forgotten_class_is_in_the_record_no_more(name):
    model, X, y = taught(name=name)
    before = by_label(model)
    model.forget("bee")
    record = model.track_record()
    assert by_label(model) == {label: row for label, row in before.items() if label != "bee"}
    assert all("bee" not in (each.label, each.taken_for) for each in record.confusions)
    assert record.so_far.tested == sum(row[1] for label, row in before.items() if label != "bee")
    same = reloaded(model)
    assert same.track_record() == record
    rest = y != "bee"
    model.partial_fit(X[rest], y[rest])
    assert same.partial_fit(X[rest], y[rest]).track_record() == model.track_record()


def test_a_renamed_class_keeps_its_record():
    model, _, _ = taught()
    before = by_label(model)
    model.rename("bee", "wasp")
    assert by_label(model)["wasp"] == before["bee"]


def test_two_classes_made_one_have_one_record():
    model, X, _ = taught()
    before, scores = by_label(model), model.unknown_score(X)
    model.rename("bee", "cat")
    both = tuple(a + b for a, b in zip(before["bee"], before["cat"], strict=True))
    assert by_label(model)["cat"] == both
    assert all(each.label != each.taken_for for each in model.track_record().confusions)
    assert np.isfinite(model.unknown_score(X)).all()
    assert np.abs(model.unknown_score(X) - scores).mean() < 0.3
    assert reloaded(model).track_record() == model.track_record()


def test_merged_models_have_both_records():
    (one, X, _), (other, _, _) = taught(0, (0, 1, 2)), taught(1, (1, 2, 3))
    ours, theirs = by_label(one), by_label(other)
    merged = vs.merge([one, other])
    record = merged.track_record()
    assert record.samples == 400
    assert record.so_far.tested == one.track_record().so_far.tested + other.track_record().so_far.tested
    for label in NAMES:
        rows = [record[label] for record in (ours, theirs) if label in record]
        assert by_label(merged)[label] == tuple(map(sum, zip(*rows, strict=True)))
    assert sum(period.score.tested for period in record.over_time) == record.so_far.tested
    assert reloaded(merged).track_record() == record
    assert np.array_equal(reloaded(merged).unknown_score(X), merged.unknown_score(X))
    assert by_label(one) == ours  # which stays as it was


def test_unknowns_are_judged_as_by_one_model_that_learned_everything():
    (one, X, y), (other, A, b) = taught(0, (0, 1)), taught(1, (2, 3))
    merged, all_at_once = vs.merge([one, other]), vs.GaussianVoting(track=True, device="cpu")
    all_at_once.partial_fit(X, y).partial_fit(A, b)
    assert np.allclose(merged.state_.tracker._moments.means, all_at_once.state_.tracker._moments.means, atol=1e-5)
    mine, theirs = (model.state_.tracker._moments.scatter.matrix() for model in (merged, all_at_once))
    assert np.allclose(mine, theirs, atol=1e-3)


def test_a_tracked_model_and_one_that_is_not_are_not_merged():
    one, X, y = taught()
    with pytest.raises(ValueError, match="differ in track"):
        vs.merge([one, vs.GaussianVoting(device="cpu").partial_fit(X, y)])


def test_after_forgetting_no_more_of_the_newest_tests_are_shown_than_of_all():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 60)[rng.permutation(180)]
    X = rng.normal(size=(180, 5)) + 3 * (y == "b")[:, None] - 3 * (y == "c")[:, None]
    model = vs.GaussianVoting(track=True).partial_fit(X, y).forget("c")
    assert model.track_record().lately.tested == 0
    model.partial_fit(X[:20], np.where(y[:20] == "c", "b", y[:20]))
    record = model.track_record()
    assert 0 < record.lately.tested <= record.so_far.tested
