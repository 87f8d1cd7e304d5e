"""Taking arrays out of a model file: each part says what it expects of them, and anything else is refused.

A file with a right checksum can still hold wrong contents. Whoever restores itself takes its arrays by these
functions, before it allocates or computes anything from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from votestream.common.validation import LARGEST
from votestream.io.model_files import ModelFileError

MANY = 2**48  # no stream is longer
ROUNDED = 1.001  # sums and means may pass what their rows allow by rounding
TRAINED = 1e18  # no trained weight is larger, unless training has diverged: its square overflows float32
PIECE = 1 << 22  # numbers looked at together, so that checking an array takes little beside it

State = dict[str, NDArray[Any]]

_believed: ContextVar[bool] = ContextVar("_believed", default=False)


def take(
    state: State,
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
    low: float | None = None,
    high: float | None = None,
) -> NDArray[Any]:
    """The array of that name; its dtype and shape (None: any length) are these, its values within low and high.

    Unless given, low and high are 0 and the largest of its kind for integers, and for other numbers -1e12 and 1e12, as
    for features. NaN is never within.

    >>> take({"counts": np.array([3, 1])}, "counts", np.int64, (2,), low=1).tolist()
    [3, 1]
    >>> take({"counts": np.array([3, -1])}, "counts", np.int64, (2,))
    Traceback (most recent call last):
    ...
    votestream.io.model_files.ModelFileError: the array 'counts' must hold numbers of at least 0, got -1
    """
    if name not in state:
        raise ModelFileError(f"the array {name!r} is missing")
    array, kind = state[name], np.dtype(dtype)
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if array.dtype != kind or not fits:
        wanted = ", ".join("n" if size is None else str(size) for size in shape)
        raise ModelFileError(
            f"the array {name!r} must be {kind} of shape ({wanted}), got {array.dtype} of shape {array.shape}"
        )
    if kind.kind == "f":
        low, high = -LARGEST if low is None else low, LARGEST if high is None else high
    elif kind.kind == "i" and low is None:
        low = 0
    _check_range(name, array, low, high)
    return array


def _check_range(name: str, array: NDArray[Any], low: float | None, high: float | None) -> None:
    if not array.size:
        return
    smallest, largest = array.min().item(), array.max().item()  # NaN, if there is one
    if low is not None and not smallest >= low:
        raise ModelFileError(f"the array {name!r} must hold numbers of at least {low:g}, got {smallest}")
    if high is not None and not largest <= high:
        raise ModelFileError(f"the array {name!r} must hold numbers of at most {high:g}, got {largest}")


def take_number(state: State, name: str, low: int = 0, high: int | None = None) -> int:
    """A single integer.

    >>> take_number({"clock": np.array(7)}, "clock", low=5)
    7
    """
    return int(take(state, name, np.int64, (), low, high))


def take_classes(state: State, name: str, n: int | None, n_classes: int) -> NDArray[np.int64]:
    """Numbers of classes, n of them (None: any number)."""
    return take(state, name, np.int64, (n,), high=n_classes - 1)


def take_generator(state: State, name: str, generator: torch.Generator) -> None:
    """Bring the generator to the state that was saved."""
    saved = take(state, name, np.uint8, (len(generator.get_state()),))
    try:
        generator.set_state(torch.from_numpy(saved))
    except RuntimeError as problem:
        raise ModelFileError(f"the array {name!r} is no state of a random generator ({problem})") from None


def take_scale(state: State) -> np.float32:
    """What features are multiplied by before a head takes them."""
    numbers = np.finfo(np.float32)
    return np.float32(take(state, "scale", np.float32, (), float(numbers.tiny), float(numbers.max)))


def take_power(state: State, dtype: DTypeLike) -> tuple[Any, float]:
    """What features are raised to, and how large they can get by it."""
    power = float(take(state, "power", dtype, (), 1e-6, 100))
    return power, float(np.finfo(np.float32).max) ** 0.5 if power > 1 else LARGEST


def check_diverged(arrays: State) -> None:
    """Complain before a model is saved whose file would be refused: training has diverged."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(
                f"this model has diverged ({name!r} holds NaN or infinity) and is not saved: go on from the last file, "
                "with a lower lr"
            )


def demand(holds: bool | np.bool_, sentence: str) -> None:
    """Refuse the file, unless what the sentence says of it holds."""
    if not holds:
        raise ModelFileError(sentence)


def check_below(name: str, array: NDArray[Any], most: ArrayLike) -> None:
    """No element is larger in size than `most`, which may be an array too."""
    fits = (np.abs(array) <= np.asarray(most, np.float64)).all()
    demand(bool(fits), f"the array {name!r} holds numbers too large for its counts")


def check_held(name: str, counts: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
    """As many exemplars of each class are counted as there are."""
    there = np.bincount(labels, minlength=len(counts))
    demand(np.array_equal(there, counts), f"the array {name!r} counts other exemplars than there are")


def check_all_met(classes: NDArray[np.int64], merged: int, n_classes: int) -> None:
    """Classes from `merged` on are only in rows that wait: each has one."""
    there = np.zeros(n_classes, bool)
    there[classes] = True
    demand(bool(there[merged:].all()), "there are classes that no sample was learned of")


def check_products(name: str, matrix: NDArray[Any], slack: float = 1e-3) -> None:
    """A sum of h h^T: symmetric, and no product larger than the squares allow; up to `slack`. In quadratic time."""
    size = np.sqrt(np.maximum(matrix.diagonal(), 0).astype(np.float64))
    step = max(1, PIECE // max(1, len(matrix)))
    for start in range(0, len(matrix), step):
        rows, columns = matrix[start : start + step], matrix[:, start : start + step].T
        most = size[start : start + step, None] * size + 1e-30  # squares of small numbers are lost in float32
        fits = (np.abs(rows) <= (1 + slack) * most).all() and (np.abs(rows - columns) <= slack * most).all()
        demand(bool(fits), f"the array {name!r} is no sum of products")


@contextmanager
def made_by_workers() -> Iterator[None]:
    """Inside, `check_scatter` believes: a worker of ours computed it, and checking is most of what reading takes."""
    before = _believed.set(True)
    try:
        yield
    finally:
        _believed.reset(before)


def check_scatter(name: str, whole: Callable[[], NDArray[Any]], slack: float) -> None:
    """Each matrix (D, D) is symmetric and positive semidefinite, up to `slack` relative to its diagonal."""
    if _believed.get():
        return
    matrices = whole()
    width = matrices.shape[-1]
    step = max(1, PIECE // max(1, width * width))
    matrices = matrices.reshape(-1, width, width)
    for start in range(0, len(matrices), step):
        S = matrices[start : start + step].astype(np.float64)
        diagonal = np.einsum("cii->ci", S).copy()
        size = np.sqrt(np.where(diagonal > 0, diagonal, 1))
        with np.errstate(over="ignore", invalid="ignore"):
            S /= size[:, :, None]
            S /= size[:, None, :]
            symmetric = np.abs(S - S.transpose(0, 2, 1)).max(initial=0) <= slack
        np.einsum("cii->ci", S)[:] = np.where(diagonal > 0, 1, 0) + slack
        definite = symmetric and not torch.linalg.cholesky_ex(torch.from_numpy(S)).info.any()
        demand(
            (diagonal >= 0).all() and definite, f"the array {name!r} is no scatter: not symmetric and positive definite"
        )
