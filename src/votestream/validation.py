"""What may come in: every complaint names the argument, what came and what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

LARGEST = 1e12  # beyond it float32 products may overflow


def as_features(X: Any, width: int | None = None) -> NDArray[np.float32]:
    """X as float32 rows, (n, D) with D = `width` if given; finite, at least one row.

    >>> as_features([[1, 2]]).dtype
    dtype('float32')
    >>> as_features([[1.0, float("nan")]])
    Traceback (most recent call last):
    ...
    ValueError: X holds NaN in row 0; every feature must be finite
    """
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu()
        X = X.float().numpy() if X.dtype == torch.bfloat16 else X.numpy()
    elif not isinstance(X, np.ndarray):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError("X must be a 2-D array (n, D); its rows differ in length") from None
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold numbers, got dtype {X.dtype}")
    if X.ndim != 2:
        hint = "; for one sample pass x[None]" if X.ndim == 1 else ""
        raise ValueError(f"X must be 2-D (n, D), got shape {X.shape}{hint}")
    if 0 in X.shape:
        raise ValueError(f"X is empty: shape {X.shape}")
    if width is not None and X.shape[1] != width:
        raise ValueError(f"X has {X.shape[1]} features a row, but the model was taught with {width}")
    if X.dtype != np.float32:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
    X = np.ascontiguousarray(X)
    flat = X.reshape(-1)
    if not (np.maximum.reduce(flat) <= LARGEST and np.minimum.reduce(flat) >= -LARGEST):
        _complain_about_values(X)
    return X


def _complain_about_values(X: NDArray[np.float32]) -> None:
    for name, bad in (("NaN", np.isnan(X)), ("an infinity", np.isinf(X))):
        rows = np.flatnonzero(bad.any(axis=1))
        if len(rows):
            raise ValueError(f"X holds {name} in row {rows[0]}; every feature must be finite")
    raise ValueError(f"X holds values as large as {np.abs(X).max():.3g}; rescale the features to {LARGEST:g} at most")


def as_labels(y: Any, n: int) -> list[str | int]:
    """y as a list of n plain strings, integers or booleans.

    >>> import numpy as np
    >>> as_labels(np.array(["cat", "dog"]), 2)
    ['cat', 'dog']
    >>> as_labels([0.5], 1)
    Traceback (most recent call last):
    ...
    ValueError: labels must be strings or integers, got 0.5 (float) in row 0
    """
    if isinstance(y, (str, bytes)):
        raise ValueError(f"y must be a sequence of {n} labels, got the single value {y!r}")
    try:
        labels = y.tolist() if isinstance(y, (np.ndarray, torch.Tensor)) else list(y)
    except TypeError:
        raise ValueError(f"y must be a sequence of {n} labels, got {type(y).__name__}") from None
    if not isinstance(labels, list):
        raise ValueError(f"y must be 1-D, got the single value {labels!r}")
    if len(labels) != n:
        raise ValueError(f"X and y differ in length: {n} rows, {len(labels)} labels")
    if set(map(type, labels)) <= {str, int, bool}:
        return labels
    for row, label in enumerate(labels):
        kind = type(label)
        if kind in (str, int, bool):
            continue
        if isinstance(label, str):
            labels[row] = str(label)
        elif isinstance(label, np.integer):
            labels[row] = int(label)
        else:
            raise ValueError(f"labels must be strings or integers, got {label!r} ({kind.__name__}) in row {row}")
    return labels


def as_task(task: Any) -> str | int:
    if isinstance(task, np.integer):
        return int(task)
    if isinstance(task, (str, int)) and not isinstance(task, bool):
        return task
    raise ValueError(f"task must be a string or an integer, got {task!r} ({type(task).__name__})")


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


def check_positive(name: str, value: Any, kind: type = float, allow_zero: bool = False) -> None:
    """Complain unless the constructor argument is a finite number above zero (or not below it)."""
    numeric = isinstance(value, (int, np.integer) if kind is int else (int, float, np.number))
    if not numeric or isinstance(value, bool) or not np.isfinite(value) or value < 0 or not (value or allow_zero):
        wanted = "an integer" if kind is int else "a number"
        bound = "of at least 0" if allow_zero else "above 0"
        raise ValueError(f"{name} must be {wanted} {bound}, got {value!r}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def as_device(device: Any) -> torch.device:
    """`auto`: the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but torch sees no GPU here; use device='cpu'")
    return chosen
