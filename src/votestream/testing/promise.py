"""What the checks are made of: a promise, and ways to see whether it is kept."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from votestream.learners import Learner, load
from votestream.testing.samples import ImageSamples, Samples

Make = Callable[..., Learner]  # a learner's class, or a function that takes its constructor's arguments
Check = Callable[[Make], None]
CHECKS: dict[str, tuple[Check, bool]] = {}  # with whether it is for learners on features only


def takes_images(learner: Make) -> bool:
    return learner().input == "images"


def promise(sentence: str, on_features: bool = False) -> Callable[[Check], Check]:
    """Enters a check; whatever goes wrong in it is told as this promise broken."""

    def enter(check: Check) -> Check:
        @functools.wraps(check)
        def told(learner: Make) -> None:
            try:
                check(learner)
            except AssertionError as broken:
                raise AssertionError(f"{sentence}: {broken}") from None
            except Exception as error:
                raise AssertionError(f"{sentence}: {type(error).__name__}: {error}") from error

        CHECKS[check.__name__] = told, on_features
        return told

    return enter


def demand(kept: Any, otherwise: str) -> None:
    if not kept:
        raise AssertionError(otherwise)


def samples_for(make: Make) -> Samples:
    return ImageSamples() if takes_images(make) else Samples()


def learned(model: Learner, samples: Samples, batches: int | None = None) -> Learner:
    for X, y in list(samples.batches())[:batches]:
        model.partial_fit(X, y)
    return model


def file_of(model: Learner) -> bytes:
    """What `save` writes: equal models are equal files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        model.save(path)
        return path.read_bytes()


def reloaded(model: Learner) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        model.save(path)
        return load(path)


def demand_same(one: Learner, other: Learner, X: Any, which: str) -> None:
    demand(list(one.classes_seen_) == list(other.classes_seen_), f"the classes of {which} differ")
    demand(np.array_equal(one.predict_proba(X), other.predict_proba(X)), f"the probabilities of {which} differ")
    demand(file_of(one) == file_of(other), f"the files of {which} differ")


def demand_refusal(
    what: str, words: str, ask: Callable[..., Any], *args: Any, kind: type[Exception] = ValueError, **named: Any
) -> None:
    """That asking so raises this kind of error, and that its message has the words."""
    try:
        ask(*args, **named)
    except kind as error:
        demand(re.search(words, str(error)), f"{what}: refused, but not in these words, {words!r}: {error}")
    else:
        raise AssertionError(f"{what}: accepted")
