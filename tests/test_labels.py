"""Which labels are taken, and that no two of them become one."""

from __future__ import annotations

import enum

import numpy as np
import pandas as pd
import pytest
import torch

import votestream as vs
from conftest import ON_FEATURES, make_on_features

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


class Colour(str, enum.Enum):  # noqa: UP042 - a StrEnum is a simpler case
    RED = "red"


def learned(y):
    return vs.NearestClassMean(device="cpu").partial_fit(X, y)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        pytest.param([3.0, 1.0, 3.0, 2.0], [1, 2, 3], id="integral floats"),
        pytest.param(np.array([1.0, 1.0, 2.0, 2.0]), [1, 2], id="array of integral floats"),
        pytest.param([torch.tensor(1), np.array(2), np.int8(1), 2], [1, 2], id="0-d tensors and arrays"),
        pytest.param([True, False, True, True], [False, True], id="truth values"),
        pytest.param(np.array([True, False, True, True]), [False, True], id="array of truth values"),
        pytest.param(pd.Series(["b", "a", "b", "a"], index=[3, 1, 2, 0]), ["a", "b"], id="series"),
        pytest.param(pd.Categorical(["b", "a", "b", "a"]), ["a", "b"], id="categorical"),
        pytest.param([Colour.RED, "blue", "red", "blue"], ["blue", "red"], id="string enum"),
        pytest.param((str(i % 2) for i in range(4)), ["0", "1"], id="generator"),
        pytest.param(np.ma.array([1, 2, 1, 2], mask=False), [1, 2], id="masked array without a mask"),
        pytest.param([2**70, 5, "x", 5], [5, 2**70, "x"], id="large integers and strings"),
    ],
)
def test_labels_of_many_kinds_are_taken(y, classes):
    assert list(learned(y).classes_) == classes


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        pytest.param(["a", "a\0", "b", "b"], "NUL", id="NUL"),
        pytest.param([True, 1, 2, 3], "True and 1 would be one class", id="True and 1"),
        pytest.param([0, False, 2, 3], "False and 0 would be one class", id="False and 0"),
        pytest.param(np.ma.array([1, 2, 1, 2], mask=[0, 1, 0, 0]), "masked labels", id="masked"),
        pytest.param({1, 2, 3, 4}, "in the order of the rows, got a set", id="set"),
        pytest.param({1: 2, 2: 3, 3: 4, 4: 5}, "in the order of the rows, got a dict", id="dict"),
        pytest.param([1.5, 1.0, 1.0, 1.0], "Unknown label type.*got 1.5", id="fractions"),
        pytest.param([float("nan"), 1.0, 1.0, 1.0], "got nan", id="NaN"),
        pytest.param([float("inf"), 1.0, 1.0, 1.0], "got inf", id="infinity"),
        pytest.param([b"a", b"b", b"a", b"b"], "got b'a'", id="bytes"),
        pytest.param([10**5000, 1, 2, 3], "bits", id="5000 digits"),
        pytest.param(None, "requires y to be passed", id="None"),
    ],
)
def test_labels_that_would_be_confused_or_lost_are_refused(y, complaint):
    with pytest.raises(ValueError, match=complaint):
        learned(y)


@pytest.mark.parametrize("name", ON_FEATURES)
def test_truth_values_and_numbers_do_not_merge_across_calls(name, tmp_path):
    model = make_on_features(name)().partial_fit(X, [True, False, True, False])
    model.save(tmp_path / "m.safetensors")
    for one in (model, vs.load(tmp_path / "m.safetensors")):
        assert one.classes_.dtype == bool
        with pytest.raises(ValueError, match="True and 1 would be one class"):
            one.partial_fit(X[:1], [1])


def test_a_masked_value_among_the_features_is_not_learned():
    with pytest.raises(ValueError, match="masked"):
        vs.NearestClassMean(device="cpu").partial_fit(np.ma.masked_less(X, 0), [1, 2, 1, 2])


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(UserWarning, match="column-vector y"):
        assert list(learned(np.array([["a"], ["b"], ["a"], ["b"]])).classes_) == ["a", "b"]
