"""Backbones from torchvision's classifiers, with the preprocessing their weights were made for."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from votestream.backbones.backbone import Backbone
from votestream.backbones.from_torch import from_module
from votestream.backbones.optional import BackboneUnavailable, import_torchvision
from votestream.backbones.registry import register_backbone
from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean


@register_backbone("torchvision:NAME")
def torchvision_backbone(
    model: str,
    *,
    weights: str | None = "DEFAULT",
    feature_scale: float = 1.0,
    device: str = "auto",
    batch_size: int | None = None,
) -> Backbone:
    """Make a torchvision classifier without its last layer, such as `"torchvision:resnet50"`.

    Args:
        weights: Which of torchvision's weights, such as `"IMAGENET1K_V1"`; `None` leaves them random.
        feature_scale: 1 leaves features as they come; see `Backbone.calibrate`.
    """
    who = f"the backbone 'torchvision:{model}'"
    import_torchvision(who)
    models = importlib.import_module("torchvision.models")
    names = models.list_models(module=models)
    if model not in names:
        raise ValueError(f"torchvision has no classifier {shown(model)}. {did_you_mean(model, names)}")
    known = models.get_model_weights(model)
    if weights is not None and weights not in known.__members__:
        raise ValueError(f"{model} has no weights {shown(weights)}. {did_you_mean(weights, known.__members__)}")
    chosen = known[weights or "DEFAULT"]
    how = chosen.transforms()
    return from_module(
        strip_head(_build(models, model, chosen if weights else None, who), len(chosen.meta["categories"])),
        input_size=how.crop_size[0],
        mean=tuple(how.mean),
        std=tuple(how.std),
        name=f"torchvision:{model}",
        shorter_side=how.resize_size[0],
        interpolation=how.interpolation.value,
        feature_scale=feature_scale,
        device=device,
        batch_size=batch_size,
    )


def _build(models: Any, model: str, weights: Any, who: str) -> nn.Module:
    try:
        return models.get_model(model, weights=weights)
    except OSError as error:
        raise BackboneUnavailable(
            f"{who} could not fetch its weights ({error}): download {weights.url} elsewhere "
            "and put the file into ~/.cache/torch/hub/checkpoints."
        ) from error


def strip_head(network: nn.Module, classes: int) -> nn.Module:
    """Remove the layer that scores the classes, so that its input becomes the output.

    Example:
        >>> strip_head(nn.Sequential(nn.Linear(8, 4), nn.Dropout(), nn.Linear(4, 1000)), classes=1000)
        Sequential(
          (0): Linear(in_features=8, out_features=4, bias=True)
          (1): Dropout(p=0.5, inplace=False)
          (2): Identity()
        )
    """
    heads = [
        name
        for name, module in network.named_modules()
        if (isinstance(module, nn.Linear) and module.out_features == classes)
        or (isinstance(module, nn.Conv2d) and module.out_channels == classes)  # SqueezeNet scores by convolution
    ]
    if not heads:
        raise ValueError(f"Found no layer with {classes} outputs to remove.")
    parent, _, leaf = heads[-1].rpartition(".")  # auxiliary classifiers come before the main one
    setattr(network.get_submodule(parent), leaf, nn.Identity())
    return network
