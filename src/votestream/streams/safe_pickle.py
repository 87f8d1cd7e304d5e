"""Reading CIFAR's pickles without trusting them: arrays of bytes, text, numbers and containers, nothing else."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from votestream.streams.data_set import DataError


def read_pickle(path: Path, again: str) -> Any:
    """Load a pickle that holds plain values and arrays of bytes; whatever else it names is refused, never called.

    Args:
        again: What to do about a damaged file: the end of the error's sentence.

    Example:
        >>> _ = Path("harmless").write_bytes(pickle.dumps({"labels": [3, 1]}))
        >>> read_pickle(Path("harmless"), "fetch it again")
        {'labels': [3, 1]}
        >>> _ = Path("tampered").write_bytes(pickle.dumps(print))
        >>> read_pickle(Path("tampered"), "fetch it again")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        votestream.streams.data_set.DataError: tampered was tampered with, or is another file: it asks for ...
    """
    try:
        with path.open("rb") as file:
            return _plain(_Reader(file).load())
    except FileNotFoundError:
        raise DataError(f"There is no file {path}: {again}.") from None
    except _Refused as refused:
        raise DataError(
            f"{path} was tampered with, or is another file: it asks for {refused}, which no data file needs. "
            f"Nothing of it was run: {again}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # damaged bytes make the unpickler fail in any way it can
        raise DataError(f"{path} is truncated or damaged ({type(error).__name__}: {error}): {again}.") from error


class _Refused(Exception):
    """What a pickle asked for and did not get."""


class _Reader(pickle.Unpickler):
    """Knows three things by name, and hands out stand-ins for them, so that no file reaches into NumPy itself.

    A pickle may set attributes on what it is given: the stand-ins are made for each file, and go with it.
    """

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="bytes")
        array_type = object()  # the name numpy.ndarray, good only as the first argument of `rebuild`

        def rebuild(kind: object, _shape: object, _code: object) -> _PickledArray:
            if kind is not array_type:
                raise _Refused("an array of another kind than pickled arrays are")
            return _PickledArray()

        def data_type(code: object, *_rest: object) -> _Bytes:
            if code not in ("u1", b"u1", "|u1", b"|u1"):
                raise _Refused(f"an array of {code!r}, not of bytes")
            return _Bytes()

        def encode(text: object, encoding: object = "latin1") -> bytes:
            if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
                raise _Refused("an unusual text encoding")
            return text.encode("latin1")

        self._known: dict[tuple[str, str], object] = {
            ("numpy.core.multiarray", "_reconstruct"): rebuild,
            ("numpy._core.multiarray", "_reconstruct"): rebuild,
            ("numpy", "ndarray"): array_type,
            ("numpy", "dtype"): data_type,
            ("_codecs", "encode"): encode,  # how Python 3 writes bytes for Python 2
        }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._known[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("an object outside the file")


class _Bytes:
    """The data type of bytes, whatever state the file gives it."""

    def __setstate__(self, state: object) -> None: ...


class _PickledArray:
    """Shape and contents of an array, until `_plain` makes one of them."""

    state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def _plain(value: Any) -> Any:
    """Arrays in place of their stand-ins, at the top or one level down, where data files have them."""
    if isinstance(value, _PickledArray):
        _version, shape, kind, fortran, content = value.state
        if not isinstance(kind, _Bytes) or not isinstance(content, bytes):
            raise ValueError("an array without contents")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value
