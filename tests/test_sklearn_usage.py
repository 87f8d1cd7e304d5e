"""What people do with scikit-learn's estimators, done with learners on features."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import votestream as vs
from conftest import ON_FEATURES, make_on_features

NAMES = np.array(["zebra", "yak", "cat", "dog", "ant", "bee"])  # not in alphabetical order of appearance


@pytest.mark.parametrize("name", ON_FEATURES)
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
def test_a_pipeline_with_a_scaler_and_pca_is_the_learner_on_what_they_give(name, scaler, stream):
    pipeline = make_pipeline(scaler(), PCA(8), make_on_features(name)()).fit(stream.X, NAMES[stream.y])
    seen = pipeline[:-1].transform(stream.X)
    plain = make_on_features(name)().fit(seen, NAMES[stream.y])
    assert np.array_equal(pipeline.predict(stream.X), plain.predict(seen))
    assert pipeline.score(stream.X, NAMES[stream.y]) > 0.85


@pytest.mark.parametrize("name", ON_FEATURES)
def test_cross_validation_in_threads_gives_the_scores_of_one(name, stream):
    model = make_on_features(name)()
    one = cross_val_score(model, stream.X, NAMES[stream.y], cv=3)
    assert one.mean() > 0.6
    with joblib.parallel_config("threading", n_jobs=3):
        assert np.array_equal(cross_val_score(model, stream.X, NAMES[stream.y], cv=3), one)


def test_grid_search_finds_settings_also_within_a_pipeline(stream):
    pipeline = make_pipeline(StandardScaler(), PCA(), vs.StreamingLDA(device="cpu"))
    grid = {"pca__n_components": [1, 8], "streaminglda__shrinkage": [1e-4, 0.5]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(stream.X, stream.y)
    assert search.best_params_["pca__n_components"] == 8
    assert search.best_estimator_[-1].shrinkage == search.best_params_["streaminglda__shrinkage"]
    assert search.best_score_ > 0.85


@pytest.mark.parametrize("name", ON_FEATURES)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration_keeps_classes_and_accuracy(name, method, stream):
    model = CalibratedClassifierCV(make_on_features(name)(), method=method, cv=2).fit(stream.X, NAMES[stream.y])
    assert model.classes_.tolist() == sorted(NAMES)
    assert np.allclose(model.predict_proba(stream.X).sum(1), 1)
    assert model.score(stream.X, NAMES[stream.y]) > 0.8


def test_stacking_takes_learners_of_ours_beside_others(stream):
    estimators = [("ours", vs.GaussianVoting(device="cpu")), ("theirs", LogisticRegression())]
    model = StackingClassifier(estimators, final_estimator=vs.StreamingLDA(device="cpu"), cv=3)
    model.fit(stream.X, NAMES[stream.y])
    assert model.score(stream.X, NAMES[stream.y]) > 0.85


def test_meta_estimators_pass_weights_on(stream):
    weights = (stream.y != 2).astype(int)
    model = CalibratedClassifierCV(vs.NearestClassMean(device="cpu"), cv=2, ensemble=False)
    model.fit(stream.X, stream.y, sample_weight=weights + 1)
    inner = model.calibrated_classifiers_[0].estimator
    assert inner.class_counts_.tolist() == [(1 + (label != 2)) * 30 for label in range(6)]


@pytest.mark.parametrize("name", ON_FEATURES)
def test_a_model_in_a_read_only_memory_map_predicts_and_a_copy_of_it_learns(name, stream, tmp_path):
    model = make_on_features(name)().fit(stream.X[:120], NAMES[stream.y[:120]])
    joblib.dump(model, tmp_path / "m.joblib")
    mapped = joblib.load(tmp_path / "m.joblib", mmap_mode="r")
    assert np.array_equal(mapped.predict_proba(stream.X), model.predict_proba(stream.X))
    copied = joblib.load(tmp_path / "m.joblib").partial_fit(stream.X[120:], NAMES[stream.y[120:]])
    model.partial_fit(stream.X[120:], NAMES[stream.y[120:]])
    assert np.array_equal(copied.predict_proba(stream.X), model.predict_proba(stream.X))


@pytest.mark.parametrize("name", ON_FEATURES)
def test_data_frames_and_series_are_taken_everywhere(name, stream):
    frame = pd.DataFrame(stream.X, columns=[f"f{i}" for i in range(stream.X.shape[1])])
    for labels in (pd.Series(NAMES[stream.y]), pd.Series(NAMES[stream.y], dtype="category")):
        model = make_on_features(name)().fit(frame, labels)
        assert model.score(frame, labels) > 0.85
        assert list(model.feature_names_in_) == list(frame.columns)
    assert cross_val_score(make_on_features(name)(), frame, labels, cv=2).mean() > 0.6


@pytest.mark.parametrize("kind", ["Float64", "Int64", "boolean"])
def test_columns_of_pandas_own_types_are_taken(kind, stream):
    frame = pd.DataFrame((stream.X > 0).astype(int)).astype(kind)
    assert vs.NearestClassMean().fit(frame, stream.y).predict(frame).shape == stream.y.shape
    frame.iloc[3, 0] = pd.NA
    with pytest.raises((ValueError, TypeError), match=r"NaN|must hold numbers|must be no string"):
        vs.NearestClassMean().fit(frame, stream.y)
