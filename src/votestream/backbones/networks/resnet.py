"""The narrow ResNet-18 of the online continual learning papers, as a feature extractor."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al., 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ReducedResNet18(nn.Module):
    """ResNet-18 with 20 base filters and a 3x3 stem: 1.1 million weights, 160 features.

    This is the backbone of GEM (Lopez-Paz and Ranzato, 2017) and A-GEM (Chaudhry et al., 2019) without its
    classifier. It is made for 32 x 32 images, so the stem neither strides nor pools; the features are averages
    over the last map, so other sizes work too.

    Args:
        width: Filters of the first stage; each of the three following stages doubles them.

    Example:
        >>> import torch
        >>> net = ReducedResNet18().eval()
        >>> net(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 160])
        >>> sum(p.numel() for p in net.parameters())
        1093140
    """

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        self.num_features = 8 * width
        self.conv = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        blocks = []
        inputs = width
        for stage in range(4):
            outputs = width << stage
            blocks += [BasicBlock(inputs, outputs, 2 if stage else 1), BasicBlock(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)

    def maps(self, x: Tensor) -> dict[str, Tensor]:
        """What each stage makes of normalised float images (n, 3, height, width): "1" to "4"."""
        x = torch.relu(self.bn(self.conv(x)))
        made = {}
        for number, block in enumerate(self.blocks):
            x = made[str(1 + number // 2)] = block(x)  # of two blocks in a stage the second stays
        return made

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, 160) of normalised float images (n, 3, height, width)."""
        return self.maps(x)["4"].mean(dim=(2, 3))
