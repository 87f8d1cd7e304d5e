"""Reading CIFAR's pickles without trusting them: arrays of bytes, text, numbers and containers, nothing else."""

from __future__ import annotations

import os
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from votestream.common.printing import shown
from votestream.streams.data_set import DataError

# CIFAR-100's largest file takes about 300,000. Each may make an object of 64 bytes out of one byte of the file.
MOST_OPERATIONS = 5_000_000


def read_pickle(path: Path, again: str) -> Any:
    """Load a pickle that holds plain values and arrays of bytes; whatever else it names is refused, never called.

    Args:
        again: What to do about a damaged file: the end of the error's sentence.

    Example:
        >>> import pickle
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
            return _plain(_Machine(file).run())
    except FileNotFoundError:
        raise DataError(f"There is no file {path}: {again}.") from None
    except _Refused as refused:
        raise DataError(
            f"{path} was tampered with, or is another file: it asks for {_brief(refused)}, which no data file needs. "
            f"Nothing of it was run: {again}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # damaged bytes make it fail in any way it can
        raise DataError(
            f"{path} is truncated or damaged ({type(error).__name__}: {_brief(error)}): {again}."
        ) from error


class _Refused(Exception):
    """What a pickle asked for and did not get."""


class _Machine:
    """Runs the few of pickle's operations that plain data needs, on a stack of its own.

    Python's unpickler would make a memo as long as a file's largest index, and hash whatever a file makes a key of,
    down to any depth. Here the standard library only takes the file apart; nothing is imported or called.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size = file, os.fstat(file.fileno()).st_size
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.encoded = 0

    def read(self, count: int) -> bytes:
        return self.file.read(min(count, self.size))  # a length that the file claims is not believed

    def readline(self) -> bytes:
        return self.file.readline()

    def run(self) -> Any:
        stack = self.stack
        for number, (operation, found, _) in enumerate(pickletools.genops(cast(BinaryIO, self))):
            argument: Any = found
            if number == MOST_OPERATIONS:
                raise _Refused(f"more than {MOST_OPERATIONS:,} operations")
            name = operation.name
            if name in _VALUES:
                stack.append(argument)
            elif name in _STRINGS:  # Python 2's, which were bytes
                stack.append(argument.encode("latin1"))
            elif name in _PUTS:
                self.memo[argument] = stack[-1]
            elif name in _GETS:
                stack.append(self.memo[argument])
            elif name in _DO:
                _DO[name](self)
            elif name in ("GLOBAL", "STACK_GLOBAL"):
                self._name(argument)
            elif name not in _IDLE:
                raise _Refused(f"the operation {name}")
        return stack.pop()

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        above = self.stack[start:]
        del self.stack[start:]
        return above

    def _tuple(self, count: int) -> None:
        if len(self.stack) < count:
            raise ValueError("a tuple of more than there is")
        above = self.stack[-count:]
        del self.stack[-count:]
        self.stack.append(tuple(above))

    def _append(self, values: list[Any]) -> None:
        into = self.stack[-1]
        if type(into) is not list:
            raise ValueError("a value appended to something else than a list")
        into += values

    def _dict(self) -> None:
        items = self._since_mark()
        self.stack.append({})
        self._set(items)

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _set(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if type(into) is not dict or len(items) % 2:
            raise ValueError("an entry of something else than a dict")
        if not all(type(key) in (str, bytes) for key in items[::2]):
            raise ValueError("a key that is no text")  # hashing a deep one would exhaust the C stack
        into.update(zip(items[::2], items[1::2], strict=True))

    def _name(self, argument: str | None) -> None:
        if argument is None:
            name, module = self.stack.pop(), self.stack.pop()
            asked = f"{module}.{name}" if type(module) is type(name) is str else "something without a name"
        else:
            asked = argument.replace(" ", ".")
        if asked not in _NAMES:
            raise _Refused(asked)
        self.stack.append(_NAMES[asked])

    def _reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(function) is not _Name or type(arguments) is not tuple or not arguments:
            raise _Refused("a call of something that is no function")
        first = arguments[0]
        if function is _REBUILD:
            if first is not _ARRAY_TYPE:
                raise _Refused("an array of another kind than pickled arrays are")
            self.stack.append(_PickledArray())
        elif function is _DATA_TYPE:
            if first not in ("u1", b"u1", "|u1", b"|u1"):
                raise _Refused(
                    f"an array of {first!r}, not of bytes" if type(first) in (str, bytes) else "an odd array"
                )
            self.stack.append(_BYTES)
        elif function is _ENCODE and type(first) is str and arguments[1:] in ((), ("latin1",), (b"latin1",)):
            self.encoded += len(first)
            if self.encoded > self.size:  # the same text over and over would fill the memory
                raise _Refused("more text than it holds")
            self.stack.append(first.encode("latin1"))
        else:
            raise _Refused("an unusual text encoding")

    def _build(self) -> None:
        state, into = self.stack.pop(), self.stack[-1]
        if type(into) is _PickledArray:
            into.state = state
        elif into is not _BYTES:
            raise _Refused("a state for something that has none")


class _Name:
    """Stands for something of NumPy's or Python's that a file may name; it does nothing."""


class _PickledArray:
    """Shape and contents of an array, until `_plain` makes one of them."""

    state: Any = None


_REBUILD, _DATA_TYPE, _ENCODE, _ARRAY_TYPE, _BYTES = (_Name() for _ in range(5))
_NAMES = {
    "numpy.core.multiarray._reconstruct": _REBUILD,
    "numpy._core.multiarray._reconstruct": _REBUILD,
    "numpy.ndarray": _ARRAY_TYPE,
    "numpy.dtype": _DATA_TYPE,
    "_codecs.encode": _ENCODE,  # how Python 3 writes bytes for Python 2
}
_VALUES = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"} | {
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"
}  # fmt: skip
_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_PUTS, _GETS = {"PUT", "BINPUT", "LONG_BINPUT"}, {"GET", "BINGET", "LONG_BINGET"}
_IDLE = {"PROTO", "FRAME", "STOP"}
_DO: dict[str, Callable[[_Machine], None]] = {
    "NONE": lambda on: on.stack.append(None),
    "NEWTRUE": lambda on: on.stack.append(True),
    "NEWFALSE": lambda on: on.stack.append(False),
    "EMPTY_LIST": lambda on: on.stack.append([]),
    "EMPTY_DICT": lambda on: on.stack.append({}),
    "EMPTY_TUPLE": lambda on: on.stack.append(()),
    "MARK": lambda on: on.marks.append(len(on.stack)),
    "MEMOIZE": lambda on: on.memo.update({len(on.memo): on.stack[-1]}),
    "LIST": lambda on: on.stack.append(on._since_mark()),
    "TUPLE": lambda on: on.stack.append(tuple(on._since_mark())),
    "DICT": _Machine._dict,
    "TUPLE1": lambda on: on._tuple(1),
    "TUPLE2": lambda on: on._tuple(2),
    "TUPLE3": lambda on: on._tuple(3),
    "APPEND": lambda on: on._append([on.stack.pop()]),
    "APPENDS": lambda on: on._append(on._since_mark()),
    "SETITEM": _Machine._set_item,
    "SETITEMS": lambda on: on._set(on._since_mark()),
    "REDUCE": _Machine._reduce,
    "BUILD": _Machine._build,
}


def _plain(value: Any) -> Any:
    """Arrays in place of their stand-ins, at the top or one level down, where data files have them."""
    return {key: _array(each) for key, each in value.items()} if isinstance(value, dict) else _array(value)


def _array(value: Any) -> Any:
    if not isinstance(value, _PickledArray):
        return value
    _version, shape, kind, fortran, content = value.state
    if kind is not _BYTES or not isinstance(content, bytes):
        raise ValueError("an array without contents")
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


def _brief(problem: Exception) -> str:
    return shown(str(problem)[:200])
