"""EfficientNet-Lite (Tan and Le, 2019; the Lite variants, 2020): mobile blocks, ReLU6, no squeeze-and-excitation."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

# Channels, repeats, kernel and first stride of the stages of Lite0; the first and the last are never repeated more.
STAGES = ((16, 1, 3, 1), (24, 2, 3, 2), (40, 2, 5, 2), (80, 3, 3, 2), (112, 3, 5, 1), (192, 4, 5, 2), (320, 1, 3, 1))
SCALES = {"efficientnet_lite0": (1.0, 1.0), "efficientnet_lite1": (1.0, 1.1), "efficientnet_lite2": (1.1, 1.2)}
STEM, HEAD, EXPANSION = 32, 1280, 6


class PaddedConv(nn.Conv2d):
    """A convolution that pads as TensorFlow's "SAME": where the stride leaves an odd pixel over, at the end only."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        alike = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride, alike, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride[0] > 1:
            rows, columns = (self.kernel_size[0] - 2 + side % 2 for side in x.shape[2:])
            x = F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return super().forward(x)


def conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True) -> nn.Module:
    layers = [PaddedConv(inputs, outputs, kernel, stride, groups), nn.BatchNorm2d(outputs, eps=1e-3)]
    return nn.Sequential(*layers, *([nn.ReLU6(inplace=True)] if relu else []))


class Block(nn.Module):
    """Widen, filter each channel by itself, narrow; around it a shortcut where the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers = [conv_bn(inputs, wide, 1)] if expansion > 1 else []
        layers += [conv_bn(wide, wide, kernel, stride, groups=wide), conv_bn(wide, outputs, 1, relu=False)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.shortcut else self.layers(x)


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite 0, 1 or 2 without its classifier: (n, 3, height, width) to (n, 1280).

    Example:
        >>> import torch
        >>> network = EfficientNetLite("efficientnet_lite0").eval()
        >>> network(torch.zeros(1, 3, 64, 64)).shape
        torch.Size([1, 1280])
        >>> {name: tuple(each.shape[1:]) for name, each in network.maps(torch.zeros(1, 3, 64, 64)).items()}["5"]
        (112, 4, 4)
        >>> sum(p.numel() for p in network.parameters())  # 4.7 million with the classifier of 1,000 classes
        3371008
    """

    def __init__(self, name: str = "efficientnet_lite0") -> None:
        super().__init__()
        width, depth = SCALES[name]
        self.stem = conv_bn(3, STEM, 3, stride=2)
        self.stages = nn.ModuleList()
        inputs = STEM
        for number, (channels, repeats, kernel, stride) in enumerate(STAGES):
            outputs = _rounded(channels * width)
            if 0 < number < len(STAGES) - 1:
                repeats = math.ceil(repeats * depth)
            blocks = []
            for i in range(repeats):
                blocks.append(Block(inputs, outputs, kernel, stride if i == 0 else 1, EXPANSION if number else 1))
                inputs = outputs
            self.stages.append(nn.Sequential(*blocks))
        self.head = conv_bn(inputs, HEAD, 1)

    def maps(self, x: Tensor) -> dict[str, Tensor]:
        """What each stage makes of normalised images: "1" to "7", and "head"."""
        x = self.stem(x)
        made = {}
        for number, stage in enumerate(self.stages, 1):
            x = made[str(number)] = stage(x)
        return {**made, "head": self.head(x)}

    def forward(self, x: Tensor) -> Tensor:
        return self.maps(x)["head"].mean(dim=(2, 3))


def _rounded(channels: float) -> int:
    """To the nearest multiple of 8 that is not below nine tenths."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest
