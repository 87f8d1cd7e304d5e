"""Folding batch norms into the convolutions before them: the same features, fewer passes over memory."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


def fold_batch_norms(network: nn.Module, input_size: int) -> nn.Module:
    """Return a copy of an eval-mode network without the batch norms that directly follow a convolution.

    Which ones do is seen in a dry run, so networks need not be traceable. A dry run cannot see everything
    (a convolution whose output is also used elsewhere): the copy is kept only if it gives the same outputs.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
        >>> fold_batch_norms(network, input_size=8)
        Sequential(
          (0): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))
          (1): Identity()
          (2): ReLU()
        )
    """
    if not any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        return network  # a large transformer need not be run for it
    probe = torch.randn(2, 3, input_size, input_size, generator=torch.Generator().manual_seed(0))
    folded = copy.deepcopy(network)
    with torch.inference_mode():
        wanted = network(probe)
    if not isinstance(wanted, Tensor):
        return network
    for conv, norm_name in _pairs(folded, probe):
        _fold(conv, folded.get_submodule(norm_name))
        parent, _, leaf = norm_name.rpartition(".")
        setattr(folded.get_submodule(parent), leaf, nn.Identity())
    with torch.inference_mode():
        same = torch.allclose(folded(probe), wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))
    return folded if same else network


def _pairs(network: nn.Module, probe: Tensor) -> list[tuple[nn.Conv2d, str]]:
    """Convolutions whose output goes into a batch norm, each with that batch norm's name."""
    made_by: dict[int, nn.Conv2d] = {}
    kept: list[Tensor] = []  # outputs stay alive during the run, so that no two share an id
    pairs: list[tuple[nn.Conv2d, str]] = []
    calls: dict[nn.Module, int] = {}

    def after_conv(module: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(module, nn.Conv2d)
        calls[module] = calls.get(module, 0) + 1
        made_by[id(output)] = module
        kept.append(output)

    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(after_conv))
        # Exactly this class: subclasses do more, such as an activation, which would be lost.
        elif type(module) is nn.BatchNorm2d and module.running_mean is not None:

            def before_norm(module: nn.Module, inputs: tuple[Tensor, ...], name: str = name) -> None:
                calls[module] = calls.get(module, 0) + 1
                if id(inputs[0]) in made_by:
                    pairs.append((made_by[id(inputs[0])], name))

            hooks.append(module.register_forward_pre_hook(before_norm))
    try:
        with torch.inference_mode():
            network(probe)
    finally:
        for hook in hooks:
            hook.remove()
    return [(conv, name) for conv, name in pairs if calls[conv] == 1 and calls[network.get_submodule(name)] == 1]


def _fold(conv: nn.Conv2d, norm: nn.Module) -> None:
    """Put a batch norm's scale and shift into a convolution, in float64 so that rounding happens once."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    shift = -norm.running_mean.double() * scale
    if norm.bias is not None:
        shift = shift + norm.bias.double()
    if conv.bias is not None:
        shift = shift + conv.bias.double() * scale
    weight = conv.weight.double() * scale.view(-1, 1, 1, 1)
    conv.weight = nn.Parameter(weight.to(conv.weight.dtype).detach(), requires_grad=False)
    conv.bias = nn.Parameter(shift.to(conv.weight.dtype).detach(), requires_grad=False)
