"""Where the files of a model lie, and checks that they can be used."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from votestream.common.exits import Refused


class ModelStoreError(Refused):
    """Says why a model file, or a file beside it, cannot be opened, changed or saved."""


def as_sentence(problem: Exception) -> str:
    """The text of an error, with a full stop at its end.

    >>> as_sentence(ValueError("budget must be at least 1, got 0"))
    'budget must be at least 1, got 0.'
    """
    text = str(problem)
    return text if text.endswith(".") else f"{text}."


def resolve_link(path: Path) -> Path:
    """The file that a link leads to, whether it exists or not; any other path as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def sidecar_path(model: Path) -> Path:
    """The list of learned photos, beside the model file itself: a link to a model shares the model's list."""
    path = resolve_link(model)
    return path.with_name(f"{path.name}.learned")


def journal_path(model: Path) -> Path:
    """The journal, beside the model file itself, whether it exists or not."""
    path = resolve_link(model)
    return path.with_name(f"{path.name}.journal")


def check_model_path(path: Path) -> None:
    """Raise ModelStoreError where no model file can be written, before any photo is read."""
    if path.is_dir():
        raise ModelStoreError(f"{path} is a folder: name the model file, such as {path / 'model.safetensors'}.")
    if path.is_symlink():
        raise ModelStoreError(f"{path} is a link that leads back to itself: name the model file.")
    if not path.parent.is_dir():
        raise ModelStoreError(f"There is no folder {path.parent} for the model {path.name}.")
    for place in (path.parent, path):
        if place.exists() and not os.access(place, os.W_OK):
            raise ModelStoreError(f"{place} is write-protected: the model could not be saved.")


def check_own_file(path: Path, use: str, is_ours: Callable[[bytes], bool]) -> None:
    """Raise ModelStoreError if the path holds something that VoteStream did not write.

    Reading from a pipe would block, and another program's file would be overwritten.
    """
    try:
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                if is_ours(file.read(4096)):
                    return
    except FileNotFoundError:
        return
    raise ModelStoreError(
        f"{path} is in the way: `votestream learn` {use} there, and this is something else. Move it away."
    )
