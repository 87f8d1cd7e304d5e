"""What validation accepts, every learner can learn and answer, whatever the scale of the features."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import votestream as vs
from conftest import ON_FEATURES, Stream, make_on_features, same_model


def check(model, X):
    P = model.predict_proba(X)
    assert np.isfinite(P).all()
    assert np.allclose(P.sum(1), 1)
    assert np.array_equal(model.classes_[P.argmax(1)], model.predict(X))


@pytest.mark.parametrize("scale", [1e-39, 1e-30, 1e-10, 1e-5, 1e5, 1e9, 1e11])
@pytest.mark.parametrize("name", ON_FEATURES)
def test_features_of_any_scale_are_learned(name, scale, tmp_path):
    stream = Stream()
    X = (stream.X.astype(np.float64) * scale).astype(np.float32)
    model = make_on_features(name)()
    for i in range(0, len(X), 10):
        model.partial_fit(X[i : i + 10], stream.y[i : i + 10])
    assert model.score(X, stream.y) > 0.8
    check(model, X)
    model.save(tmp_path / "m.safetensors")
    assert np.array_equal(vs.load(tmp_path / "m.safetensors").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("name", ON_FEATURES)
def test_public_arrays_are_in_the_units_of_the_features(name):
    """Times a power of two, nothing but the scale of what is shown changes."""
    stream, factor = Stream(), np.float32(2.0**-80)
    plain = make_on_features(name)().partial_fit(stream.X, stream.y)
    small = make_on_features(name)().partial_fit(stream.X * factor, stream.y)
    assert np.array_equal(plain.predict(stream.X), small.predict(stream.X * factor))
    if hasattr(plain, "exemplars_"):
        assert np.array_equal(plain.exemplars_.features * factor, small.exemplars_.features)
    if hasattr(plain, "class_means_") and name != "gaussian_voting":  # there: of transformed features
        assert np.allclose(plain.class_means_ * float(factor), small.class_means_, rtol=1e-6, atol=0)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("name", ON_FEATURES)
def test_one_outlier_leaves_a_model_that_answers(name, size):
    stream = Stream(n=600)
    X = stream.X.copy()
    X[301] *= size
    model = make_on_features(name)().partial_fit(X, stream.y)
    check(model, np.concatenate((stream.X[:50], X[300:302], np.full((1, 12), 1e12), np.zeros((1, 12)))))


@pytest.mark.parametrize("name", ON_FEATURES)
def test_a_row_out_of_all_proportion_is_refused_before_anything_changed(name):
    stream = Stream()
    model = make_on_features(name)().partial_fit(stream.X, stream.y)
    before = copy.deepcopy(model)
    X = stream.X[:3].copy()
    X[1] *= 1e10
    with pytest.raises(ValueError, match=r"as large as .*e\+10, but this model began with features of about 1"):
        model.partial_fit(X, stream.y[:3])
    assert same_model(model, before)
    check(model, X)


def test_a_wide_model_of_large_features_answers():
    rng = np.random.default_rng(0)
    X, y = 1e8 * rng.normal(size=(300, 1280)), rng.integers(0, 3, 300)
    check(vs.GaussianVoting(device="cpu").partial_fit(X, y), X[:20])


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        *(
            (name, offset)
            for name in ("candidates_voting", "er_features")
            for offset in (1e6, np.linspace(-1e4, 1e4, 12))
        ),
        ("ranpac", 1e6),
        ("klda", 1e6),
        ("foal", 100),
        ("ranpac", 1000),
    ],
)
def test_a_head_that_offsets_leave_at_chance_says_so(name, offset):
    stream = Stream()
    with pytest.warns(UserWarning, match="subtract their mean first") as told:
        make_on_features(name)().partial_fit(stream.X + offset, stream.y)
    assert told[0].filename == __file__


@pytest.mark.parametrize("size", [1, 10, 1000])
@pytest.mark.parametrize("name", ON_FEATURES)
def test_an_offset_of_all_features_costs_no_accuracy_or_is_warned_of(name, size):
    stream = Stream(n=400, spread=1.0)
    shown, asked = slice(None, None, 2), slice(1, None, 2)
    scores, warned = [], []
    for offset in (100 if name == "fecam" else 0, 1e4):  # rows of unit length: where zero is matters to FeCAM
        X, y = (stream.X + offset)[shown], stream.y[shown]
        model = make_on_features(name)()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i in range(0, len(X), size):
                model.partial_fit(X[i : i + size], y[i : i + size])
        scores.append(model.score((stream.X + offset)[asked], stream.y[asked]))
        warned.append(any("subtract their mean first" in str(each.message) for each in caught))
    assert not warned[0]
    assert warned[1] or abs(scores[1] - scores[0]) <= 0.02
    assert not (warned[1] and name not in ("ranpac", "foal"))  # the others have no need to


@pytest.mark.parametrize("name", ON_FEATURES)
def test_probabilities_lead_where_prediction_does_even_if_rounding_makes_them_equal(name):
    rng = np.random.default_rng(3)
    X = 1e-5 * rng.normal(size=(40, 4)).astype(np.float32)
    model = make_on_features(name)().partial_fit(X, np.repeat(["b", "a", "d", "c"], 10))
    check(model, X)
    check(model, np.zeros((1, 4)))
