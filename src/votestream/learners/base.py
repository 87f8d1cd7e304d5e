"""The contract every learner keeps, and what they share: input checks, labels, tasks, saving."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from votestream import persistence
from votestream._version import __version__
from votestream.learners.file_header import check_names, checked_classes, checked_params, checked_width, learner_in
from votestream.learners.tasks import TaskLedger
from votestream.validation import as_device, as_features, as_label_array, as_labels, as_task

_REGISTRY: dict[str, type[Learner]] = {}
LEARNERS: Mapping[str, type[Learner]] = MappingProxyType(_REGISTRY)  # every registered class, by its name
L = TypeVar("L", bound="type[Learner]")


def register(name: str) -> Callable[[L], L]:
    """Class decorator: makes a learner known by name to `create`, `load` and the contract tests."""

    def enter(cls: L) -> L:
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return enter


def list_learners(pattern: str = "*") -> list[str]:
    """Names of the learners that `create` knows.

    >>> import votestream as vs
    >>> vs.list_learners("candidates*")
    ['candidates_voting']
    """
    return sorted(fnmatch.filter(LEARNERS, pattern))


def create(name: str, **params: Any) -> Learner:
    """A learner by name.

    >>> import votestream as vs
    >>> vs.create("candidates_voting", budget=500)
    CandidatesVoting(budget=500)
    """
    if name not in LEARNERS:
        raise ValueError(f"no learner is called {name!r}; there are {', '.join(list_learners())}")
    return LEARNERS[name](**params)


def load(path: str | os.PathLike[str], device: str | None = None, backbone: Any = None) -> Learner:
    """A saved model, exactly as it was; `device` moves it elsewhere.

    `backbone` is for an `ImageClassifier` whose backbone has no name to be made anew from.

    >>> import tempfile, votestream as vs
    >>> model = vs.CandidatesVoting().partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/m.safetensors")
    ...     vs.load(f"{folder}/m.safetensors").predict([[0.0, 1.0]])
    array(['a'], dtype='<U1')
    """
    return from_parts(path, *persistence.read(path), device, backbone)


def from_parts(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    device: str | None = None,
    backbone: Any = None,
) -> Learner:
    """The learner that a file's header and arrays describe; the path is only for complaints."""
    if device is not None:
        as_device(device)
    try:
        return learner_in(header, LEARNERS)._from_file(header, arrays, device, backbone)
    except ValueError as problem:
        raise persistence.ModelFileError(f"{path} cannot be loaded: {problem}") from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as problem:
        raise persistence.ModelFileError(
            f"{path} cannot be loaded: it does not fit this version ({type(problem).__name__}: {problem})"
        ) from None


class Learner(ClassifierMixin, BaseEstimator):
    """Learns from a stream of labelled rows, one pass, and classifies among every class it has met.

    A subclass stores its constructor's arguments and writes these methods: `_begin` (allocate, for the
    first samples), `_learn` (rows of one task), `_decide` (class numbers), `_probabilities`, and
    `_arrays` / `_set_arrays` (everything it would need to go on). Classes are numbers here, counted in
    order of first appearance; the labels users give stay in this file.
    """

    name = ""
    bounded = True  # with all classes met, what is kept grows no more; False for a learner that keeps the data
    n_features_in_: int
    _index: dict[str | int, int]
    _broken = False
    _working: tuple[str, ...] = ()  # attributes that can be made again from the others
    # Constructor arguments that every learner has.
    seed: int
    device: str
    batch_size: int
    young: int

    # ---- learning -------------------------------------------------------------------------------

    def partial_fit(self, X: ArrayLike, y: ArrayLike, task: str | int | None = None) -> Learner:
        """Learn the rows in their order, in mini-batches of `batch_size`.

        X: features (n, D), a NumPy array or a torch tensor. y: n labels, strings or integers; unseen
        ones become new classes. task: the task that new classes belong to; left out, it is found.
        """
        fitted = self._is_fitted()
        if self._broken:
            self._check_fitted()
        rows = self._check_X(X, self.n_features_in_ if fitted else None)
        labels = as_labels(y, len(rows))
        told = None if task is None else as_task(task)
        index: dict[str | int, int] = self._index if fitted else {}
        if not fitted:
            self._check_params()
        self._foresee(len(index), len(index) + len(set(labels).difference(index)), rows.shape[1])
        if not fitted:
            self._begin(rows[: self.batch_size])
            self._index = index
            self._tasks = TaskLedger(self.young)
            self.n_features_in_ = rows.shape[1]
        try:
            if told is not None:
                self._tasks.tell(told)
            classes = [index.setdefault(label, len(index)) for label in labels]
            numbers = np.array(classes)
            for start, end in self._tasks.cut(classes, told=told is not None):
                self._learn(rows[start:end], numbers[start:end], start % self.batch_size)
        except BaseException:  # Ctrl-C, or no memory left: rows are half applied, and must not pass for learned
            self._broken = True
            raise
        return self

    def _next_task(self) -> str:
        """A name for a task that is told without one: "task 1" and so on."""
        names = self.tasks_ if self._is_fitted() else []
        return next(name for n in range(len(names) + 1) if (name := f"task {len(names) + 1 + n}") not in names)

    # ---- deciding -------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each row, (n,)."""
        chosen = self._decide(self._query(X))
        return self._labels()[chosen]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class, (n, C); rows sum to 1, columns stand as in `classes_`."""
        return self._probabilities(self._query(X))

    def _labels(self) -> NDArray[Any]:
        if len(self._index) != len(getattr(self, "_classes", ())):
            self._classes = as_label_array(list(self._index))
        return self._classes

    def _query(self, X: ArrayLike) -> NDArray[Any]:
        self._check_fitted()
        return self._check_X(X, self.n_features_in_)

    # ---- what was learned -----------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """Every label met, in order of first appearance."""
        self._check_fitted()
        return self._labels().copy()

    @property
    def task_of_class_(self) -> NDArray[np.int64]:
        """The task of each class, counted from 0, as `classes_`."""
        self._check_fitted()
        return np.array(self._tasks.task_of_class, np.int64)

    @property
    def tasks_(self) -> list[str | int | None]:
        """The name of each task; None where it was found by itself."""
        self._check_fitted()
        return list(self._tasks.names)

    def memory_bytes(self, working: bool = False) -> int:
        """What is kept of the stream, in bytes: arrays and random state.

        Asking a model makes working copies, which the next samples throw away; `working` counts them too.
        """
        made = () if working else (*self._working, "_classes")
        kept = {name: value for name, value in vars(self).items() if name not in made}
        return _held_bytes(kept, set())

    # ---- saving ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file, whole or not at all; `votestream.load` reads it."""
        self._check_fitted()
        persistence.write(path, {"version": __version__, **self._header()}, self._arrays())

    def _header(self) -> dict[str, Any]:
        """All there is to keep that is not an array, fit for JSON."""
        return {
            "learner": self.name,
            "params": self.get_params(deep=False),
            "n_features": self.n_features_in_,
            "classes": list(self._index),
            "tasks": self._tasks.state(),
        }

    @classmethod
    def _from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Learner:
        model = cls(**checked_params(cls, header["params"]))
        if device is not None:
            model.set_params(device=device)
        model._check_params()
        model.n_features_in_ = checked_width(header["n_features"], arrays)
        model._index = checked_classes(header["classes"])
        model._tasks = TaskLedger(model.young)
        model._tasks.restore(header["tasks"], len(model._index))
        model._set_arrays(arrays)
        check_names(arrays, model._arrays())
        return model

    # ---- for subclasses -------------------------------------------------------------------------

    def _check_X(self, X: ArrayLike, width: int | None) -> NDArray[Any]:
        return as_features(X, width)

    def _check_params(self) -> None:
        """Complain about constructor arguments; called once, before anything is learned or loaded."""
        as_device(self.device)

    def _begin(self, X: NDArray[Any]) -> None:
        raise NotImplementedError

    def _learn(self, X: NDArray[Any], classes: NDArray[np.int64], offset: int) -> None:
        """Learn rows of one task; mini-batches end where they do in the call, `offset` rows into one."""
        raise NotImplementedError

    def _decide(self, X: NDArray[Any]) -> NDArray[np.int64]:
        raise NotImplementedError

    def _probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        raise NotImplementedError

    def _arrays(self) -> dict[str, NDArray[Any]]:
        raise NotImplementedError

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        raise NotImplementedError

    def _is_fitted(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def _foresee(self, known: int, soon: int, width: int) -> None:
        """The place to warn or complain about the number of classes: nothing has been learned of the call yet."""

    def _check_fitted(self) -> None:
        if self._broken:
            raise RuntimeError("learning was interrupted in the middle of a call; go on from the last saved model")
        if not self._is_fitted():
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet; call partial_fit first")


def _held_bytes(value: Any, seen: set[int]) -> int:
    """Bytes of the arrays, tensors and random states reachable from `value`, each memory once."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        address, size = value.ctypes.data, value.nbytes
    elif isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    elif isinstance(value, torch.Generator):
        address, size = id(value), value.get_state().numel()
    elif isinstance(value, torch.nn.Module):
        return _held_bytes([*value.parameters(), *value.buffers()], seen)
    elif isinstance(value, dict):
        return sum(_held_bytes(part, seen) for part in value.values())
    elif isinstance(value, (list, tuple)):
        return sum(_held_bytes(part, seen) for part in value)
    elif type(value).__module__.startswith("votestream."):
        if id(value) in seen:
            return 0
        seen.add(id(value))
        return _held_bytes(vars(value), seen)
    else:
        return 0
    if address in seen:
        return 0
    seen.add(address)
    return size
