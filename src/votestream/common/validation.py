"""What may come in: every complaint names the argument, what came and what was expected."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.common.parameters import shown

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
LARGEST = 1e12  # beyond it float32 products may overflow
FEW = 8  # elements that may be alike by chance
OUTLYING = 1e9  # rows to learn that would drown all others, in units in which features began near 1
LONGEST = 1024  # bits of a label that is an integer: longer ones could not be written down in a file


def as_features(
    X: Any, width: int | None = None, model: str = "the model", largest: float = LARGEST
) -> NDArray[np.float32]:
    """X as float32 rows, (n, D) with D = `width` if given; finite, none larger than `largest`, at least one row.

    >>> as_features([[1, 2]]).dtype
    dtype('float32')
    >>> as_features([[1.0, float("nan")]])
    Traceback (most recent call last):
    ...
    ValueError: X holds NaN in row 0; every feature must be finite
    """
    if isinstance(X, torch.Tensor):
        X = from_tensor("X", X)
    elif not isinstance(X, np.ndarray):
        if hasattr(X, "toarray"):
            raise TypeError(f"X is a sparse {type(X).__name__}; pass X.toarray()")
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError("X must be a 2-D array (n, D); its rows differ in length") from None
        except Exception as problem:  # what it holds decides: tensors that need a gradient, objects of any library
            raise TypeError(f"X must be a 2-D array (n, D); NumPy makes no array of it: {problem}") from None
    elif isinstance(X, np.ma.MaskedArray):
        if X.mask.any():
            raise ValueError("X is a masked array with masked values; fill them in, or leave those rows out")
        X = X.data
    if X.dtype == object:
        X = _as_numbers(X)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold numbers, got dtype {X.dtype}")
    if X.ndim != 2:
        hint = ". Reshape your data: for one sample pass x[None]" if X.ndim == 1 else ""
        raise ValueError(f"Expected 2D array: X must be 2-D (n, D), got shape {X.shape}{hint}")
    if not len(X):
        raise ValueError(f"X is empty: 0 sample(s) (shape={X.shape}) while a minimum of 1 is required")
    if not X.shape[1]:
        raise ValueError(f"X is empty: 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if width is not None and X.shape[1] != width:
        raise ValueError(f"X has {X.shape[1]} features, but {model} is expecting {width} features as input")
    if X.dtype != np.float32:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
    X = np.ascontiguousarray(X)
    flat = X.reshape(-1)
    if not (np.maximum.reduce(flat) <= largest and np.minimum.reduce(flat) >= -largest):
        _complain_about_values(X)
        check_reach(X, 1.0, largest)
    return X


def from_tensor(name: str, tensor: torch.Tensor) -> NDArray[Any]:
    """The tensor's values as an array."""
    try:
        tensor = tensor.detach().cpu()
        if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            tensor = tensor.float()  # bfloat16 and smaller ones, which NumPy lacks
        values: NDArray[Any] = tensor.resolve_conj().resolve_neg().numpy()
    except (RuntimeError, NotImplementedError, TypeError) as problem:
        kind = f"{tensor.dtype} tensor on {tensor.device}, {tensor.layout}"
        reason = str(problem).partition("\n")[0]
        raise TypeError(f"{name} must be a dense tensor that holds numbers, got a {kind} ({reason})") from None
    return values


def _as_numbers(X: NDArray[Any]) -> NDArray[np.float64]:
    """Rows of Python numbers, as a data frame of mixed columns gives them; text is not taken for numbers."""
    for item in X.ravel().tolist():
        if item is None or isinstance(item, (str, bytes)):
            raise ValueError(f"X must hold numbers, got dtype object with {shown(item)} in it")
        if not isinstance(item, (int, float, np.number, np.bool_)):
            raise TypeError(f"X must hold numbers: its argument must be no string but a number, got {shown(item)}")
    try:
        return X.astype(np.float64)
    except (OverflowError, TypeError, ValueError, RuntimeError) as problem:
        raise ValueError(f"X holds a number that float64 cannot hold ({problem})") from None


def scale_unit(X: NDArray[np.float32]) -> float:
    """A power of two that brings rows within 2^20 of 1; 1.0 for those that are there.

    From a coarse grid, so that rows more or fewer to tell it from hardly ever tell another.

    >>> scale_unit(np.array([[0.5, 200.0]], np.float32)), scale_unit(np.array([[-3e-30]], np.float32)) == 2.0**80
    (1.0, True)
    """
    largest = float(np.abs(X).max())
    return 2.0 ** (-40 * round(np.log2(largest) / 40)) if largest else 1.0


def in_units(X: NDArray[np.float32], unit: float) -> NDArray[np.float32]:
    """The rows times a power of two, none larger than LARGEST after it."""
    if unit == 1:
        return X
    rows = X * np.float32(unit)
    check_reach(rows, unit, LARGEST)
    return rows


def check_reach(X: NDArray[np.float32], unit: float, largest: float = OUTLYING) -> None:
    """Complain about rows, which were multiplied by `unit`, that are out of all proportion to a model's first ones."""
    reach = float(np.abs(X).max())
    if reach > largest:
        raise ValueError(
            f"X holds values as large as {reach / unit:.3g}, but this model began with features of about "
            f"{1 / unit:.1g}; rescale such rows, or leave them out"
        )


def warn_of_offsets(X: NDArray[np.float32], common: float, differing: float) -> None:
    """Warn where features vary little about their means: the means are larger than so many times the variation.

    common: bearable in what all features share; differing: in what they do not.
    """
    alone = int(len(X) == 1)  # a single row has only its elements to vary
    if alone and X.size < FEW:
        return
    means = X.mean(axis=alone, dtype=np.float64)
    variation = float(X.std(axis=alone, dtype=np.float64).mean())
    if variation and (abs(means.mean()) > common * variation or means.std() > differing * variation):
        warnings.warn(
            f"features vary by {variation:.2g} about means of {np.abs(means).mean():.2g}: this learner learns little "
            "from such features; subtract their mean first, or use GaussianVoting",
            stacklevel=_callers_level(),
        )


def _callers_level() -> int:
    """The `stacklevel` of a warning that points at the line outside of this package which led to it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def check_column_names(
    known: NDArray[Any] | None, X: Any, model: str, fitted: bool, stacklevel: int = 4
) -> NDArray[Any] | None:
    """The names of a data frame's columns; complains where they are not those that the model learned with."""
    names = _column_names(X)
    if names is None and known is None:
        return None
    if names is None or (known is None and fitted):
        told = "X does not have valid feature names, but {} was fitted with feature names"
        if names is not None:
            told = "X has feature names, but {} was fitted without feature names"
        warnings.warn(told.format(model), UserWarning, stacklevel=stacklevel)
    elif known is not None and not np.array_equal(known, names):
        raise ValueError(_names_differ(known.tolist(), names.tolist()))
    return names


def _column_names(X: Any) -> NDArray[Any] | None:
    columns = getattr(X, "columns", None)
    if columns is None or isinstance(X, (np.ndarray, torch.Tensor)):
        return None
    names = list(columns)
    texts = [isinstance(name, str) for name in names]
    if not any(texts):
        return None
    if not all(texts):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input has "
            f"{sorted({type(name).__name__ for name in names})} as feature name / column name types"
        )
    return np.array(names, object)


def _names_differ(known: list[str], names: list[str]) -> str:
    """In the words of scikit-learn, which people search for."""
    told = ["The feature names should match those that were passed during fit."]
    for title, some in (
        ("Feature names unseen at fit time:", sorted(set(names) - set(known))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(known) - set(names))),
    ):
        if some:
            told += [title, *(f"- {name:.60}" for name in some[:5]), *(["- ..."] if len(some) > 5 else [])]
    if len(told) == 1:
        told.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(told) + "\n"


def _complain_about_values(X: NDArray[np.float32]) -> None:
    for name, bad in (("NaN", np.isnan(X)), ("an infinity", np.isinf(X))):
        rows = np.flatnonzero(bad.any(axis=1))
        if len(rows):
            raise ValueError(f"X holds {name} in row {rows[0]}; every feature must be finite")
    if (largest := np.abs(X).max()) > LARGEST:
        raise ValueError(f"X holds values as large as {largest:.3g}; rescale the features to {LARGEST:g} at most")


def as_labels(y: Any, n: int) -> list[str | int]:
    """y as a list of n plain strings, integers or booleans; 3.0 counts as 3.

    >>> import numpy as np
    >>> as_labels(np.array(["cat", "dog"]), 2), as_labels([1.0], 1)
    (['cat', 'dog'], [1])
    >>> as_labels([0.5], 1)
    Traceback (most recent call last):
    ...
    ValueError: Unknown label type: labels must be strings or integers, got 0.5 (float) in row 0
    """
    labels = _as_list(y, n)
    if len(labels) != n:
        raise ValueError(f"X and y differ in length: {n} rows, {len(labels)} labels")
    kinds = set(map(type, labels))
    if not kinds <= {str, int, bool}:
        labels = [_as_label(label, row) for row, label in enumerate(labels)]
        kinds = set(map(type, labels))
    if str in kinds:
        for label in set(labels):
            if isinstance(label, str) and "\0" in label:
                raise ValueError(
                    f"a label may not hold the character NUL, which NumPy drops at its end: {shown(label)}"
                )
    return labels


def _as_list(y: Any, n: int) -> list[Any]:
    if type(y) is np.ndarray and y.ndim == 1:  # what nearly everyone passes
        return y.tolist()
    if y is None:
        raise ValueError("learning requires y to be passed, but the target y is None")
    if isinstance(y, torch.Tensor):
        y = from_tensor("y", y)
    if isinstance(y, (str, bytes)):
        raise ValueError(f"y must be a sequence of {n} labels, got the single value {shown(y)}")
    if isinstance(y, (Set, Mapping)):
        raise ValueError(f"y must be a sequence of {n} labels in the order of the rows, got a {type(y).__name__}")
    if isinstance(y, np.ma.MaskedArray) and y.mask.any():
        raise ValueError("y is a masked array with masked labels; leave those rows out")
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning  # not for everyone who imports this file

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is taken as y.ravel()",
            DataConversionWarning,
            stacklevel=5,
        )
        y = np.asarray(y).reshape(-1)
    try:
        if hasattr(y, "__array__"):
            y = np.asarray(y)
        labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
    except TypeError:
        raise ValueError(f"y must be a sequence of {n} labels, got {type(y).__name__}") from None
    if not isinstance(labels, list):
        raise ValueError(f"y must be 1-D, got the single value {shown(labels)}")
    return labels


def _as_label(label: Any, row: int) -> str | int:
    if isinstance(label, torch.Tensor):
        label = from_tensor("a label", label)
    if isinstance(label, np.ndarray) and label.ndim == 0:
        label = label.item()
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, (bool, np.bool_)):
        return bool(label)
    if isinstance(label, (int, np.integer)):
        return int(label)
    if isinstance(label, (float, np.floating)) and np.isfinite(label) and label == int(label):
        return int(label)
    given = f"{shown(label)} ({type(label).__name__}) in row {row}"
    raise ValueError(f"Unknown label type: labels must be strings or integers, got {given}")


def check_known_labels(
    labels: list[str | int], index: Mapping[str | int, int], seen: Sequence[Any] | NDArray[Any], classes: Any
) -> set[str | int]:
    """The labels that are new to a model, which knows those in `index`; complains about those that it cannot take."""
    wanted = set(labels)
    for label in wanted & {0, 1}:  # True is 1 to a dict
        kinds = {type(one) for one in labels if one == label}
        if label in index:
            kinds.add(bool if isinstance(seen[index[label]], (bool, np.bool_)) else int)
        if len(kinds) > 1:
            raise ValueError(f"{bool(label)} and {int(label)} would be one class; use either truth values or numbers")
    if classes is not None:
        listed = as_labels(classes, len(_as_list(classes, len(wanted))))
        if not wanted <= set(listed):
            unknown = shown(min(wanted - set(listed), key=shown))
            raise ValueError(f"y holds {unknown}, which is not among classes={shown(listed, 200)}")
    new = wanted.difference(index)
    for label in new:
        if isinstance(label, int) and label.bit_length() > LONGEST:
            raise ValueError(f"a label is an integer of {label.bit_length()} bits; use at most {LONGEST}, or a string")
    return new


def as_task(task: Any) -> str | int:
    if isinstance(task, np.integer):
        return int(task)
    if isinstance(task, (str, int)) and not isinstance(task, bool):
        if isinstance(task, int) and task.bit_length() > LONGEST:
            raise ValueError(f"task is an integer of {task.bit_length()} bits; use at most {LONGEST}, or a string")
        return task
    raise ValueError(f"task must be a string or an integer, got {shown(task)} ({type(task).__name__})")


def as_label_array(labels: list[str | int]) -> NDArray[Any]:
    """Labels as users know them: an integer or string array where all are of one kind, else objects.

    >>> as_label_array(["a", 1])
    array(['a', 1], dtype=object)
    """
    if labels and all(isinstance(label, str) for label in labels):
        return np.array(labels)
    if labels and all(isinstance(label, bool) for label in labels):
        return np.array(labels)
    if all(type(label) is int and -(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, np.int64)
    array = np.empty(len(labels), object)
    array[:] = labels
    return array


def check_seed(seed: Any) -> None:
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must be an integer of at most 63 bits, got {shown(seed)}")


def as_device(device: Any) -> torch.device:
    """`auto`: the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        chosen = torch.device("meta")
    if chosen.type == "meta":  # which holds no numbers
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {shown(device)}")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but torch sees no GPU here; use device='cpu'")
    return chosen
