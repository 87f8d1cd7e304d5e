"""Files and folders behind URLs (s3://, gs://, hf://, https://, ...), read and written by fsspec.

A redirect to another host is refused unless the URL is a `RedirectingUrl`: whoever runs a server could otherwise have
addresses read that only this computer reaches, and have photos learned that come from elsewhere.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeAlias, TypeGuard, cast

from votestream.common.extras import import_package

# Packages that are needed besides fsspec, where known.
PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs",
    "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp", "sftp": "paramiko", "ssh": "paramiko",
}  # fmt: skip


class Url(str):
    """A file or folder behind a URL, with the methods of `Path` that the readers of folders use.

    >>> Url("s3://shop/photos/oak.JPG").name, Url("s3://shop/photos/oak.JPG").suffix
    ('oak.JPG', '.JPG')
    """

    __slots__ = ()
    redirects = False  # whether redirects to other hosts are followed

    @property
    def name(self) -> str:
        return PurePosixPath(self).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self).suffix

    @property
    def parent(self) -> Url:
        return type(self)(self.rstrip("/").rpartition("/")[0])

    def __truediv__(self, name: str) -> Url:
        return type(self)(f"{self.rstrip('/')}/{name}")

    def exists(self) -> bool:
        system, path = _system(self)
        return bool(system.exists(path))

    def is_dir(self) -> bool:
        system, path = _system(self)
        return bool(system.isdir(path))

    def entries(self) -> list[tuple[Url, bool]]:
        """The entries of a folder in order of names, and whether each is a folder."""
        system, path = _system(self)
        system.invalidate_cache(path)  # photos may have come since it was listed last
        found = []
        for entry in system.ls(path, detail=True):
            name = entry["name"].rstrip("/")
            if name != path.rstrip("/"):  # some stores keep an empty file of the folder's name
                found.append((type(self)(system.unstrip_protocol(name)), entry["type"] == "directory"))
        return sorted(found)

    def matches(self) -> list[Url]:
        """The files that match a URL with * or ?, in order of names."""
        system, path = _system(self)
        return sorted(type(self)(system.unstrip_protocol(name)) for name in system.glob(path))

    def read_bytes(self) -> bytes:
        system, path = _system(self)
        return bytes(system.cat_file(path))

    def write_whole(self, content: bytes) -> None:
        """Write the file under another name, then move it: a reader finds all of it, or nothing."""
        system, path = _system(self)
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        partial = f"{path}.{secrets.token_hex(4)}.partial"
        system.pipe_file(partial, content)
        system.mv(partial, path)

    def state(self) -> str:
        """A text that differs once the file has changed, without reading the file."""
        system, path = _system(self)
        return str(system.ukey(path))


class RedirectingUrl(Url):
    """A URL on http:// or https:// whose redirects to other hosts are followed."""

    __slots__ = ()
    redirects = True


class RedirectRefused(OSError):
    """A server redirects to another host."""


Place: TypeAlias = "Path | Url"


def is_url(path: object) -> TypeGuard[str]:
    """Whether a path is a URL.

    >>> is_url("s3://shop/photos"), is_url("C:/photos"), is_url("photos//oak.jpg")
    (True, False, False)
    """
    return isinstance(path, str) and re.match(r"[A-Za-z][\w+.:-]+://", path) is not None


def as_place(path: str | os.PathLike[str], redirects: bool = False) -> Place:
    """A path, or a URL where it is one; with `redirects`, one whose redirects to other hosts are followed.

    >>> as_place("https://shop.example/photos", redirects=True).redirects
    True
    """
    if isinstance(path, Url):
        return path
    return (RedirectingUrl if redirects else Url)(path) if is_url(path) else Path(path)


def open_url(url: str) -> BinaryIO:
    """The file behind a URL, to be read."""
    system, path = _system(url)
    try:
        return cast("BinaryIO", system.open(path, "rb"))
    except FileNotFoundError as problem:
        if isinstance(problem.__cause__, RedirectRefused):  # fsspec makes one of the other
            raise problem.__cause__ from None
        raise


def _system(url: str) -> tuple[Any, str]:
    """The file system behind a URL and the path there."""
    fsspec = import_package("fsspec", f"reading {url}")
    options = {}
    if not getattr(url, "redirects", False):
        schemes = {part.partition("://")[0] for part in url.split("::")}
        options = {scheme: {"get_client": _staying_client} for scheme in ("http", "https") if scheme in schemes}
    try:
        system, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        protocol = url.partition("://")[0].rpartition("::")[2].lower()
        install = f": `pip install {PACKAGES[protocol]}`" if protocol in PACKAGES else f" ({error})"
        raise ImportError(f"Reading {url} needs a package that is not installed{install}.") from error
    return system, path


async def _staying_client(**options: Any) -> Any:
    """The HTTP session for fsspec, which does not leave the host of the URL."""
    aiohttp = import_package("aiohttp", "reading http:// and https://")
    watch = aiohttp.TraceConfig()
    watch.on_request_redirect.append(_check_redirect)
    return aiohttp.ClientSession(**{**options, "trace_configs": [*options.get("trace_configs", ()), watch]})


async def _check_redirect(session: Any, context: Any, redirect: Any) -> None:
    """Raise RedirectRefused where a redirect leaves the host; from http to https of one host is no other place."""
    here = redirect.url
    there = here.join(type(here)(redirect.response.headers.get("Location") or redirect.response.headers.get("URI", "")))
    same = (here.scheme, here.host, here.port) == (there.scheme, there.host, there.port)
    secured = here.host == there.host and (here.scheme, here.port, there.scheme, there.port) == (
        "http",
        80,
        "https",
        443,
    )
    if not (same or secured):
        redirect.response.close()
        raise RedirectRefused(
            f"it leads to another host, {there.origin() if there.host else there}: `votestream learn` goes there with "
            "--follow-redirects, Python with votestream.images.urls.RedirectingUrl"
        )
