"""Model files: one safetensors file, a JSON header that says what it is, no pickle.

The header carries a format version, the learner's name and settings and everything that is not an array;
a SHA-256 over header and arrays tells a damaged file from a whole one.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from votestream.io.migrations import FORMAT, upgraded
from votestream.io.partial_files import beside, permissions

KEY = "votestream"


class ModelFileError(ValueError):
    """The file is not a model that this version can load; the message says why."""


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write beside and rename: a crash at any moment leaves the old file or the new one, never a half."""
    path = Path(os.path.realpath(path))  # a link stays, and what it points to is written
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    blob = packed(header, arrays)
    with beside(path) as (handle, name):
        with os.fdopen(handle, "wb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, permissions(path))
        os.replace(name, path)
    sync_folder(path.parent)


def packed(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """The file as bytes."""
    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    text = json.dumps({"format": FORMAT, **header})
    return _in_order(to_bytes(arrays, metadata={KEY: text, "sha256": digest(text, arrays)}))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a model file; anything damaged, foreign or newer is a ModelFileError."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata[KEY])
            if type(header["format"]) is not int or header["format"] < 1:
                raise ModelFileError(f"{path} is not a VoteStream model: its format is {header['format']!r:.60}")
            if header["format"] > FORMAT:
                raise ModelFileError(
                    f"{path} was written by a newer VoteStream (file format {header['format']}, this version "
                    f"reads up to {FORMAT}); update votestream to load it"
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except ModelFileError:
        raise
    except SafetensorError as problem:
        raise ModelFileError(f"{path} is damaged or not a VoteStream model ({problem})") from None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError, RecursionError):
        raise ModelFileError(
            f"{path} is not a VoteStream model: it lacks our header, or holds arrays of an unknown kind"
        ) from None
    if any(array.dtype.kind not in "biuf" for array in arrays.values()):  # where a package has taught NumPy more kinds
        raise ModelFileError(f"{path} is not a VoteStream model: it holds arrays of an unknown kind")
    if metadata.get("sha256") != digest(metadata[KEY], arrays):
        raise ModelFileError(f"{path} is damaged: its contents do not match their checksum")
    return upgraded(header), arrays


def unpacked(name: str, blob: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of what `packed` made; a ModelFileError with the name where the bytes are anything else.

    >>> header, arrays = unpacked("a part", packed({"part": 1}, {"rows": np.zeros((2, 3))}))
    >>> header["part"], arrays["rows"].shape
    (1, (2, 3))
    """
    try:
        metadata = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])["__metadata__"]
        header, arrays = json.loads(metadata[KEY]), from_bytes(blob)
        whole = metadata["sha256"] == digest(metadata[KEY], arrays)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError, SafetensorError):
        whole = False
    if not whole:
        raise ModelFileError(f"{name} is damaged, or no file of VoteStream")
    return header, arrays


def joined(parts: dict[str, dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """The arrays of several owners in one dict, as "owner.name"; `part_of` takes one owner's out again.

    >>> list(joined({"head": {"rows": np.zeros(1)}, "store": {"items": np.zeros(1)}}))
    ['head.rows', 'store.items']
    """
    return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def part_of(arrays: dict[str, NDArray[Any]], part: str) -> dict[str, NDArray[Any]]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _in_order(blob: bytes) -> bytes:
    """The same file with its metadata sorted, which safetensors writes in any order: equal models, equal files."""
    end = 8 + int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + blob[end:]


def digest(text: str, arrays: dict[str, NDArray[Any]]) -> str:
    """SHA-256 (hex) over a text and arrays with their names, kinds and shapes."""
    made = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        made.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        made.update(array.data if array.ndim else array.tobytes())
    return made.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
