"""A data set as the streams see it: samples with labels to learn from, and perhaps some to be judged by."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from votestream.images.files import DataWarning
from votestream.streams.image_files import ImageFiles

if TYPE_CHECKING:
    from votestream.backbones import Backbone

Samples: TypeAlias = "np.ndarray | Rows | ImageFiles"


class DataError(ValueError):
    """Data that is missing, damaged or of no use; the message says what to do about it."""


@dataclass(frozen=True)
class DataSet:
    """Samples and labels, to learn from and to be judged by.

    Example:
        >>> data = DataSet("toy", np.zeros((4, 2)), np.array(["b", "a", "b", "b"]))
        >>> data.classes.tolist(), data.has_test
        (['a', 'b'], False)
    """

    name: str
    X: Samples = field(repr=False)
    y: np.ndarray = field(repr=False)
    X_test: Samples | None = field(default=None, repr=False)
    y_test: np.ndarray | None = field(default=None, repr=False)
    class_names: Mapping[Any, str] = field(default_factory=dict, repr=False)  # where labels are numbers

    def __post_init__(self) -> None:
        for X, y, part in ((self.X, self.y, "training"), (self.X_test, self.y_test, "test")):
            if X is not None and (y is None or len(X) != len(y)):
                labels = "no" if y is None else len(y)
                raise DataError(f"The {part} part of {self.name} has {len(X)} samples, but {labels} labels.")

    @property
    def classes(self) -> np.ndarray:
        """Labels that occur in training, sorted."""
        return np.unique(self.y)

    @property
    def has_test(self) -> bool:
        return self.X_test is not None

    def set_aside(self, share: float, seed: int = 0) -> DataSet:
        """Test on a share of every class's training samples, drawn by the seed, which are then not learned.

        A test part that was there before is not used: this is how settings are chosen without looking at it.

        Example:
            >>> DataSet("toy", np.arange(8)[:, None], np.repeat([0, 1], 4)).set_aside(0.25).y_test
            array([0, 1])
        """
        if not 0 < share < 1:
            raise ValueError(f"test_share must lie between 0 and 1, not {share}.")
        rng = np.random.default_rng([seed, 0x7E57])
        chosen, single = [], []
        for label in self.classes:
            rows = rng.permutation(np.flatnonzero(self.y == label))
            if len(rows) == 1:
                single.append(str(self.class_names.get(label, label)))
            else:
                chosen.append(rows[: min(max(round(share * len(rows)), 1), len(rows) - 1)])
        if single:
            warn(f"{self.name}: {_named(single)} one sample only, which is learned and not tested.")
        if not chosen:
            raise DataError(f"{self.name} has one sample a class: none can be set aside for testing.")
        test = np.sort(np.concatenate(chosen))
        rest = np.setdiff1d(np.arange(len(self.y)), test)
        return replace(self, X=part(self.X, rest), y=self.y[rest], X_test=part(self.X, test), y_test=self.y[test])

    def seen_through(self, backbone: Backbone) -> DataSet:
        """The same samples as a backbone's features, row for row; kept in the feature cache."""
        X_test = None if self.X_test is None else features(backbone, self.X_test)
        return replace(self, X=features(backbone, self.X), X_test=X_test)


class Rows:
    """Some rows of an array, where they are: copied only when asked for, so that splitting costs no memory.

    Example:
        >>> Rows(np.arange(10) * 11, np.array([7, 3]))[[1, 1, 0]]
        array([33, 33, 77])
    """

    def __init__(self, X: np.ndarray, rows: np.ndarray) -> None:
        self.X, self.rows = X, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self.X[self.rows[rows]]


def part(X: Samples, rows: np.ndarray) -> Samples:
    """Some of the samples, without copying or reading them."""
    if isinstance(X, ImageFiles):
        return X.select(rows)
    return Rows(X.X, X.rows[rows]) if isinstance(X, Rows) else Rows(X, rows)


def take(X: Samples, rows: np.ndarray) -> np.ndarray | ImageFiles:
    """Some of the samples as a new array; files stay files."""
    return X.select(rows) if isinstance(X, ImageFiles) else X[rows]


def features(backbone: Backbone, X: Samples) -> np.ndarray:
    """What a backbone makes of samples. It sees files as they are, whatever `size` they are served in."""
    from votestream.backbones import cached_features

    # A plain array over the same memory: indexing a memmap costs several times as much.
    return np.asarray(cached_features(backbone, list(X.paths) if isinstance(X, ImageFiles) else X[:]))


def warn(text: str) -> None:
    """Tell of something left out, at the line that asked for the data as far as Python can tell."""
    warnings.warn(text, DataWarning, stacklevel=4)


def _named(names: list[str], most: int = 5) -> str:
    listed = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"{'classes' if len(names) > 1 else 'class'} {listed} {'have' if len(names) > 1 else 'has'}"
