"""Folding batch norms changes speed, never features."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from votestream.backbones.networks.folding import fold_batch_norms
from votestream.backbones.networks.resnet import ReducedResNet18

from .samples import shuffle_batch_norms


def norms(network: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


class UsedTwice(nn.Module):
    """The convolution's output goes into the batch norm and past it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return self.norm(x) + x


class Shared(nn.Module):
    """One convolution in front of two batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.first, self.second = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.conv(self.first(self.conv(x))))


@pytest.mark.parametrize(
    ("network", "left"),
    [
        (ReducedResNet18(), 0),
        (nn.Sequential(nn.Conv2d(3, 6, 3, bias=True, groups=3), nn.BatchNorm2d(6, eps=0.1)), 0),
        (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)), 1),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4)), 1),
        (UsedTwice(), 1),
        (Shared(), 2),
        (nn.Sequential(Shared(), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), 2),
    ],
)
def test_folded_equals_unfolded(network: nn.Module, left: int) -> None:
    shuffle_batch_norms(network).eval()
    before = norms(network)
    folded = fold_batch_norms(network, 16)
    x = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        torch.testing.assert_close(folded(x), network(x), atol=1e-5, rtol=1e-4)
    assert norms(folded) == left
    assert norms(network) == before


def test_a_network_without_batch_norms_is_not_run_at_all() -> None:
    class Never(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("it was run")

    network = Never()
    assert fold_batch_norms(network, 8) is network
