"""Convolutions that clip their own output: what a ReLU6 behind them would read from memory and write back."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from votestream.backbones.networks.efficientnet_lite import PaddedConv


class ClippedConv(nn.Module):
    """A convolution and the ReLU6 behind it in one pass, by oneDNN."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv
        if isinstance(conv, PaddedConv):
            x = conv.padded(x)
        how = conv.padding, conv.stride, conv.dilation, conv.groups
        return torch.ops.mkldnn._convolution_pointwise(x, conv.weight, conv.bias, *how, "hardtanh", [0.0, 6.0], "")


def fuse_relu6(network: nn.Module, input_size: int) -> nn.Module:
    """Return a copy of a folded network in which convolutions do the work of the ReLU6 behind them.

    The operation is one that torch keeps for its own compiler: where this torch lacks it, or anything comes out
    otherwise, the network stays as it is.
    """
    fused = copy.deepcopy(network)
    found = False
    for part in [module for module in fused.modules() if isinstance(module, nn.Sequential)]:
        layers = list(part)
        kinds = [type(layer) for layer in layers]
        if len(layers) == 3 and isinstance(layers[0], nn.Conv2d) and kinds[1:] == [nn.Identity, nn.ReLU6]:
            part[0], part[2], found = ClippedConv(layers[0]), nn.Identity(), True
    if not found:
        return network
    probe = torch.randn(2, 3, input_size, input_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = network(probe)
        try:
            same = torch.allclose(fused(probe), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
        except (AttributeError, RuntimeError, TypeError):
            return network
    return fused if same else network
