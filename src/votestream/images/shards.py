"""WebDataset shards: .tar files in which the files of a sample stand together, as 017.jpg and 017.cls or 017.json."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from votestream.images.class_folders import SUFFIXES
from votestream.images.files import ImageError, open_image
from votestream.images.pairs import LABEL_NAMES, Columns, Pair, as_image
from votestream.images.urls import Place

LARGEST = 1 << 28  # bytes of one file in a shard; a header can claim any size


def pairs_of_shard(path: Place, columns: Columns) -> Iterator[Pair]:
    """The images and labels of a shard, read from its beginning to its end."""
    try:
        with open_image(path) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
            sample: dict[str, Any] = {}
            for member in archive:
                archive.members = []  # type: ignore[attr-defined]  # the list of all that was read, which would grow
                if not member.isfile() or member.name.rpartition("/")[2].startswith("."):
                    continue
                folder, _, last = member.name.rpartition("/")
                stem, _, extension = last.partition(".")
                key = f"{folder}/{stem}" if folder else stem
                if sample and sample["__key__"] != key:
                    yield pair_in_shard_sample(sample, columns)
                    sample = {}
                if member.size > LARGEST:
                    raise ImageError(f"{path}: {member.name} has {member.size:,} bytes, more than {LARGEST:,}.")
                content = archive.extractfile(member)
                assert content is not None  # it is a file
                sample |= {"__key__": key, "__url__": str(path), extension.lower(): content.read()}
            if sample:
                yield pair_in_shard_sample(sample, columns)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ImageError(f"{path} cannot be read as a tar archive: {error}.") from error


def is_shard_sample(item: Any) -> bool:
    """Whether a sample is a dict as the package webdataset makes them."""
    return isinstance(item, Mapping) and "__key__" in item


def pair_in_shard_sample(sample: Mapping[str, Any], columns: Columns) -> Pair:
    """The image and the label of one sample: by their extensions, or as named.

    >>> pair_in_shard_sample({"__key__": "17", "jpg": b"...", "cls": b"3"}, Columns())
    (ImageBytes(name='17.jpg'), 3)
    """
    name = str(sample["__key__"])
    if "__url__" in sample:
        name = f"{sample['__url__']}: {name}"
    there = [key for key in sample if not key.startswith("__")]
    image = columns.image or next((key for key in there if f".{key.rpartition('.')[2]}" in SUFFIXES), None)
    if image is None or image not in sample:
        raise ValueError(f"{name} has no image: its files end in {', '.join(there)}")
    return as_image(sample[image], f"{name}.{image}"), _label(sample, name, there, columns.label)


def _label(sample: Mapping[str, Any], name: str, there: list[str], asked: str | None) -> Any:
    """The content of the file .cls, or of `label` (`cls`, `class`, ...) in .json."""
    if asked is not None and asked in sample:
        return _value(sample[asked])
    if asked is None and "cls" in sample:
        return _value(sample["cls"])
    if "json" in sample:
        about = sample["json"]
        try:
            about = json.loads(about) if isinstance(about, (bytes, str)) else about
        except ValueError as error:
            raise ValueError(f"{name}.json is no JSON: {error}") from None
        keys = [key for key in ([asked] if asked else LABEL_NAMES) if isinstance(about, dict) and key in about]
        if keys:
            return about[keys[0]]
    wanted = f"named {asked!r}" if asked else "in a file .cls, or in a file .json under `label`"
    raise ValueError(f"{name} has no label {wanted}: its files end in {', '.join(there)}")


def _value(content: Any) -> Any:
    """A whole number where the text is one."""
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    if not isinstance(text, str):
        return text
    text = text.strip()
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() else text
