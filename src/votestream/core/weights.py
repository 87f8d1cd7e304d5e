"""Weights of samples: a row of weight 2 is learned twice in a row, one of weight 0 is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_BYTES = 2**31  # of the rows of one call, once they are repeated


def refuse_weights(learner: Any, options: Mapping[str, Any]) -> None:
    """Complain about arguments that a learner does not take."""
    for name in options:
        if name != "sample_weight":
            raise TypeError(f"{type(learner).__name__} got an unexpected keyword argument {name!r}")
        if options[name] is not None:
            raise TypeError(
                f"{type(learner).__name__} does not take sample_weight: only learners that keep statistics do, such as "
                "GaussianVoting and StreamingLDA; repeat rows or leave them out"
            )


def repeated(
    rows: NDArray[Any], labels: list[str | int], sample_weight: ArrayLike
) -> tuple[NDArray[Any], list[str | int]]:
    """Each row and label as often as its weight says.

    >>> repeated(np.array([[1.0], [2.0], [3.0]]), ["a", "b", "c"], [2, 0, 1])[1]
    ['a', 'a', 'c']
    >>> repeated(np.array([[1.0]]), ["a"], [0.5])
    Traceback (most recent call last):
    ...
    ValueError: sample_weight must hold whole numbers, got 0.5 in row 0; multiply the weights and round them
    """
    weights = _as_weights(sample_weight, len(rows))
    total = int(weights.sum())
    if not total:
        raise ValueError("sample_weight is zero for every row: there is nothing to learn")
    if total > len(rows) and total * rows[0].nbytes > MOST_BYTES:
        raise ValueError(
            f"sample_weight adds up to {total} rows, which take {total * rows[0].nbytes / 2**30:.3g} GiB at once; "
            "divide the weights, or pass fewer rows a call"
        )
    chosen = np.arange(len(rows)).repeat(weights)
    return rows[chosen], [labels[i] for i in chosen.tolist()]


def _as_weights(sample_weight: ArrayLike, n: int) -> NDArray[np.int64]:
    weights = np.asarray(sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must be 1D, a weight for each of the {n} rows, got shape {weights.shape}")
    if weights.dtype.kind not in "fiub":
        raise ValueError(f"sample_weight must hold numbers, got dtype {weights.dtype}")
    for bad, wanted in (
        (~np.isfinite(weights), "finite numbers"),
        (weights < 0, "no negative numbers"),
        (weights > 2**53, "numbers up to 2**53"),
        (weights % 1 != 0, "whole numbers"),
    ):
        if bad.any():
            row = int(bad.argmax())
            hint = "; multiply the weights and round them" if wanted == "whole numbers" else ""
            raise ValueError(f"sample_weight must hold {wanted}, got {weights[row]} in row {row}{hint}")
    return weights.astype(np.int64)
