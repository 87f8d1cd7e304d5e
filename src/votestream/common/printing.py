"""What is printed: text from outside (file names, servers, files) made safe, and numbers as people read them."""

from __future__ import annotations


def shown(text: object) -> str:
    """Text that is safe to print: names may hold line ends, escape codes and bytes that are no text.

    >>> shown("oak\\x1b[2J.jpg")
    'oak?[2J.jpg'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def size(count: int) -> str:
    """A number of bytes as people read it.

    >>> size(32_000_128)
    '32.0 MB'
    """
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count} bytes"
