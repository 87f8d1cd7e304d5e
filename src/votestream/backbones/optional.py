"""Imports of packages that only some backbones need, with errors that say how to install them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from votestream.common.extras import import_package, install_extra


class BackboneUnavailable(ImportError):
    """A backbone needs a package that is missing or does not work here; the message says what to do."""


def import_torchvision(wanted_by: str) -> ModuleType:
    """Import torchvision, whose wheel must have been built for the very torch that is installed."""
    try:
        return import_package("torchvision", wanted_by, install_extra("torchvision"), BackboneUnavailable)
    except BackboneUnavailable:
        raise
    except Exception as error:  # its compiled part raises RuntimeError, OSError or ImportError
        raise BackboneUnavailable(mismatch(wanted_by, error)) from error


def mismatch(wanted_by: str, error: Exception) -> str:
    """The message for a torchvision that does not fit the installed torch."""
    torch_version = version("torch")
    build = torch_version.partition("+")[2] or "cpu"
    try:
        torchvision_version = version("torchvision")
    except PackageNotFoundError:
        torchvision_version = "of unknown version"
    return (
        f"{wanted_by} needs torchvision, but the installed torchvision {torchvision_version} does not match "
        f"torch {torch_version} ({error}). Install the pair from one place, for instance `pip install "
        f"--force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/{build}`."
    )
