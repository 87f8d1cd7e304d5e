"""One sample of a data set: the image and the label in a pair or in a dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from votestream.images.files import ImageBytes, ImageError

Pair: TypeAlias = "tuple[Any, Any]"
# Usual names of columns and keys, where their types do not decide.
IMAGE_NAMES = ("image", "img", "pixel_values", "jpg", "jpeg", "png", "webp", "photo", "picture")
LABEL_NAMES = ("label", "labels", "cls", "class", "target", "targets", "category")


class Columns(NamedTuple):
    """The columns or keys that the user named; None: to be found."""

    image: str | None = None
    label: str | None = None


ANY = Columns()


def pair_in(item: Any, name: str, columns: Columns = ANY) -> Pair:
    """The image and the label in a sample; both may be many, in a batch.

    >>> pair_in({"img": "oak.jpg", "label": 3, "id": 17}, "sample 0")
    ('oak.jpg', 3)
    >>> pair_in(("oak.jpg", 3, 17), "sample 0")
    Traceback (most recent call last):
    ...
    ValueError: sample 0 is a tuple of 3: it must be a pair (image, label), or a dict with one key for each
    """
    if isinstance(item, Mapping):
        image = chosen("image", columns.image, item, IMAGE_NAMES, name)
        label = chosen("label", columns.label, item, LABEL_NAMES, name)
        return as_image(item[image], name), item[label]
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return as_image(item[0], name), item[1]
    many = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
    raise ValueError(
        f"{name} is a {type(item).__name__}{many}: it must be a pair (image, label), or a dict with one key for each"
    )


def chosen(what: str, asked: str | None, there: Iterable[str], usual: Iterable[str], name: str) -> str:
    """The column or key of that name, or the one with a usual name."""
    known = list(there)
    if asked is not None:
        if asked not in known:
            raise ValueError(f"{name} has no column {asked!r}; it has {', '.join(map(str, known))}")
        return asked
    found = [key for key in usual if key in known]
    if len(found) == 1:
        return found[0]
    several = f"several may be the {what} ({', '.join(found)})" if found else f"none is known as the {what}"
    raise ValueError(
        f"of the columns of {name} ({', '.join(map(str, known))}) {several}: name it by "
        f"votestream.labelled_images(data, {what}=...)"
    )


def as_image(value: Any, name: str) -> Any:
    """The image in a form that other functions accept: encoded bytes, and dicts of bytes and path, get a name."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ImageBytes(bytes(value), name)
    if isinstance(value, Mapping) and {"bytes", "path"} & set(value):
        content, path = value.get("bytes"), value.get("path")
        if content is not None:
            return ImageBytes(bytes(content), f"{name} ({path})" if path else name)
        if path is None:
            raise ImageError(f"{name} has neither bytes nor a path.")
        return path
    return value


def named(label: Any, names: Sequence[str] | None, name: str) -> Any:
    """The label, by its class's name where the data set has names.

    >>> named(1, ["elm", "oak"], "sample 0"), named("oak", ["elm", "oak"], "sample 0"), named(1, None, "sample 0")
    ('oak', 'oak', 1)
    """
    if hasattr(label, "item") and getattr(label, "ndim", None) == 0:
        label = label.item()
    if label is None:
        raise ValueError(f"{name} has no label: leave such samples out")
    if names is None or isinstance(label, str):
        return label
    if isinstance(label, int) and 0 <= label < len(names):
        return names[label]
    raise ValueError(f"{name} has the label {label!r}, which is none of the {len(names)} classes: leave it out")
