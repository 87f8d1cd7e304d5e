"""How to install the packages that only some parts need."""

from __future__ import annotations


def install_extra(extra: str) -> str:
    """The commands that install one of VoteStream's extras, for the end of a message.

    >>> install_extra("heic")
    "`pip install 'votestream[heic]'`, or in a checkout `pip install -c constraints.txt -e '.[heic]'`"
    """
    return f"`pip install 'votestream[{extra}]'`, or in a checkout `pip install -c constraints.txt -e '.[{extra}]'`"
