"""How to install the packages that only some parts need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def install_extra(extra: str) -> str:
    """The commands that install one of VoteStream's extras, for the end of a message.

    >>> install_extra("heic")
    "`pip install 'votestream[heic]'`, or in a checkout `pip install -c constraints.txt -e '.[heic]'`"
    """
    return f"`pip install 'votestream[{extra}]'`, or in a checkout `pip install -c constraints.txt -e '.[{extra}]'`"


def import_package(
    module: str, wanted_by: str, install: str = "", error: type[ImportError] = ModuleNotFoundError
) -> ModuleType:
    """Import a module of a package that need not be installed, or say which command would make it importable.

    >>> import_package("no_such.module", "reading stones")
    Traceback (most recent call last):
    ...
    ModuleNotFoundError: reading stones needs the package no_such, which is not installed: `pip install no_such`.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != package:
            raise error(
                f"{wanted_by} needs the package {package}, which cannot be imported without {problem.name}: "
                f"`pip install {problem.name}`."
            ) from problem
        install = install or f"`pip install {package}`"
        raise error(f"{wanted_by} needs the package {package}, which is not installed: {install}.") from problem
