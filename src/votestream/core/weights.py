"""Weights of samples: a row of weight 2 is learned twice in a row, one of weight 0 is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from votestream.common.validation import from_tensor

# Of one call, once rows are repeated: narrow rows take less memory than time, some seconds for so many.
MOST_ROWS = 10**7
MOST_BYTES = 2**31


def refuse_weights(learner: object, options: Mapping[str, Any]) -> None:
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
    total = sum(weights.tolist())
    if not total:
        raise ValueError("sample_weight is zero for every row: there is nothing to learn")
    most = max(min(MOST_ROWS, MOST_BYTES // rows[0].nbytes), len(rows))
    if total > most:
        raise ValueError(
            f"sample_weight adds up to {total} rows, but one call may learn {most} of this width; "
            "divide the weights, or pass fewer rows a call"
        )
    chosen = np.arange(len(rows)).repeat(weights)
    return rows[chosen], [labels[i] for i in chosen.tolist()]


def _as_weights(sample_weight: ArrayLike, n: int) -> NDArray[np.int64]:
    if isinstance(sample_weight, torch.Tensor):
        sample_weight = from_tensor("sample_weight", sample_weight)
    try:
        weights = np.asarray(sample_weight)
    except Exception as problem:  # what it holds decides: rows that differ in length, objects of any library
        raise ValueError(f"sample_weight must be 1D; NumPy makes no array of it: {problem}") from None
    if isinstance(sample_weight, np.ma.MaskedArray) and sample_weight.mask.any():
        raise ValueError("sample_weight is a masked array with masked weights; leave those rows out")
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must be 1D, a weight for each of the {n} rows, got shape {weights.shape}")
    if weights.dtype.kind not in "fiub":
        raise ValueError(f"sample_weight must hold numbers, got dtype {weights.dtype}")
    with np.errstate(all="ignore"):  # infinities have no remainder
        checks = (
            (~np.isfinite(weights), "finite numbers"),
            (weights < 0, "no negative numbers"),
            (weights > 2**53, "numbers up to 2**53"),
            (weights % 1 != 0, "whole numbers"),
        )
    for bad, wanted in checks:
        if bad.any():
            row = int(bad.argmax())
            hint = "; multiply the weights and round them" if wanted == "whole numbers" else ""
            raise ValueError(f"sample_weight must hold {wanted}, got {weights[row]} in row {row}{hint}")
    return weights.astype(np.int64)
