"""torch's Dataset and DataLoader as pairs of image and label; torch is not imported for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from votestream.images.hugging_face import is_hugging_face, names_of_hugging_face
from votestream.images.pairs import Columns, Pair, named, pair_in
from votestream.images.shards import is_shard_sample, pair_in_shard_sample


def is_torch_data(thing: Any) -> bool:
    """Whether this is a torch Dataset or DataLoader; without importing torch."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(thing, (data.Dataset, data.DataLoader))


def pairs_of_torch(source: Any, columns: Columns) -> Iterator[Pair]:
    """Images and labels; labels are class names if the data set has names."""
    from torch.utils.data import ConcatDataset, DataLoader

    if isinstance(source, DataLoader):
        names = class_names(source.dataset)
        for number, item in enumerate(_samples(source, source.batch_sampler is not None, columns)):
            image, label = item
            yield image, named(label, names, f"sample {number} of the DataLoader")
    elif isinstance(source, ConcatDataset):
        for part in source.datasets:
            yield from pairs_of_torch(part, columns)
    else:
        names = class_names(source)
        kind = type(source).__name__
        items = (source[i] for i in range(len(source))) if _has_length(source) else iter(source)
        for number, item in enumerate(items):
            image, label = _pair(item, f"sample {number} of the {kind}", columns)
            yield image, named(label, names, f"sample {number} of the {kind}")


def class_names(dataset: Any) -> list[str] | None:
    """The names of a data set's class numbers, if it has names (`classes` in torchvision) and nothing changes them."""
    from torch.utils.data import ConcatDataset, Subset

    if isinstance(dataset, Subset):
        return class_names(dataset.dataset)
    if is_hugging_face(dataset):
        return names_of_hugging_face(dataset)
    if isinstance(dataset, ConcatDataset):
        first, *others = map(class_names, dataset.datasets)
        if any(names != first for names in others):
            raise ValueError(
                "the data sets behind the DataLoader number their classes in different ways: learn them one after "
                "another, or give them a target_transform that makes labels of their names"
            )
        return first
    names = getattr(dataset, "classes", None)
    if not isinstance(names, (list, tuple)) or getattr(dataset, "target_transform", None) is not None:
        return None
    return list(names) if names and all(isinstance(name, str) for name in names) else None


def _samples(loader: Iterable[Any], in_batches: bool, columns: Columns) -> Iterator[Pair]:
    for number, item in enumerate(loader):
        if not in_batches:
            yield _pair(item, f"sample {number} of the DataLoader", columns)
            continue
        images, labels = pair_in(item, f"batch {number} of the DataLoader", columns)
        labels = labels.tolist() if hasattr(labels, "tolist") else labels
        if len(images) != len(labels):
            raise ValueError(
                f"batch {number} of the DataLoader has {len(images)} images, but {len(labels)} labels: its items must "
                "be pairs (images, labels)"
            )
        yield from zip(images, labels, strict=True)


def _pair(item: Any, name: str, columns: Columns) -> Pair:
    if is_shard_sample(item):
        return pair_in_shard_sample(item, columns)
    return pair_in(item, name, columns)


def _has_length(dataset: Any) -> bool:
    """Whether it is indexed; IterableDatasets are not."""
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
