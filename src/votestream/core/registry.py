"""Learners by name: making them, and reading them back from files."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from votestream.common.parameters import shown
from votestream.common.plugins import Registry
from votestream.common.validation import as_device
from votestream.io import model_files
from votestream.io.file_header import learner_in

if TYPE_CHECKING:
    from votestream.core.learner import Learner

L = TypeVar("L", bound="type[Learner[Any]]")


def _name(name: str, cls: Any) -> None:
    from votestream.core.learner import Learner  # which imports this file

    if not (isinstance(cls, type) and issubclass(cls, Learner)):
        raise TypeError(f"a learner must be a subclass of votestream.Learner, got {cls!r}")
    if cls.name != name and cls.name in LEARNERS.here() and LEARNERS[cls.name] is cls:
        raise ValueError(f"{cls.__name__} is registered already, as {cls.name!r}: its files say one name")
    cls.name = name


# Every class, by its name.
LEARNERS: Registry[type[Learner[Any]]] = Registry(
    "learner", check=_name, homes=("votestream.learners", "votestream.pipeline")
)


def register(name: str) -> Callable[[L], L]:
    """Class decorator: makes a learner known by name to `create`, `load`, the bench and the command line.

    A name is taken once. The same class defined again, as when a notebook's cell is run twice, takes its own place.
    """
    return LEARNERS.decorator(name)


def list_learners(pattern: str = "*") -> list[str]:
    """Names of the learners that `create` knows.

    >>> import votestream as vs
    >>> vs.list_learners("candidates*")
    ['candidates_voting']
    """
    return sorted(fnmatch.filter(LEARNERS, pattern))


def create(name: str, **params: Any) -> Learner[Any]:
    """A learner by name.

    >>> import votestream as vs
    >>> vs.create("candidates_voting", budget=500)
    CandidatesVoting(budget=500)
    """
    if name not in LEARNERS:
        raise ValueError(f"no learner is called {shown(name)}; there are {', '.join(list_learners())}")
    return LEARNERS[name](**params)


def load(path: str | os.PathLike[str], device: str | None = None, backbone: Any = None) -> Learner[Any]:
    """A saved model, exactly as it was; `device` moves it elsewhere.

    `backbone` is for an `ImageClassifier` whose backbone has no name to be made anew from.

    >>> import tempfile, votestream as vs
    >>> model = vs.CandidatesVoting().partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/m.safetensors")
    ...     vs.load(f"{folder}/m.safetensors").predict([[0.0, 1.0]])
    array(['a'], dtype='<U1')
    """
    return from_parts(path, *model_files.read(path), device, backbone)


def from_parts(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    device: str | None = None,
    backbone: Any = None,
) -> Learner[Any]:
    """The learner that a file's header and arrays describe; the path is only for complaints."""
    if device is not None:
        as_device(device)
    try:
        made: Learner[Any] = learner_in(header, LEARNERS).from_file(header, arrays, device, backbone)
        return made
    except ValueError as problem:
        raise model_files.ModelFileError(f"{path} cannot be loaded: {problem}") from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as problem:
        raise model_files.ModelFileError(
            f"{path} cannot be loaded: it does not fit this version ({type(problem).__name__}: {problem})"
        ) from None
