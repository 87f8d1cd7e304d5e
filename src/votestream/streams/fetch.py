"""Fetching a file over HTTP: goes on where it was interrupted, and is believed only by its length and checksum."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from votestream.common.printing import shown
from votestream.common.progress import note
from votestream.streams.data_set import DataError
from votestream.streams.patient_http import open_url

_PIECE = 1 << 20


def fetch(
    url: str,
    path: Path,
    md5: str,
    size: int,
    *,
    tries: int = 3,
    told: Callable[[int, int | None], None] = lambda done, total: None,
) -> Path:
    """Bring `url` to `path`, which exists only once it is complete and its md5 is right.

    What has come so far is kept beside it as `NAME.part`, for the next call to go on from; a file whose checksum
    is wrong, or that is longer than it should be, is deleted. A server that stalls or drips counts as a broken
    connection.

    Args:
        size: The published file's length in bytes: not a byte more than one beyond it is taken.
        tries: How often a connection may break before this gives up.
        told: Is told the bytes that are here, and all there will be where the server says so.
    """
    part = path.with_name(f"{path.name}.part")
    for left in reversed(range(tries)):
        whole = not part.exists()  # whether this attempt begins at the first byte
        try:
            _go_on(url, part, size, told)
        except urllib.error.HTTPError as error:
            error.close()
            reason = shown(error.reason)
            raise DataError(f"{url} cannot be fetched: the server answers {error.code} {reason}.") from error
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: headers that make no sense
            if left == 0:
                kept = f" {part} keeps what has come; the same command goes on from there." if part.exists() else ""
                raise DataError(f"{url} cannot be fetched: {_why(error)}.{kept}") from error
            note(f"The connection broke ({_why(error)}); going on.")
            continue
        if part.stat().st_size > size:
            wrong = f"it is longer than {size:,} bytes"
        elif (found := md5_of(part)) != md5:
            wrong = f"its md5 is {found}, not {md5}"
        else:
            os.replace(part, path)
            return path
        part.unlink()
        if whole:
            raise DataError(
                f"What came from {url} is not the published file: {wrong}. It was deleted. "
                "Something on the way may have replaced it (a login page?), or the file was changed at its source."
            )
        note("What had come earlier does not fit the rest; starting over.")
    raise DataError(f"{url} came damaged {tries} times; what came was deleted. Try again on another connection.")


def _go_on(url: str, part: Path, size: int, told: Callable[[int, int | None], None]) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "votestream"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = open_url(request)
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # nothing after what is here: the checksum decides
            error.close()
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        done = file.tell()
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else None
        told(done, total)
        while done <= size and (piece := answer.read1(min(_PIECE, size + 1 - done))):
            file.write(piece)
            done += len(piece)
            told(done, total)
    if total is not None and done < min(total, size):
        raise ConnectionError(f"it ended after {done:,} of {total:,} bytes")


def md5_of(path: Path) -> str:
    """md5 of a file's contents, as official pages give it.

    Example:
        >>> _ = Path("a").write_bytes(b"abc")
        >>> md5_of(Path("a"))
        '900150983cd24fb0d6963f7d28e17f72'
    """
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return shown(getattr(reason, "strerror", None) or reason or type(error).__name__).rstrip(".")[:300]
