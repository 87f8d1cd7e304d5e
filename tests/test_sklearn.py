"""At home in scikit-learn: its checks pass, its scores are right, its data frames are held to their columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import votestream as vs
from conftest import ON_FEATURES, make_on_features, same_model
from votestream.learners.statistics.random_features import RandomFeaturesLearner


def known_failures(estimator):
    """Two checks compare to seven digits, about what float32 has. Ours: test_sample_weight.py, and below."""
    if isinstance(estimator, (vs.FeCAM, vs.GaussianVoting)):
        reason = "statistics in float32 depend on the order of rows in the sixth digit"
        return {"check_sample_weight_equivalence_on_dense_data": reason}
    if isinstance(estimator, RandomFeaturesLearner):
        reason = "products of many random features in float32 depend on how many rows there are in the sixth digit"
        return {"check_methods_subset_invariance": reason}
    return {}


# The defaults, but for one that would solve systems of 2,000 for a minute.
DEFAULTS = [vs.create(name, **({"projection": 300} if name == "ranpac" else {})) for name in ON_FEATURES]


@pytest.mark.filterwarnings("ignore")  # the checks warn of many things on purpose
@parametrize_with_checks(DEFAULTS, expected_failed_checks=known_failures)
def test_scikit_learns_checks_pass_with_default_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ON_FEATURES)
def test_a_row_is_predicted_alone_as_among_others_up_to_rounding(name, stream):
    model, X = vs.create(name).partial_fit(stream.X, stream.y), stream.between()
    alone = np.concatenate([model.predict_proba(row[None]) for row in X])
    assert np.allclose(alone, model.predict_proba(X), rtol=0, atol=1e-4)
    sure = np.sort(alone, axis=1)[:, -1] - np.sort(alone, axis=1)[:, -2] > 2e-4
    assert np.array_equal(model.classes_[alone.argmax(1)][sure], model.predict(X)[sure])


@pytest.mark.parametrize("name", ON_FEATURES)
def test_scores_by_probability_read_the_right_columns(name, stream):
    """Labels whose alphabetical order is not that of their appearance."""
    names = np.array(["zebra", "yak", "cat", "dog", "ant", "bee"])
    model = make_on_features(name)().partial_fit(stream.X, names[stream.y])
    own = model.predict_proba(stream.X)[np.arange(len(stream.X)), np.searchsorted(model.classes_, names[stream.y])]
    log_loss = -np.log(np.clip(own, np.finfo(float).eps, 1)).mean()
    assert get_scorer("neg_log_loss")(model, stream.X, names[stream.y]) == pytest.approx(-log_loss, rel=1e-6)
    assert get_scorer("roc_auc_ovr")(model, stream.X, names[stream.y]) > 0.9


def test_a_learner_works_in_pipelines_and_cross_validation(stream):
    pipeline = make_pipeline(StandardScaler(), vs.GaussianVoting(device="cpu"))
    assert cross_val_score(pipeline, stream.X, stream.y, cv=3).mean() > 0.8


def frame(X):
    return pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])


@pytest.mark.parametrize("name", ON_FEATURES)
def test_a_data_frame_with_its_columns_in_another_order_is_refused(name, stream, tmp_path):
    model = make_on_features(name)().partial_fit(frame(stream.X), stream.y)
    assert list(model.feature_names_in_) == list(frame(stream.X).columns)
    turned = frame(stream.X)[[f"f{i}" for i in range(11, -1, -1)]]
    model.save(tmp_path / "m.safetensors")
    for one in (model, vs.load(tmp_path / "m.safetensors")):
        for refuse in (lambda m: m.predict(turned), lambda m: m.partial_fit(turned, stream.y)):
            with pytest.raises(ValueError, match="must be in the same order"):
                refuse(one)
        assert np.array_equal(one.predict(frame(stream.X)), model.predict(frame(stream.X)))


@pytest.mark.parametrize("name", ON_FEATURES)
def test_fit_forgets_and_a_fit_that_is_refused_forgets_nothing(name, stream):
    half = stream.y < 3
    model = make_on_features(name)().partial_fit(frame(stream.X[half]), stream.y[half])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(stream.X * np.nan, stream.y)
    assert list(model.classes_) == [0, 1, 2]
    model.fit(stream.X[~half, :5], stream.y[~half])
    assert same_model(model, make_on_features(name)().partial_fit(stream.X[~half, :5], stream.y[~half]))
    assert list(model.classes_) == [3, 4, 5]
    assert not hasattr(model, "feature_names_in_")


def test_classes_given_ahead_are_taken_and_hold(make, stream):
    model = make().partial_fit(stream.X[:5], stream.y[:5], classes=np.arange(6))
    assert set(model.classes_) == set(stream.y[:5])
    with pytest.raises(ValueError, match=r"y holds 0, which is not among classes=\[1, 2\]"):
        make().partial_fit(stream.X[:2], [0, 1], classes=[1, 2])
