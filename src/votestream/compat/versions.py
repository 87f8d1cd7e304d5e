"""Which versions of other libraries these modules were tested with."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import PackageNotFoundError, version


def warn_outside(package: str, oldest: str, newest: str) -> None:
    """Warn where the installed version is not among those tested; versions are compared as far as the bounds go.

    >>> warn_outside("numpy", "1.26", "2")
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_outside("numpy", "0.1", "0.9")
    >>> str(seen[0].message)  # doctest: +ELLIPSIS
    'votestream was tested with numpy 0.1 to 0.9, and numpy ... is installed: it may work, or not'
    """
    try:
        installed = version(package)
    except PackageNotFoundError:  # in a form without metadata, as in some bundles: nothing to compare
        return
    if not _numbers(oldest) <= _numbers(installed) or _numbers(installed)[: len(_numbers(newest))] > _numbers(newest):
        tested = oldest if oldest == newest else f"{oldest} to {newest}"
        warnings.warn(
            f"votestream was tested with {package} {tested}, and {package} {installed} is installed: "
            "it may work, or not",
            UserWarning,
            stacklevel=3,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The release: (1, 26, 4) of "1.26.4rc1"."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
