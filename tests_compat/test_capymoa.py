"""VoteStream's learners as CapyMOA classifiers."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import votestream as vs

if shutil.which("java") is None:
    pytest.skip("CapyMOA needs Java", allow_module_level=True)
pytest.importorskip("capymoa")
from capymoa.evaluation import prequential_evaluation
from capymoa.stream import NumpyStream

from votestream.compat.capymoa import CapyMOAClassifier
from votestream.testing.samples import Samples

LEARNERS = ["ncm", "slda", "rls", "fecam", "gaussian_voting", "ranpac", "candidates_voting", "er_features", "knn"]


@pytest.fixture
def samples():
    return Samples()


@pytest.mark.parametrize("name", LEARNERS)
def test_prequential_evaluation_counts_what_test_then_train_gets_right(name, samples):
    stream = NumpyStream(samples.X, samples.y)
    settings = {"projection": 60} if name == "ranpac" else {}
    plain, right = vs.create(name, device="cpu", **settings), 0
    for x, y in zip(samples.X, samples.y, strict=True):
        right += plain.fitted and plain.predict(x[None])[0] == y
        plain.partial_fit(x[None], [y])
    model = CapyMOAClassifier(vs.create(name, device="cpu", **settings), stream.get_schema())
    found = prequential_evaluation(stream, model)
    assert found.cumulative.accuracy() == pytest.approx(
        100 * right / len(samples.y), abs=0.6
    )  # the first has no answer
    assert np.array_equal(model.model.class_counts_, plain.class_counts_) if hasattr(plain, "class_counts_") else True


def test_probabilities_stand_at_the_numbers_of_the_schema(samples):
    stream = NumpyStream(samples.X, samples.y)
    model = CapyMOAClassifier(vs.NearestClassMean(), stream.get_schema())
    first, *others = [stream.next_instance() for _ in range(40)]
    assert model.predict(first) is None
    assert model.predict_proba(first) is None
    for instance in others:
        model.train(instance)
    shares = model.predict_proba(first)
    assert shares.shape == (6,)
    assert shares[model.model.classes_].sum() == pytest.approx(1)
    assert int(shares.argmax()) == model.predict(first)
    assert len(model.model.classes_) < 6


def test_what_is_no_learner_of_ours_is_refused(samples):
    with pytest.raises(TypeError, match=r"learner must be one of VoteStream's, as vs.GaussianVoting\(\), got 'slda'"):
        CapyMOAClassifier("slda", None)
