"""Odd features and labels are taken, or refused with a ValueError or TypeError that says what is wrong."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

import votestream as vs
from votestream.bench.finding import added_methods
from votestream.bench.suites import SUITES

COMPLEX = torch.zeros(2, 3, dtype=torch.complex64)
TAKEN = {
    "a tensor that requires a gradient": torch.zeros(2, 3, requires_grad=True),
    "a lazily negated view": COMPLEX.conj().imag,
    "bfloat16": torch.zeros(2, 3).bfloat16(),
    "float8": torch.zeros(2, 3).to(torch.float8_e4m3fn),
    "booleans": torch.ones(2, 3, dtype=torch.bool),
}
REFUSED = {
    "an integer beyond float64": [[10**400] * 3],
    "the same below zero": [[-(10**400)] * 3],
    "beside a float": [[10**400, 1.0, 2]],
    "as an array of objects": np.array([[10**400] * 3], object),
    "a decimal number": [[Decimal("1e999")] * 3],
    "a fraction": [[Fraction(10**400)] * 3],
    "a lazily conjugated view": COMPLEX.conj(),
    "tensors in a list that require a gradient": list(torch.zeros(2, 3, requires_grad=True)),
    "tensors in a list that have no data": [torch.zeros(3, device="meta")],
    "a tensor without data": torch.zeros(2, 3, device="meta"),
    "a sparse tensor": torch.zeros(2, 3).to_sparse(),
    "dates": np.zeros((2, 3), "M8[s]"),
    "bytes of no kind": np.zeros((2, 3), "V4"),
    "a generator": (x for x in [1, 2]),
    "a set": {1, 2, 3},
    "a function": len,
    "a long double beyond float64": np.full((2, 3), np.longdouble("1e4000")),
}


@pytest.fixture
def model():
    return vs.NearestClassMean().partial_fit([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]], ["low", "high"])


@pytest.mark.parametrize("X", TAKEN.values(), ids=TAKEN)
def test_what_holds_numbers_is_taken(model, X):
    assert model.predict(X).tolist() == ["low", "low"]
    assert model.partial_fit(X, ["low", "low"]).class_counts_.tolist() == [1, 3]


@pytest.mark.parametrize("X", REFUSED.values(), ids=REFUSED)
def test_what_holds_no_numbers_is_refused_with_a_short_sentence(model, X):
    for ask in (model.predict, lambda X: model.partial_fit(X, ["low", "low"])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((ValueError, TypeError), match=r"\bX\b|Complex data") as refusal:
                ask(X)
        assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "y", [torch.zeros(2, device="meta"), torch.zeros(2).to_sparse(), [torch.zeros((), device="meta")] * 2]
)
def test_labels_without_values_are_refused(model, y):
    with pytest.raises((ValueError, TypeError), match=r"y must be|a label must be"):
        model.partial_fit(np.zeros((2, 3)), y)


def test_a_long_label_is_quoted_in_part(model):
    with pytest.raises(ValueError, match="Unknown label type") as refusal:
        model.partial_fit(np.zeros((1, 3)), [b"x" * 100_000])
    assert len(str(refusal.value)) < 200


LONG = "x" * 100_000
QUOTING = {
    "a label with NUL": lambda model, X: model.partial_fit(X, [LONG + "\0"]),
    "a label of bytes": lambda model, X: model.partial_fit(X, [LONG.encode()]),
    "a single label": lambda model, X: model.partial_fit(X, np.array(LONG)),
    "classes to come": lambda model, X: model.partial_fit(X, ["low"], classes=[LONG]),
    "many classes to come": lambda model, X: model.partial_fit(X, ["low"], classes=[str(n) for n in range(20_000)]),
    "a label that is none of these": lambda model, X: model.partial_fit(X, [LONG], classes=["low"]),
    "a task": lambda model, X: model.partial_fit(X, ["low"], task=(LONG,)),
    "a task of many digits": lambda model, X: model.partial_fit(X, ["low"], task=10**90_000),
    "a label of many digits": lambda model, X: model.partial_fit(X, [10**90_000]),
    "a class to forget": lambda model, X: model.forget(LONG),
    "a class of many digits to forget": lambda model, X: model.forget(10**90_000),
    "a class to rename": lambda model, X: model.rename(LONG, "low"),
    "a seed": lambda model, X: vs.NearestClassMean(seed=10**90_000).fit(X, ["low"]),
    "a device": lambda model, X: vs.NearestClassMean(device=LONG).fit(X, ["low"]),
    "a device without numbers": lambda model, X: vs.NearestClassMean(device="meta").fit(X, ["low"]),
    "a mini-batch": lambda model, X: vs.NearestClassMean(batch_size=LONG).fit(X, ["low"]),
    "a mini-batch of many digits": lambda model, X: vs.NearestClassMean(batch_size=10**90_000).fit(X, ["low"]),
    "a learner": lambda model, X: vs.create(LONG),
    "a backbone": lambda model, X: vs.create_backbone(LONG),
    "a stream": lambda model, X: vs.stream(LONG),
    "a path of an image": lambda model, X: vs.ImageClassifier("reduced_resnet18").partial_fit([LONG], ["low"]),
    "a method": lambda model, X: SUITES["smoke"].only_methods([LONG]),
    "a setting": lambda model, X: added_methods("ncm", {LONG: 1}, ()),
    "columns": lambda model, X: (
        vs.NearestClassMean()
        .fit(pd.DataFrame(X, columns=[LONG, "b", "c"]), ["low"])
        .predict(pd.DataFrame(X, columns=["a", "b", "c"]))
    ),
}

REFUSALS = r"label|task|class|y must|seed|device|batch|feature names|There is no|No method|no setting|xxx cannot"


@pytest.mark.parametrize("ask", QUOTING.values(), ids=QUOTING)
def test_what_is_wrong_is_quoted_in_part(model, ask):
    with pytest.raises(
        ValueError,
        match=r"label|task|class|y must|seed|device|batch|feature names|There is no|No method|no setting|xxx cannot",
    ) as refusal:
        ask(model, np.zeros((1, 3)))
    assert len(str(refusal.value)) < 500
    assert "int_max_str_digits" not in str(refusal.value)
    assert model.classes_.tolist() == ["high", "low"]


@pytest.mark.parametrize("learner", [LONG, 3, vs.NearestClassMean])
def test_what_is_no_learner_behind_a_backbone_is_named(learner):
    with pytest.raises(TypeError, match="learner must be one on features") as refusal:
        vs.ImageClassifier("reduced_resnet18", learner).partial_fit(np.zeros((1, 8, 8, 3), np.uint8), ["a"])
    assert len(str(refusal.value)) < 200
