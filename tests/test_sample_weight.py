"""Weights 0, 1 and 2 are leaving a row out, learning it once, and twice in a row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import votestream as vs
from conftest import ON_FEATURES, make_on_features, maker, same_model

WEIGHTED = ["fecam", "gaussian_voting", "ncm", "rls", "slda", "srda"]


@pytest.fixture
def weights(stream):
    return np.random.default_rng(0).integers(0, 4, len(stream.y))


def test_these_learners_take_weights():
    assert [name for name in ON_FEATURES if hasattr(vs.create(name), "set_fit_request")] == WEIGHTED


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_is_how_often_the_row_is_learned(name, stream, weights):
    """Bit for bit, in one call or many."""
    repeated = make_on_features(name)().fit(stream.X.repeat(weights, axis=0), stream.y.repeat(weights))
    assert same_model(make_on_features(name)().fit(stream.X, stream.y, sample_weight=weights), repeated)
    model = make_on_features(name)()
    for start in range(0, len(stream.y), 17):
        rows = slice(start, start + 17)
        model.partial_fit(stream.X[rows], stream.y[rows], sample_weight=weights[rows])
    assert same_model(model, repeated)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_one_change_nothing_and_all_weights_larger_hardly_anything(name, stream):
    plain = make_on_features(name)().fit(stream.X, stream.y)
    assert same_model(make_on_features(name)().fit(stream.X, stream.y, sample_weight=np.ones(len(stream.y))), plain)
    heavier = make_on_features(name)().fit(stream.X, stream.y, sample_weight=[3] * len(stream.y))
    assert np.allclose(heavier.class_means_, plain.class_means_, rtol=1e-5)
    assert heavier.class_counts_.tolist() == (3 * plain.class_counts_).tolist()


@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_in_another_order_with_their_weights_give_nearly_the_same(name, stream, weights):
    order = np.random.default_rng(1).permutation(len(stream.y))
    one = make_on_features(name)().fit(stream.X, stream.y, sample_weight=weights)
    other = make_on_features(name)().fit(stream.X[order], stream.y[order], sample_weight=weights[order])
    assert np.allclose(one.predict_proba(stream.X), other.predict_proba(stream.X), atol=1e-3)


def test_a_class_of_weight_zero_is_not_met(stream):
    model = vs.NearestClassMean().fit(stream.X, stream.y, sample_weight=stream.y != 2)
    assert model.classes_.tolist() == [0, 1, 3, 4, 5]
    assert model.partial_fit(stream.X, stream.y, sample_weight=stream.y == 2).classes_.tolist() == [0, 1, 2, 3, 4, 5]


def test_weights_come_as_lists_series_and_tensors(stream, weights):
    tensor = torch.tensor(weights)
    given = [weights.tolist(), pd.Series(weights), weights.astype(np.float32)]
    given += [tensor, tensor.float().requires_grad_(), tensor.bfloat16(), (-1j * tensor).conj().imag]
    models = [vs.NearestClassMean().fit(stream.X, stream.y, sample_weight=one) for one in given]
    assert all(same_model(models[0], model) for model in models)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([1.0, 0.5, 1.0], r"must hold whole numbers, got 0.5 in row 1; multiply the weights and round them"),
        ([1, 1, -1], "must hold no negative numbers, got -1 in row 2"),
        ([1, float("nan"), 1], "must hold finite numbers, got nan in row 1"),
        ([1, 1], r"must be 1D, a weight for each of the 3 rows, got shape \(2,\)"),
        ([[1, 1, 1]], r"must be 1D, a weight for each of the 3 rows, got shape \(1, 3\)"),
        (["a", "b", "c"], "must hold numbers, got dtype"),
        ([0, 0, 0], "is zero for every row: there is nothing to learn"),
        ([1, 1, 10**12], r"adds up to 1000000000002 rows, but one call may learn 10000000 of this width; divide the"),
        ([1, float("inf"), 1], "must hold finite numbers, got inf in row 1"),
        (np.array([1, np.nan, 1], np.float16), "must hold finite numbers, got nan in row 1"),
        (np.array([1, 1, np.longdouble("1e4000")]), r"must hold (numbers up to 2\*\*53|finite numbers)"),
        ([10**400, 1, 1], "must hold numbers, got dtype object"),
        ([[1], [1, 2], [1]], "must be 1D; NumPy makes no array of it"),
        (np.ma.array([1, 1, 1], mask=[0, 0, 1]), "is a masked array"),
        (torch.zeros(3, dtype=torch.complex64).conj(), "must hold numbers, got dtype complex64"),
        ([1, 1, 1e300], r"must hold numbers up to 2\*\*53, got 1e\+300 in row 2"),
    ],
)
def test_other_weights_are_refused_and_change_nothing(wrong, told):
    X, y = np.eye(3), ["a", "b", "c"]
    model = vs.NearestClassMean().fit(X, y)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=f"sample_weight {told}"):
            learn(X, y, sample_weight=wrong)
    assert same_model(model, vs.NearestClassMean().fit(X, y))


def test_rows_that_weights_make_take_seconds_at_most():
    """However narrow they are: two rows of three features once took more than a minute."""
    with pytest.raises(ValueError, match="sample_weight adds up to 100000000 rows"):
        vs.StreamingLDA().fit(np.eye(3)[:2], ["a", "b"], sample_weight=[10**8 - 1, 1])
    with pytest.raises(ValueError, match="sample_weight adds up to"):  # more than an int64 holds
        vs.NearestClassMean().fit(np.zeros((1025, 1)), ["a"] * 1025, sample_weight=[2**53] * 1025)


@pytest.mark.parametrize("name", sorted(set(vs.list_learners()) - set(WEIGHTED) - {"image_classifier"}))
def test_other_learners_say_that_they_take_none(name):
    model = maker(name)()
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(TypeError, match=f"{type(model).__name__} does not take sample_weight: only learners that"):
            learn(np.eye(3), [0, 1, 2], sample_weight=[1, 1, 1])
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'weight'"):
            learn(np.eye(3), [0, 1, 2], weight=[1, 1, 1])
    assert not hasattr(model, "n_features_in_")


def test_a_track_record_with_weights_is_that_of_repeated_rows(stream, weights):
    one = vs.StreamingLDA(track=True).fit(stream.X, stream.y, sample_weight=weights)
    other = vs.StreamingLDA(track=True).fit(stream.X.repeat(weights, axis=0), stream.y.repeat(weights))
    assert one.track_record().so_far == other.track_record().so_far
