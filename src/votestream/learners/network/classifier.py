"""The network that the learners on images train: a backbone's, with a linear head that grows."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from votestream.backbones import Backbone
from votestream.io.array_checks import TRAINED, take

# How images lie in memory. On 2 CPU cores steps are 1.4 times as fast with the channels last
# (`benchmarks/rivals_speed.py --layout` compares).
LAYOUT = {"cpu": torch.channels_last, "cuda": torch.channels_last}


class Classifier(nn.Module):
    """Logits of every class so far for uint8 images (n, size, size, 3): a backbone's network and a linear head.

    Everything in it can be trained; it is a copy, and the backbone stays as it is.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, backbone: Backbone, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self._layout = LAYOUT.get(torch.device(device).type, torch.contiguous_format)
        self.body = backbone.trainable().to(memory_format=self._layout)  # type: ignore[call-overload]
        self.weight = nn.Parameter(torch.empty(0, backbone.feature_dim))
        self.bias = nn.Parameter(torch.empty(0))
        how = backbone.preprocessing
        mean, std = torch.tensor(how.mean).view(1, 3, 1, 1), torch.tensor(how.std).view(1, 3, 1, 1)
        self.register_buffer("scale", 1 / (255 * std), persistent=False)
        self.register_buffer("shift", mean / std, persistent=False)
        self._trained: dict[str, Tensor] = {}
        self.to(device)

    def pixels(self, images: Tensor) -> Tensor:
        """The images normalised (n, 3, size, size), as the backbone's network takes them; such pass unchanged."""
        if images.is_floating_point():
            return images
        return images.permute(0, 3, 1, 2).to(torch.float32, memory_format=self._layout) * self.scale - self.shift

    def features(self, images: Tensor) -> Tensor:
        """(n, D), what the head takes; of images, or of their `pixels`."""
        output = self.body(self.pixels(images))
        found: Tensor = output.mean(dim=(2, 3)) if output.ndim == 4 else output
        return found

    def forward(self, images: Tensor) -> Tensor:
        return F.linear(self.features(images), self.weight, self.bias)

    def trained(self) -> dict[str, Tensor]:
        """Every parameter by name; listed once, since walking through the modules takes a part of a step's time."""
        self._trained = self._trained or dict(self.named_parameters())
        return self._trained

    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        """Rows for new classes, drawn as a linear layer's: uniform in ±1/sqrt(D). Those there stay as they are."""
        (known, width), device = self.weight.shape, self.weight.device
        new = (2 * torch.rand(n_classes - known, width + 1, generator=generator) - 1) * width**-0.5
        new = new.to(device)
        self.weight = nn.Parameter(torch.cat((self.weight.detach(), new[:, :width])))
        self.bias = nn.Parameter(torch.cat((self.bias.detach(), new[:, width])))
        self._trained = {}

    def restore(self, state: dict[str, NDArray[Any]], n_classes: int) -> None:
        """A file's `state_dict`, of a network that has learned `n_classes` classes; this one has learned none."""
        wanted = self.state_dict()
        checked = {}
        for name, tensor in wanted.items():
            shape = (n_classes, *tensor.shape[1:]) if name in ("weight", "bias") else tuple(tensor.shape)
            kind = torch.empty(0, dtype=tensor.dtype).numpy().dtype
            bounds = (0, TRAINED**2) if name.endswith("running_var") else (-TRAINED, TRAINED)
            checked[name] = torch.from_numpy(take(state, name, kind, shape, *bounds))
        self.grow(n_classes, torch.Generator())
        self.load_state_dict(checked)
