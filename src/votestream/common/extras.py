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


def import_package(module: str, wanted_by: str, package: str = "") -> ModuleType:
    """Import a module of a package that need not be installed, or say which command would install it.

    >>> import_package("no_such.module", "reading stones", "stone-reader")
    Traceback (most recent call last):
    ...
    ModuleNotFoundError: reading stones needs the package stone-reader: `pip install stone-reader`.
    """
    package = package or module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # it is installed, and something that it needs is not
        raise ModuleNotFoundError(f"{wanted_by} needs the package {package}: `pip install {package}`.") from None
