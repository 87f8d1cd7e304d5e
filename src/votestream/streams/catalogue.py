"""The data sets that are known by name: where they come from, where they lie, and on what terms."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from votestream.common.cache_folder import cache_folder
from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean


@dataclass(frozen=True)
class Archive:
    """A file to fetch, and the folder that unpacking it makes."""

    url: str
    md5: str
    bytes: int
    folder: str

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """What is known of a data set before any of it is here."""

    name: str
    title: str
    images: str
    classes: int
    archives: tuple[Archive, ...]
    terms: str
    citation: str


_KRIZHEVSKY = (
    "A. Krizhevsky. Learning Multiple Layers of Features from Tiny Images. "
    "Technical report, University of Toronto, 2009."
)
_CIFAR_TERMS = "no licence stated; the authors ask to be cited"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"

# CIFAR-10's md5 sum was compared with a copy of its official page; the others are the ones that public loaders check
# against.
SOURCES = {
    source.name: source
    for source in (
        Source(
            "cifar10",
            "CIFAR-10",
            "50,000 + 10,000 of 32 x 32",
            10,
            (
                Archive(
                    f"{_TORONTO}cifar-10-python.tar.gz",
                    "c58f30108f718f92721af3b95e74349a",
                    170_498_071,
                    "cifar-10-batches-py",
                ),
            ),
            _CIFAR_TERMS,
            _KRIZHEVSKY,
        ),
        Source(
            "cifar100",
            "CIFAR-100",
            "50,000 + 10,000 of 32 x 32",
            100,
            (
                Archive(
                    f"{_TORONTO}cifar-100-python.tar.gz",
                    "eb9058c3a382ffc7106e4002c42a8d85",
                    169_001_437,
                    "cifar-100-python",
                ),
            ),
            _CIFAR_TERMS,
            _KRIZHEVSKY,
        ),
        Source(
            "core50",
            "CORe50",
            "164,866 of 128 x 128",
            50,
            (
                Archive(
                    "http://bias.csr.unibo.it/maltoni/download/core50/core50_128x128.zip",
                    "745f3373fed08d69343f1058ee559e13",
                    5_892_103_007,
                    "core50_128x128",
                ),
                Archive(
                    "https://vlomonaco.github.io/core50/data/batches_filelists.zip",
                    "e3297508a8998ba0c99a83d6b36bde62",
                    45_418_248,
                    "batches_filelists",
                ),
            ),
            "CC BY 4.0",
            "V. Lomonaco, D. Maltoni. CORe50: a New Dataset and Benchmark for Continuous Object Recognition. "
            "Conference on Robot Learning, PMLR 78:17-26, 2017.",
        ),
        Source(
            "tiny-imagenet",
            "Tiny-ImageNet-200",
            "100,000 + 10,000 of 64 x 64",
            200,
            (
                Archive(
                    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                    "90528d7ca1a48142e341f4ef8d21d0de",
                    248_100_043,
                    "tiny-imagenet-200",
                ),
            ),
            "ImageNet's terms of access: non-commercial research and education",
            "Y. Le, X. Yang. Tiny ImageNet Visual Recognition Challenge. CS 231N, Stanford University, 2015.",
        ),
    )
}


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where data sets lie: the folder given, `VOTESTREAM_DATA`, or `data` in VoteStream's cache folder.

    Example:
        >>> data_folder("images").name
        'images'
    """
    if folder is not None:
        return Path(folder).expanduser()
    if given := os.environ.get("VOTESTREAM_DATA"):
        return Path(given).expanduser()
    return cache_folder() / "data"


def find_source(name: str) -> Source:
    """What is known under a name.

    Example:
        >>> find_source("cifar-100")
        Traceback (most recent call last):
        ...
        ValueError: There is no data set 'cifar-100' to fetch. Did you mean 'cifar100' or 'cifar10'?
    """
    if name in SOURCES:
        return SOURCES[name]
    raise ValueError(f"There is no data set {shown(name)} to fetch. {did_you_mean(name, SOURCES)}")


def missing(source: Source, data_dir: Path) -> list[Archive]:
    """Archives whose folder is not here."""
    return [archive for archive in source.archives if not (data_dir / archive.folder).is_dir()]


def fetch_again(name: str, folder: Path) -> str:
    """What to do about a folder in which something is missing or damaged.

    Example:
        >>> fetch_again("cifar10", Path("data/cifar-10-batches-py"))
        'run `votestream data get cifar10 --data-dir data`'
    """
    command = f"run `votestream data get {name} --data-dir {folder.parent}`"
    return f"delete {folder} and {command}" if folder.exists() else command


def how_to_get(source: Source, data_dir: Path) -> str:
    """How the missing folders come here, by command or by hand.

    Example:
        >>> print(how_to_get(SOURCES["cifar10"], Path("data")).partition(",")[0])
        `votestream data get cifar10 --data-dir data` fetches it
    """
    absent = missing(source, data_dir) or list(source.archives)
    by_hand = " and ".join(f"the folder {archive.folder} of {archive.url}" for archive in absent)
    return f"`votestream data get {source.name} --data-dir {data_dir}` fetches it, or put {by_hand} into {data_dir}"
