"""The class folders in a folder or URL: one rule for `votestream learn` and `folder:` streams."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from votestream.images.urls import Place, Url

P = TypeVar("P", Path, Url)

SUFFIXES = {
    ".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".heic", ".heif",
    ".ppm", ".pgm",
}  # fmt: skip
# Files that operating systems create in folders, besides those whose names begin with a dot.
LITTER = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir", "$recycle.bin"}
TRAIN = ("train", "training")
HELD_OUT = ("test", "testing", "val", "valid", "validation")  # the first that is there is the test part


@dataclass(frozen=True)
class Layout(Generic[P]):
    """Which folders are the classes.

    `root` holds them; `held_out` and `beside` lie next to it and are not to be learned. `doubt` is a sentence if
    the classes are probably one level deeper, perhaps in `instead`.
    """

    root: P
    classes: list[P]
    held_out: tuple[P, ...] = ()
    beside: tuple[P, ...] = ()
    doubt: str = ""
    instead: P | None = None


def layout_of(folder: P) -> Layout[P]:
    """Read the layout of a folder: classes, or `train` and `test` (`val`, ...) that hold them, or doubtful.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for path in ("train/cat/1.jpg", "train/dog/1.jpg", "test/cat/2.jpg"):
    ...         (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
    ...         (Path(name) / path).touch()
    ...     found = layout_of(Path(name))
    >>> found.root.name, [path.name for path in found.classes], [path.name for path in found.held_out]
    ('train', ['cat', 'dog'], ['test'])
    """
    tops = _folders_in(folder)
    inner = {top: _inner_folders(top) for top in tops}  # None where photos lie in it directly, as in a class
    train = [top for top in tops if inner[top] and top.name.lower() in TRAIN]
    held_out = sorted((top for top in tops if top.name.lower() in HELD_OUT), key=_preference)
    beside = tuple(top for top in tops if top not in train and top not in held_out)
    if len(train) == 1 and held_out and all(inner[top] is not None for top in beside):
        return Layout(train[0], _folders_in(train[0]), tuple(held_out), beside)
    plain = [top for top in tops if inner[top] is None]
    nested = {top: names for top, names in inner.items() if names}
    return Layout(folder, tops, doubt=_doubt(folder, plain, nested), instead=_likeliest(plain, nested))


def loose_files(folder: P) -> list[P]:
    """Files that lie in a folder itself, in order of names, without litter."""
    if isinstance(folder, Url):
        return [entry for entry, is_folder in folder.entries() if not is_folder and not is_litter(entry.name)]
    return sorted(path for path in folder.iterdir() if not is_litter(path.name) and not path.is_dir())


def by_label(classes: Iterable[P]) -> dict[str, list[P]]:
    """The folders of each class: two where one name was typed in two ways."""
    found: dict[str, list[P]] = {}
    for path in classes:
        found.setdefault(label_of(path), []).append(path)
    return found


def same_name(label: str) -> str:
    """A note for a class that has two folders."""
    return f"Two folders are called {label}, their letters composed in different ways: they count as one class."


def walk(folder: P, problems: list[str]) -> Iterator[P]:
    """Every file below a folder in order of names; folders that cannot be opened go to `problems`."""
    if isinstance(folder, Url):
        return _walk_url(folder, problems)
    # A link to a folder above would lead back to this folder, and to photos of other classes.
    been = {str(parent) for parent in folder.resolve().parents}

    def visit(folder: Path) -> Iterator[Path]:
        real = os.path.realpath(folder)
        if real in been:
            return
        been.add(real)
        try:
            entries = sorted(folder.iterdir())
        except OSError as problem:
            problems.append(f"{folder} cannot be opened: {problem.strerror}.")
            return
        for entry in entries:
            if is_litter(entry.name):
                continue
            if entry.is_dir():
                yield from visit(entry)
            else:
                yield entry

    return visit(folder)


def _walk_url(folder: Url, problems: list[str]) -> Iterator[Url]:
    try:
        entries = folder.entries()
    except OSError as problem:
        problems.append(f"{folder} cannot be opened: {problem.strerror or problem}.")
        return
    for entry, is_folder in entries:
        if not is_litter(entry.name):
            yield from _walk_url(entry, problems) if is_folder else (entry,)


def is_litter(name: str) -> bool:
    """Whether a file or folder is hidden, or one that an operating system created.

    >>> [is_litter(name) for name in (".DS_Store", "Thumbs.db", "oak.jpg")]
    [True, True, False]
    """
    return name.startswith(".") or name.lower() in LITTER


def label_of(folder: Place) -> str:
    """The folder's name, with accents composed: operating systems differ in how they store them.

    >>> label_of(Path("photos/Bu\\u0308che")) == label_of(Path("photos/B\\u00fcche"))
    True
    """
    name = os.path.basename(os.path.abspath(folder))
    return composed(os.fsencode(name).decode("utf-8", "replace"))


def composed(name: str) -> str:
    """A class's name with every accent in one letter (Unicode's NFC): the form in which names are compared."""
    return unicodedata.normalize("NFC", name)


def twins(labels: Iterable[object], known: Iterable[object]) -> list[tuple[str, str]]:
    """Names that differ from a known one, or from one before them, in capitals, spaces, hyphens or underscores only.

    >>> twins(["Plastic", "metal", "old_paper"], ["plastic", "metal", "Old Paper"])
    [('Plastic', 'plastic'), ('old_paper', 'Old Paper')]
    """
    there = [composed(str(name)) for name in known]
    seen, found = {_plain_name(name): name for name in there}, []
    for label in (composed(str(label)) for label in labels):
        other = seen.setdefault(_plain_name(label), label)
        if other != label and label not in there:
            found.append((label, other))
    return found


def _plain_name(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.casefold())).strip()


def some(names: Iterable[object], most: int = 10) -> str:
    """The first names, and how many more there are.

    >>> some(["oak", "elm"]), some(range(2000), most=3)
    ('oak, elm', '0, 1, 2 and 1,997 more')
    """
    named = list(map(str, names))
    return ", ".join(named[:most]) + (f" and {len(named) - most:,} more" if len(named) > most else "")


def _folders_in(folder: P) -> list[P]:
    """The folders in a folder in order of names, without system files and links to folders above."""
    if isinstance(folder, Url):
        return [entry for entry, is_folder in folder.entries() if is_folder and not is_litter(entry.name)]
    above = {os.path.realpath(folder), *map(str, folder.resolve().parents)}
    found = (path for path in folder.iterdir() if not is_litter(path.name) and path.is_dir())
    return sorted(path for path in found if os.path.realpath(path) not in above)


def _inner_folders(folder: Place) -> list[str] | None:
    """Names of the folders in a folder; None where a photo lies in it directly."""
    names = []
    try:
        for name, is_folder in _names_in(folder):
            if is_litter(name):
                continue
            if is_folder:
                names.append(composed(name))
            elif Path(name).suffix.lower() in SUFFIXES:
                return None
    except OSError:
        return []  # the caller reads it and reports the error
    return sorted(names)


def _names_in(folder: Place) -> Iterator[tuple[str, bool]]:
    """Name of each entry of a folder, and whether it is a folder."""
    if isinstance(folder, Url):
        yield from ((entry.name, is_folder) for entry, is_folder in folder.entries())
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir()


def _preference(top: Place) -> int:
    return HELD_OUT.index(top.name.lower())


def _doubt(folder: P, plain: list[P], nested: dict[P, list[str]]) -> str:
    """Why the folders in a folder are probably not the classes; empty if they probably are.

    Folders within a class are nothing odd in themselves: people sort by date or camera. `CLASS/images/` is usual too.
    """
    parts = [top for top in (*plain, *nested) if top.name.lower() in TRAIN + HELD_OUT]
    if plain:
        classes = set(map(label_of, plain))
        for top, names in nested.items():
            if both := [name for name in names if name in classes]:
                return f"{top} holds no photo itself, but folders called {some(both, 3)}, as are the classes beside it."
        if len(parts) == len(plain) + len(nested) > 1:
            return f"{folder} holds nothing but {some(map(label_of, parts))}, and photos lie in them directly."
        return ""
    deeper = Counter(name for names in nested.values() for name in names)
    again = [name for name, times in deeper.items() if times > 1]
    if len(deeper) > 1 and again:
        outer = some(map(label_of, nested), 5)
        return (
            f"{folder} holds folders of folders ({outer}), and several of these hold folders called {some(again, 3)}."
        )
    if parts or (len(deeper) > 1 and (len(nested) == 1 or _numbered(list(nested)))):
        inner = (f"{label_of(top)}/{name}" for top, names in nested.items() for name in names)
        return f"{folder} holds folders of folders ({some(inner, 5)}), and no photo a level above these."
    return ""


def _numbered(tops: list[P]) -> bool:
    """Whether the names are one word with numbers: round1, round2, round3."""
    stems = {re.sub(r"[\s_.-]*\d+$", "", top.name) if top.name[-1].isdigit() else None for top in tops}
    return len(tops) > 1 and len(stems) == 1 and None not in stems


def _likeliest(plain: list[P], nested: dict[P, list[str]]) -> P | None:
    """The folder whose folders are most likely the classes."""
    train = [top for top in nested if top.name.lower() in TRAIN]
    others = [] if plain else [top for top in nested if top.name.lower() not in HELD_OUT] or list(nested)
    return next(iter(train + others), None)
