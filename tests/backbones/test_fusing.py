"""Convolutions that clip for themselves give what the ReLU6 behind them gave."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from votestream.backbones import from_module
from votestream.backbones.networks import fusing
from votestream.backbones.networks.efficientnet_lite import conv_bn
from votestream.backbones.networks.folding import fold_batch_norms
from votestream.backbones.networks.fusing import ClippedConv, fuse_relu6

from .samples import random_images, shuffle_batch_norms


def folded() -> nn.Module:
    torch.manual_seed(0)
    layers = conv_bn(3, 8, 1), conv_bn(8, 8, 5, stride=2, groups=8), conv_bn(8, 4, 1, relu=False)
    return fold_batch_norms(shuffle_batch_norms(nn.Sequential(*layers)).eval(), 8)


def fused_convs(network: nn.Module) -> int:
    return sum(isinstance(module, ClippedConv) for module in network.modules())


@pytest.mark.parametrize("side", [8, 9])
def test_fused_equals_unfused(side: int) -> None:
    network = folded()
    fused = fuse_relu6(network, 8)
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    assert fused_convs(fused) == 2
    x = 20 * torch.randn(2, 3, side, side)  # some of it is above 6
    with torch.inference_mode():
        torch.testing.assert_close(fused(x), network(x), rtol=1e-4, atol=1e-4)


def test_without_the_operation_the_network_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: ClippedConv, x: torch.Tensor) -> torch.Tensor:
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_convolution_pointwise'")

    monkeypatch.setattr(fusing.ClippedConv, "forward", missing)
    network = folded()
    assert fuse_relu6(network, 8) is network


def test_a_fusion_that_changes_the_outputs_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusing.ClippedConv, "forward", lambda self, x: self.conv(x))
    network = folded()
    assert fuse_relu6(network, 8) is network


def test_a_backbone_on_a_cpu_is_fused_and_its_trainable_network_is_not() -> None:
    torch.manual_seed(0)
    backbone = from_module(shuffle_batch_norms(nn.Sequential(conv_bn(3, 8, 3))), input_size=8, device="cpu")
    assert isinstance(backbone._network, nn.Module)
    assert fused_convs(backbone._network) == int(torch.backends.mkldnn.is_available())
    assert fused_convs(backbone.trainable()) == 0
    assert backbone(random_images(2, 8, 8)).max() <= 6
