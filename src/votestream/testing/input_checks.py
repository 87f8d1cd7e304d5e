"""What every learner takes, and what it refuses with a sentence; one function a promise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import NotFittedError

from votestream.testing.promise import (
    Make,
    demand,
    demand_refusal,
    demand_same,
    file_of,
    learned,
    promise,
    samples_for,
    takes_images,
)

Spoil = Callable[[Any, Any], tuple[Any, Any]]  # makes bad input of four rows and their labels


def with_one(value: Any, k: int = 0) -> Spoil:
    """Puts a value into each row, beginning with the k-th column."""
    return lambda X, y: (np.where(np.eye(len(X), X.shape[1], k) > 0, value, X), y)


BAD_LABELS: dict[str, tuple[Spoil, str]] = {
    "lengths that differ": (lambda X, y: (X, y[1:]), "4 rows, 3 labels"),
    "no rows": (lambda X, y: (X[:0], y[:0]), "empty"),
    "float labels": (lambda X, y: (X, y + 0.5), "strings or integers, got 4.5"),
    "missing labels": (lambda X, y: (X, [None] * len(X)), "strings or integers, got None"),
    "two-dimensional labels": (lambda X, y: (X, np.eye(4, dtype=int)), "strings or integers"),
    "one label": (lambda X, y: (X, "cat"), "single value 'cat'"),
    "a number for labels": (lambda X, y: (X, 3), "sequence of 4 labels"),
}
BAD_QUERIES: dict[str, tuple[Spoil, str]] = {
    "NaN": (with_one(np.nan, 1), "NaN in row 0"),
    "infinity": (with_one(-np.inf), "infinity in row 0"),
    "another width": (lambda X, y: (X[:, 1:], y), r"11 features, but \w+ is expecting 12"),
    "no features": (lambda X, y: (X[:, :0], y), "empty"),
    "text": (lambda X, y: (X.astype(str), y), "must hold numbers, got dtype <U"),
    "one row": (lambda X, y: (X[0], y[:1]), r"pass x\[None\]"),
}
BAD_FEATURES: dict[str, tuple[Spoil, str]] = BAD_QUERIES | {
    "overflow": (lambda X, y: (X.astype(np.float64) * 1e300, y), "infinity"),
    "huge numbers": (lambda X, y: (X * np.float32(1e20), y), "rescale"),
    "objects": (lambda X, y: with_one("1.5")(X.astype(object), y), r"numbers, .*'1\.5'"),
    "missing numbers": (lambda X, y: with_one(None)(X.astype(object), y), "numbers, .*None"),
    "complex numbers": (lambda X, y: (X.astype(complex), y), "real numbers"),
    "rows of several lengths": (lambda X, y: ([[1.0], [1.0, 2.0]], y[:2]), "differ in length"),
    "three dimensions": (lambda X, y: (X[None], y[:1]), "2-D"),
}


@promise("bad input is named and leaves the model exactly as it was")
def check_that_bad_input_is_refused(make: Make) -> None:
    samples = samples_for(make)
    model = learned(make(), samples, 8)
    untouched, before = copy.deepcopy(model), file_of(model)
    for what, (spoil, words) in (BAD_LABELS if takes_images(make) else BAD_LABELS | BAD_FEATURES).items():
        demand_refusal(what, words, model.partial_fit, *spoil(samples.X[-4:], samples.y[-4:]))
        demand(file_of(model) == before, f"{what}: refused, but the file differs afterwards")
    learned(model, samples)
    demand_same(model, learned(untouched, samples), samples.X, "the model that refused it and the other")


@promise("bad queries are named", on_features=True)
def check_that_bad_queries_are_refused(make: Make) -> None:
    samples = samples_for(make)
    model = learned(make(), samples, 8)
    for what, (spoil, words) in (BAD_QUERIES | {"no rows": BAD_LABELS["no rows"]}).items():
        X = spoil(samples.X[:4], samples.y[:4])[0]
        demand_refusal(what, words, model.predict, X)
        demand_refusal(what, words, model.predict_proba, X)


@promise("bad first input leaves the model as if it had never been asked", on_features=True)
def check_that_bad_first_input_leaves_nothing(make: Make) -> None:
    samples, model = samples_for(make), make()
    demand_refusal("NaN", "NaN", model.partial_fit, samples.X * np.nan, samples.y)
    demand_refusal("predict", "call partial_fit first", model.predict, samples.X, kind=NotFittedError)
    model.partial_fit(samples.X[:, :5], samples.y)
    demand(model.n_features_in_ == 5, f"n_features_in_ is {model.n_features_in_} after learning rows of 5")


@promise("asking before learning raises NotFittedError")
def check_that_asking_before_learning_is_refused(make: Make) -> None:
    X, model = samples_for(make).X, make()
    for ask in (model.predict, model.predict_proba):
        demand_refusal(ask.__name__, "call partial_fit first", ask, X, kind=NotFittedError)
    demand_refusal("save", "", file_of, model, kind=NotFittedError)
    demand_refusal("classes_", "", lambda: model.classes_, kind=NotFittedError)


CONTAINERS: dict[str, Callable[..., Any]] = {
    "float64": lambda X: X.astype(np.float64),
    "Fortran order": np.asfortranarray,
    "a view that is not contiguous": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "a torch tensor": torch.from_numpy,
    "a torch tensor with a gradient": lambda X: torch.from_numpy(X).requires_grad_(),
    "lists": lambda X: X.tolist(),
}


@promise("the same numbers in another container are the same data", on_features=True)
def check_that_containers_do_not_matter(make: Make) -> None:
    samples = samples_for(make)
    plain = make().partial_fit(samples.X, samples.y)
    for what, convert in CONTAINERS.items():
        other = make().partial_fit(convert(samples.X), samples.y.tolist())
        demand_same(plain, other, samples.X, f"float32 rows and {what}")
        answers = other.predict(convert(samples.X))
        demand(np.array_equal(plain.predict(samples.X), answers), f"asked with {what}, it answers otherwise")


@promise("numbers of other kinds are taken", on_features=True)
def check_that_other_numbers_are_taken(make: Make) -> None:
    rng = np.random.default_rng(0)
    bits, y = rng.integers(0, 2, (40, 8)), rng.integers(0, 2, 40)
    for kind in (np.float16, np.int32, np.uint8, np.bool_):
        answers = make().partial_fit(bits.astype(kind), y).predict(bits.astype(kind))
        demand(len(answers) == 40, f"40 rows of {kind.__name__} have {len(answers)} answers")
