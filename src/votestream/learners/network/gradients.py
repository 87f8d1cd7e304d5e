"""Inner products of gradients of single images, or of groups of them, of many at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from votestream.learners.network.classifier import Classifier


def gradient_products(network: Classifier, images: Tensor, labels: Tensor, sums: Tensor | None = None) -> Tensor:
    """G · Gᵀ (n, n), where row i of G is the gradient of image i's cross-entropy alone, for all parameters.

    With `sums` (m, n) G is sums · G, the gradients of m weighted groups of images, and the products are (m, m).

    The network is to be in evaluation mode, so that images do not mix in batch norms. All images go forward and
    back once, as one batch: what a layer's weights get from one image follows from what went into the layer and
    from the gradient at what came out. Networks with other layers than convolutions, linear layers and batch norms, or
    with layers that see the batch reshaped, go through `torch.func`, which knows them all and is slower.
    """
    layers = [module for module in network.modules() if next(module.parameters(False), None) is not None]
    layers.remove(network)  # the head, which is plain algebra below
    if not all(map(_is_known, layers)):
        return _by_vmap(network, images, labels, sums)
    calls: list[tuple[nn.Module, Tensor, GradientEdge]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((layer, inputs[0].detach(), get_gradient_edge(output)))  # the edge outlives a ReLU in place

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        features = network.features(images)
    finally:
        for hook in hooks:
            hook.remove()
    if any(len(entered) != len(images) for _, entered, _ in calls):
        return _by_vmap(network, images, labels, sums)
    logits = F.linear(features, network.weight, network.bias)
    loss = F.cross_entropy(logits, labels, reduction="sum")
    edges = [get_gradient_edge(logits), *(edge for _, _, edge in calls)]
    at_logits, *deltas = torch.autograd.grad(loss, edges, allow_unused=True)
    with torch.no_grad():
        products = (at_logits @ at_logits.T) * (features @ features.T + 1)
        products = products if sums is None else sums @ products @ sums.T
        rows: dict[Tensor, Tensor] = {}
        for (layer, entered, _), delta in zip(calls, deltas, strict=True):
            if delta is None:  # what came out was not used
                continue
            for parameter, row in _rows(layer, entered, delta):
                row = row if sums is None else sums @ row
                rows[parameter] = rows[parameter] + row if parameter in rows else row  # a layer may be used twice
        for row in rows.values():
            products.addmm_(row, row.T)
    return products


def _is_known(layer: nn.Module) -> bool:
    if type(layer) is nn.Conv2d:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str) and layer.dilation == (1, 1)
    return type(layer) is nn.Linear or (type(layer) is nn.BatchNorm2d and layer.track_running_stats)


def _rows(layer: nn.Module, entered: Tensor, delta: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The layer's parameters and their gradients, a row for each image (n, parameters), in an order of its own."""
    n = len(delta)
    if isinstance(layer, nn.BatchNorm2d):
        mean, variance = layer.running_mean, layer.running_var
        assert mean is not None
        assert variance is not None
        standard = (entered - mean[:, None, None]) * (variance + layer.eps).rsqrt()[:, None, None]
        yield layer.weight, (delta * standard).sum((2, 3))
        yield layer.bias, delta.sum((2, 3))
        return
    if isinstance(layer, nn.Conv2d):
        assert not isinstance(layer.padding, str)
        (high, wide), (down, right), (above, beside) = layer.kernel_size, layer.stride, layer.padding
        windows = F.pad(entered, (beside, beside, above, above)).unfold(2, high, down).unfold(3, wide, right)
        windows = windows.unflatten(1, (layer.groups, -1)).permute(0, 1, 3, 4, 5, 6, 2)  # channels last: a fast copy
        entered = windows.reshape(n * layer.groups, windows.shape[2] * windows.shape[3], -1)
        delta = delta.reshape(n * layer.groups, -1, entered.shape[1])
    else:
        assert isinstance(layer, nn.Linear)
        entered, delta = entered.reshape(n, -1, layer.in_features), delta.reshape(n, -1, layer.out_features).mT
    assert isinstance(layer.weight, Tensor)
    yield layer.weight, torch.bmm(delta, entered).view(n, -1)
    if layer.bias is not None:
        yield layer.bias, delta.sum(2).view(n, -1)


def _by_vmap(network: Classifier, images: Tensor, labels: Tensor, sums: Tensor | None = None) -> Tensor:
    def loss(parameters: dict[str, Tensor], pixels: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(network, parameters, (pixels[None],)), label[None])

    parameters = {name: parameter.detach() for name, parameter in network.trained().items()}
    gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, network.pixels(images), labels)
    rows = torch.cat([gradient.flatten(1) for gradient in gradients.values()], 1)
    rows = rows if sums is None else sums @ rows
    return rows @ rows.T
