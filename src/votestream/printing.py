"""Text from outside (file names, servers, files) made safe to print."""

from __future__ import annotations


def shown(text: object) -> str:
    """Text that is safe to print: names may hold line ends, escape codes and bytes that are no text.

    >>> shown("oak\\x1b[2J.jpg")
    'oak?[2J.jpg'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))
