"""Where features and data sets are kept on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where features are kept: the folder given, `VOTESTREAM_CACHE`, or the platform's folder for caches.

    Example:
        >>> cache_folder("features").name
        'features'
    """
    if folder is not None:
        return Path(folder)
    if given := os.environ.get("VOTESTREAM_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "votestream" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "votestream"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "votestream"
