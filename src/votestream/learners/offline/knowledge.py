"""The state of an offline learner after a task: its network and the images it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from votestream.io.array_checks import MANY, demand, take, take_classes, take_number
from votestream.io.model_files import joined, part_of
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.network_memory import QUERIES
from votestream.memory.herding import herd
from votestream.memory.image_memory import to_device

TakeOwn = Callable[[dict[str, NDArray[Any]], "Knowledge"], dict[str, NDArray[Any]]]
LabelledImages = tuple[Tensor, Tensor]  # uint8 (n, size, size, 3) and class numbers, on the device


@dataclass(frozen=True)
class Knowledge:
    """It is never changed: the next task makes another one, and has this one's network as teacher."""

    network: Classifier  # in evaluation mode
    exemplars: LabelledImages  # class by class, the most wanted first
    heads: list[int] = field(default_factory=list)  # classes known after each task that brought new ones
    tasks: int = 0  # learned so far
    own: dict[str, Tensor] = field(default_factory=dict)  # a method's own

    @property
    def n_classes(self) -> int:
        return len(self.network.weight)

    def state(self) -> dict[str, NDArray[Any]]:
        images, labels = self.exemplars
        parts = {
            "network": self.network.state_dict(),
            "exemplars": {"images": images, "labels": labels},
            "more": self.own,
        }
        arrays = {part: {name: each.cpu().numpy() for name, each in own.items()} for part, own in parts.items()}
        return {"heads": np.array(self.heads, np.int64), "tasks": np.array(self.tasks), **joined(arrays)}

    def restored(self, state: dict[str, NDArray[Any]], most: int, take_own: TakeOwn) -> Knowledge:
        """What `state` was taken of; self has the same backbone and has learned nothing. At most `most` classes."""
        device = self.network.weight.device
        heads = take(state, "heads", np.int64, (None,), 1, most)
        demand(bool((np.diff(heads) > 0).all()), "each task that is in 'heads' must have brought new classes")
        n_classes = int(heads[-1]) if len(heads) else 0
        tasks = take_number(state, "tasks", low=len(heads), high=MANY if len(heads) else 0)
        self.network.restore(part_of(state, "network"), n_classes)
        exemplars = part_of(state, "exemplars")
        labels = take_classes(exemplars, "labels", None, n_classes)
        images = take(exemplars, "images", np.uint8, (len(labels), *self.exemplars[0].shape[1:]))
        known = Knowledge(self.network, (to_device(images, device), to_device(labels, device)), heads.tolist(), tasks)
        own = take_own(part_of(state, "more"), known) if n_classes else {}
        return replace(known, own={name: to_device(array, device) for name, array in own.items()})


def no_images(size: int, device: torch.device) -> LabelledImages:
    return (
        torch.empty((0, size, size, 3), dtype=torch.uint8, device=device),
        torch.empty(0, dtype=torch.int64, device=device),
    )


def both(one: LabelledImages, other: LabelledImages) -> LabelledImages:
    return torch.cat((one[0], other[0])), torch.cat((one[1], other[1]))


def absent_classes(before: Knowledge, new: LabelledImages) -> Tensor:
    """Known classes absent from the new data; these are distilled.

    In tasks of new classes these are all classes before them. Where known ones come back, their labels count.
    """
    known = torch.arange(before.n_classes, device=new[1].device)
    return known[~torch.isin(known, new[1])]


def select(network: Classifier, kept: LabelledImages, new: LabelledImages, quota: int) -> LabelledImages:
    """At most `quota` exemplars a class, by herding; classes without new images drop those chosen last."""
    device, parts = kept[1].device, []
    olds, news = kept[1].cpu(), new[1].cpu()
    for number in range(len(network.weight)):
        own, fresh = ((each == number).nonzero()[:, 0].to(device) for each in (olds, news))
        pool = torch.cat((kept[0][own], new[0][fresh]))
        if quota and len(fresh):
            pool = pool[herd(unit_features(network, pool), quota)]
        parts.append(pool[:quota])
    counts = torch.tensor([len(part) for part in parts])
    return torch.cat(parts), torch.arange(len(parts)).repeat_interleave(counts).to(device)


def unit_features(network: Classifier, images: Tensor) -> Tensor:
    """φ(x) / |φ(x)|, in evaluation mode, (n, D)."""
    with torch.no_grad():
        n = QUERIES.get(images.device.type, 64)
        return torch.cat([F.normalize(network.features(part)) for part in images.split(n)])
