"""A library outside the versions that were tested gives a warning, not a crash."""

from __future__ import annotations

import warnings
from importlib.metadata import version

import pytest

from votestream.compat.versions import warn_outside


@pytest.mark.parametrize(("oldest", "newest"), [("0.1", "0.9"), ("1000", "1001")])
def test_a_version_outside_is_warned_of(oldest, newest):
    with pytest.warns(UserWarning, match=f"tested with pytest {oldest} to {newest}, and pytest {version('pytest')} is"):
        warn_outside("pytest", oldest, newest)


def test_a_version_inside_is_not_warned_of():
    major, minor = version("pytest").split(".")[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for oldest, newest in ((major, major), (f"{major}.{minor}", f"{major}.{minor}"), ("1", f"{major}.{minor}")):
            warn_outside("pytest", oldest, newest)


def test_a_package_without_metadata_is_let_pass():
    warn_outside("no-such-package-here", "1", "2")
