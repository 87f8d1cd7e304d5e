"""polars frames and series where pandas' are taken."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import votestream as vs
from votestream.testing.samples import Samples

pl = pytest.importorskip("polars")
NAMES = np.array(["zebra", "yak", "cat", "dog", "ant", "bee"])
LEARNERS = ["ncm", "slda", "rls", "fecam", "gaussian_voting", "candidates_voting", "er_features", "knn"]


@pytest.fixture
def stream():
    return Samples()


def frame(X):
    return pl.DataFrame({f"f{i}": column for i, column in enumerate(X.T)})


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_a_polars_frame_is_learned_as_its_numbers_are(name, kind, stream):
    labels = pl.Series(NAMES[stream.y]).cast(kind)
    model = vs.create(name, device="cpu").fit(frame(stream.X), labels)
    plain = vs.create(name, device="cpu").fit(stream.X, NAMES[stream.y])
    assert np.array_equal(model.predict(frame(stream.X)), plain.predict(stream.X))
    assert list(model.feature_names_in_) == frame(stream.X).columns


def test_other_columns_are_refused(stream):
    model = vs.NearestClassMean().fit(frame(stream.X), stream.y)
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(frame(stream.X)[:, ::-1])


def test_a_missing_value_is_refused(stream):
    holes = frame(stream.X).with_columns(f0=pl.lit(None, dtype=pl.Float64))
    with pytest.raises(ValueError, match="NaN"):
        vs.NearestClassMean().fit(holes, stream.y)


def test_weights_come_as_a_series(stream):
    model = vs.NearestClassMean().fit(frame(stream.X), stream.y, sample_weight=pl.Series(stream.y != 2))
    assert model.classes_.tolist() == [0, 1, 3, 4, 5]


def test_pipelines_and_cross_validation_take_polars_frames(stream):
    pipeline = make_pipeline(StandardScaler().set_output(transform="polars"), vs.StreamingLDA(device="cpu"))
    assert cross_val_score(pipeline, frame(stream.X), pl.Series(NAMES[stream.y]), cv=3).mean() > 0.8
