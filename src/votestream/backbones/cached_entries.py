"""Listing and deleting the entries of the feature cache."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from votestream.backbones.cache_entry import read_about, read_checksums
from votestream.common.cache_folder import cache_folder


@dataclass(frozen=True)
class CacheEntry:
    """One entry of the feature cache, as `list_cached` returns it."""

    key: str
    backbone: str
    images: int
    done: int  # of them; fewer than `images` after an interruption
    feature_dim: int
    bytes: int
    created: float  # seconds since 1970
    path: Path


def list_cached(folder: str | os.PathLike[str] | None = None) -> list[CacheEntry]:
    """All entries of the cache, oldest first.

    Example:
        >>> list_cached("no/such/folder")
        []
    """
    root = cache_folder(folder)
    entries = []
    for path in root.iterdir() if root.is_dir() else ():
        if not path.is_dir() or len(path.name) != 64 or set(path.name) - set("0123456789abcdef"):
            continue  # not ours
        about: dict[str, Any] = {
            "backbone": "(damaged)",
            "images": 0,
            "feature_dim": 0,
            "chunk": 1,
            "created": 0.0,
        }
        about |= read_about(path) or {}
        done = min(len(read_checksums(path)) * about["chunk"], about["images"])
        size = 0
        for file in path.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process is replacing it
                size += file.stat().st_size
        entries.append(
            CacheEntry(
                path.name,
                about["backbone"],
                about["images"],
                done,
                about["feature_dim"],
                size,
                about["created"],
                path,
            )
        )
    return sorted(entries, key=lambda entry: entry.created)


def clear_cached(backbone: str | None = None, folder: str | os.PathLike[str] | None = None) -> list[CacheEntry]:
    """Delete entries, of one backbone or all, and return them; entries that are being computed are kept.

    Example:
        >>> clear_cached(folder="no/such/folder")
        []
    """
    gone = []
    for entry in list_cached(folder):
        if backbone is not None and entry.backbone != backbone:
            continue
        try:
            with FileLock(entry.path.with_name(f"{entry.key}.lock"), timeout=0):
                shutil.rmtree(entry.path)
        except Timeout:
            continue
        gone.append(entry)
    return gone
