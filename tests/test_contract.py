"""What every learner promises; each registered one is put through all of it."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import votestream as vs
from conftest import ON_FEATURES, make_on_features, same_model


def learned(model, stream, batches=None):
    for X, y in list(stream.batches())[:batches]:
        model.partial_fit(X, y)
    return model


def test_the_constructor_only_stores_its_arguments(make):
    model = make()
    assert set(vars(model)) == set(model.get_params(deep=False))
    assert repr(clone(model).get_params()) == repr(model.get_params())


def test_it_learns_well_separated_classes(make, stream):
    model = learned(make(), stream)
    assert (model.predict(stream.X) == stream.y).mean() > 0.8


def test_partial_fit_returns_the_model_itself(make, stream):
    model = make()
    assert model.partial_fit(stream.X[:5], stream.y[:5]) is model


def test_no_batch_size_of_the_caller_is_refused(make, stream):
    whole = make().partial_fit(stream.X, stream.y)
    single = make()
    for x, label in zip(stream.X[:40], stream.y[:40], strict=True):
        single.partial_fit(x[None], [label])
    assert len(whole.classes_) == 6
    assert len(single.classes_) == 2


def test_a_whole_task_in_one_call_is_the_same_as_its_mini_batches(make, stream):
    by_batch = make()
    for name, (X, y) in enumerate(stream.tasks):
        for i in range(0, len(X), 10):
            by_batch.partial_fit(X[i : i + 10], y[i : i + 10], task=name)
    by_task = make()
    for name, (X, y) in enumerate(stream.tasks):
        by_task.partial_fit(X, y, task=name)
    assert same_model(by_batch, by_task)


def test_the_same_seed_gives_the_same_model(make, stream):
    assert same_model(learned(make(seed=3), stream), learned(make(seed=3), stream))


@pytest.mark.parametrize("stop", [1, 7, 13])
def test_save_load_and_go_on_equals_never_having_stopped(make, stream, tmp_path, stop):
    batches = list(stream.batches())
    steady = learned(make(), stream)
    before = learned(make(), stream, stop)
    before.save(tmp_path / "m.safetensors")
    resumed = vs.load(tmp_path / "m.safetensors")
    assert same_model(before, resumed)
    for X, y in batches[stop:]:
        resumed.partial_fit(X, y)
    assert same_model(steady, resumed)
    assert np.array_equal(steady.predict_proba(stream.X), resumed.predict_proba(stream.X))


def test_predicting_has_no_side_effect(make, stream):
    asked, left_alone = make(), make()
    for X, y in stream.batches():
        left_alone.partial_fit(X, y)
        asked.partial_fit(X, y)
        asked.predict(X)
        asked.predict_proba(X)
    assert same_model(asked, left_alone)
    assert np.array_equal(asked.predict_proba(stream.X), left_alone.predict_proba(stream.X))


def test_labels_renamed_give_the_same_model_renamed(make, stream):
    names = np.array(["zebra", "ant", "Ωmega", "10", "9", ""])
    numbered, named = make(), make()
    for X, y in stream.batches():
        numbered.partial_fit(X, y)
        named.partial_fit(X, names[y])
    assert list(names[numbered.classes_seen_]) == list(named.classes_seen_)
    assert np.array_equal(names[numbered.predict(stream.X)], named.predict(stream.X))
    columns = np.searchsorted(named.classes_, names[numbered.classes_])
    assert np.array_equal(numbered.predict_proba(stream.X), named.predict_proba(stream.X)[:, columns])


def test_integer_and_string_labels_may_mix_and_survive_saving(make, stream, tmp_path):
    labels = [int(y) if y % 2 else f"class {y}" for y in stream.y]
    model = make().partial_fit(stream.X, labels)
    model.save(tmp_path / "m.safetensors")
    assert list(vs.load(tmp_path / "m.safetensors").predict(stream.X)) == list(model.predict(stream.X))
    assert set(model.predict(stream.X)) <= set(labels)


def test_classes_are_sorted_as_scikit_learns_and_remembered_as_they_came(make, stream):
    model = make().partial_fit(stream.X[:1], ["z"]).partial_fit(stream.X[:3], ["m", 7, "a"])
    assert list(model.classes_) == [7, "a", "m", "z"]
    assert list(model.classes_seen_) == ["z", "m", 7, "a"]


def test_every_public_array_stands_as_classes_do(make, stream):
    names = np.array(["f", "e", "d", "c", "b", "a"])
    forward, backward = make(), make()
    for task, (X, y) in enumerate(stream.tasks):
        forward.partial_fit(X, y, task=task)
        backward.partial_fit(X, names[y], task=task)
    assert list(backward.classes_) == sorted(names)
    for name in ("task_of_class_", "class_counts_", "class_means_", "weights_", "ranks_"):
        if hasattr(forward, name):
            assert np.array_equal(getattr(forward, name), getattr(backward, name)[::-1]), name
    assert np.array_equal(forward.predict_proba(stream.X), backward.predict_proba(stream.X)[:, ::-1])


def test_probabilities_sum_to_one_and_agree_with_predict(make, stream):
    model = learned(make(), stream)
    P = model.predict_proba(stream.X)
    assert P.shape == (len(stream.X), 6)
    assert (P >= 0).all()
    assert np.allclose(P.sum(1), 1)
    assert np.array_equal(model.classes_[P.argmax(1)], model.predict(stream.X))


def test_tasks_told_are_the_tasks_kept(make, stream):
    model = make()
    for name, (X, y) in zip(("week-1", "week-2", 3), stream.tasks, strict=True):
        model.partial_fit(X, y, task=name)
    assert model.tasks_ == ["week-1", "week-2", 3]
    assert np.array_equal(model.task_of_class_, np.repeat([0, 1, 2], 2))


def test_one_class_only_works(make, stream):
    model = make().partial_fit(stream.X[:10], ["only"] * 10)
    assert set(model.predict(stream.X[:3])) == {"only"}
    assert np.allclose(model.predict_proba(stream.X[:3]), 1)


def test_memory_bytes_grow_with_the_stream_only_where_a_learner_says_so(make, stream):
    model, held = make(), []
    for _ in range(20):
        model.partial_fit(np.repeat(stream.X, 5, axis=0), np.repeat(stream.y, 5))
        model.predict(stream.X[:1])
        held.append(model.memory_bytes())
    assert held[0] > 0
    assert (held[-1] <= held[9] * 1.05) == model.bounded


def test_a_budget_of_exemplars_holds_at_every_moment(make, stream):
    if "budget" not in make().get_params():
        return
    for budget in (7, 40):
        model = make(budget=budget)
        for X, y in stream.batches(3):
            model.partial_fit(X, y)
            assert len(model.exemplars_.features) <= budget


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda X: X.astype(np.float64), id="float64"),
        pytest.param(lambda X: np.asfortranarray(X), id="fortran-order"),
        pytest.param(lambda X: np.repeat(X, 2, axis=1)[:, ::2], id="non-contiguous"),
        pytest.param(lambda X: torch.from_numpy(X), id="torch"),
        pytest.param(lambda X: torch.from_numpy(X).requires_grad_(), id="torch-with-grad"),
        pytest.param(lambda X: X.tolist(), id="lists"),
    ],
)
def test_the_same_numbers_in_another_container_are_the_same_data(make_on_arrays, stream, convert):
    plain, other = make_on_arrays(), make_on_arrays()
    plain.partial_fit(stream.X, stream.y)
    other.partial_fit(convert(stream.X), stream.y.tolist())
    assert same_model(plain, other)
    assert np.array_equal(plain.predict(stream.X), other.predict(convert(stream.X)))


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint8, np.bool_])
def test_numbers_of_other_kinds_are_taken(make_on_arrays, dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40, 8)).astype(dtype)
    model = make_on_arrays().partial_fit(X, rng.integers(0, 2, 40))
    assert len(model.predict(X)) == 40


def test_the_callers_arrays_are_left_as_they_were_and_not_kept(make, stream):
    X, y = stream.X.copy(), stream.y.copy()
    model = make().partial_fit(X, y)
    assert np.array_equal(X, stream.X)
    assert np.array_equal(y, stream.y)
    before = model.predict(stream.X)
    X[:] = 0
    assert np.array_equal(model.predict(stream.X), before)


BAD = {
    "NaN": (lambda X, y: (np.where(np.eye(*X.shape, k=1) > 0, np.nan, X), y), "NaN in row 0"),
    "infinity": (lambda X, y: (np.where(np.eye(*X.shape) > 0, -np.inf, X), y), "infinity in row 0"),
    "overflow": (lambda X, y: (X.astype(np.float64) * 1e300, y), "infinity"),
    "huge": (lambda X, y: (X * np.float32(1e20), y), "rescale"),
    "width": (lambda X, y: (X[:, 1:], y), r"11 features, but \w+ is expecting 12"),
    "lengths": (lambda X, y: (X, y[1:]), "4 rows, 3 labels"),
    "empty": (lambda X, y: (X[:0], y[:0]), "empty"),
    "no features": (lambda X, y: (X[:, :0], y), "empty"),
    "text": (lambda X, y: (X.astype(str), y), "must hold numbers, got dtype <U"),
    "objects": (lambda X, y: (np.where(np.eye(*X.shape) > 0, "1.5", X.astype(object)), y), r"numbers, .*'1\.5'"),
    "missing": (lambda X, y: (np.where(np.eye(*X.shape) > 0, None, X.astype(object)), y), "numbers, .*None"),
    "complex": (lambda X, y: (X.astype(complex), y), "real numbers"),
    "ragged": (lambda X, y: ([[1.0], [1.0, 2.0]], y[:2]), "differ in length"),
    "one row": (lambda X, y: (X[0], y[:1]), r"pass x\[None\]"),
    "three dimensions": (lambda X, y: (X[None], y[:1]), "2-D"),
    "float labels": (lambda X, y: (X, y + 0.5), "strings or integers, got 4.5"),
    "missing labels": (lambda X, y: (X, [None] * len(X)), "strings or integers, got None"),
    "two-dimensional labels": (lambda X, y: (X, np.eye(4, dtype=int)), "strings or integers"),
    "one label": (lambda X, y: (X, "cat"), "single value 'cat'"),
    "a number for labels": (lambda X, y: (X, 3), "sequence of 4 labels"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_leaves_the_model_exactly_as_it_was(make_on_arrays, stream, case):
    spoil, complaint = BAD[case]
    model = learned(make_on_arrays(), stream, 8)
    untouched = copy.deepcopy(model)
    with pytest.raises(ValueError, match=complaint):
        model.partial_fit(*spoil(stream.X[-4:], stream.y[-4:]))
    assert same_model(model, untouched)
    model.partial_fit(stream.X[:10], stream.y[:10])
    untouched.partial_fit(stream.X[:10], stream.y[:10])
    assert same_model(model, untouched)


@pytest.mark.parametrize("case", ["NaN", "infinity", "width", "empty", "text", "one row"])
def test_bad_queries_are_named(make_on_arrays, stream, case):
    spoil, complaint = BAD[case]
    model = learned(make_on_arrays(), stream, 8)
    with pytest.raises(ValueError, match=complaint):
        model.predict(spoil(stream.X[:4], stream.y[:4])[0])


def test_bad_first_input_leaves_the_model_unfitted(make_on_arrays, stream):
    model = make_on_arrays()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(stream.X * np.nan, stream.y)
    with pytest.raises(NotFittedError):
        model.predict(stream.X)
    model.partial_fit(stream.X[:, :5], stream.y)
    assert model.n_features_in_ == 5


@pytest.mark.parametrize("task", [1.5, True, ["a"], b"a"])
def test_a_task_that_is_no_name_is_refused(make, stream, task):
    with pytest.raises(ValueError, match="task must be a string or an integer"):
        make().partial_fit(stream.X, stream.y, task=task)


def test_a_call_interrupted_half_way_is_not_passed_off_as_learned(make_on_arrays, stream, monkeypatch, tmp_path):
    model = learned(make_on_arrays(), stream, 3)
    model.save(tmp_path / "m.safetensors")

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model, "_learn", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(stream.X[:10], stream.y[:10])
    for ask in (
        model.predict,
        lambda X: model.partial_fit(X, stream.y),
        lambda X: model.save(tmp_path / "m.safetensors"),
    ):
        with pytest.raises(RuntimeError, match="go on from the last saved model"):
            ask(stream.X)
    assert len(vs.load(tmp_path / "m.safetensors").predict(stream.X)) == len(stream.X)


def test_asking_before_learning_says_so(make, stream, tmp_path):
    model = make()
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError, match="call partial_fit first"):
            ask(stream.X)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "m.safetensors")
    with pytest.raises(NotFittedError):
        _ = model.classes_


def test_a_device_that_is_not_there_is_refused(stream):
    for name in ON_FEATURES:
        with pytest.raises(ValueError, match="device"):
            make_on_features(name)(device="abacus").partial_fit(stream.X, stream.y)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cutting_of_any_stream_can_be_learned_and_resumed(tmp_path_factory, data):
    """Random labels, random cuts, a save and load at a random place."""
    for name in ON_FEATURES:
        n = data.draw(st.integers(1, 60))
        labels = data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
        X = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
        cuts = sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=5))})
        stop = data.draw(st.integers(1, len(cuts) - 1))
        path = tmp_path_factory.mktemp("any") / "m.safetensors"
        steady, resumed = make_on_features(name)(), make_on_features(name)()
        for i, (a, b) in enumerate(pairwise(cuts), start=1):
            steady.partial_fit(X[a:b], labels[a:b])
            resumed.partial_fit(X[a:b], labels[a:b])
            if i == stop:
                resumed.save(path)
                resumed = vs.load(path)
        assert same_model(steady, resumed)
        assert set(steady.predict(X)) <= set(labels)
