"""Backbones from timm, with the preprocessing their weights were made for."""

from __future__ import annotations

from votestream.backbones.backbone import Backbone
from votestream.backbones.from_torch import from_module
from votestream.backbones.optional import BackboneUnavailable, import_torchvision
from votestream.backbones.registry import register_backbone
from votestream.common.extras import import_package, install_extra
from votestream.common.parameters import shown
from votestream.common.suggestions import did_you_mean


@register_backbone("timm:NAME")
def timm_backbone(
    model: str,
    *,
    pretrained: bool = True,
    feature_scale: float = 1.0,
    device: str = "auto",
    batch_size: int | None = None,
) -> Backbone:
    """Make a timm model without its classifier, such as `"timm:resnet50.a1_in1k"`.

    Args:
        pretrained: Fetch its weights; otherwise they are random.
        feature_scale: 1 leaves features as they come; see `Backbone.calibrate`.
    """
    who = f"the backbone 'timm:{model}'"
    import_torchvision(who)  # timm imports it, and its own error explains less
    timm = import_package("timm", who, install_extra("timm"), BackboneUnavailable)
    if not timm.is_model(model):
        raise ValueError(f"timm has no model {shown(model)}. {did_you_mean(model, timm.list_models())}")
    network = timm.create_model(model, pretrained=pretrained, num_classes=0)
    how = timm.data.resolve_model_data_config(network)
    channels, height, width = how["input_size"]
    modes = {"center": "crop", "squash": "squash"}
    if channels != 3 or height != width or how["crop_mode"] not in modes:
        raise ValueError(
            f"{who} reads {height} x {width} pixels in {channels} channels, cropped by {how['crop_mode']!r}; "
            "only square RGB images cropped from the middle are supported."
        )
    return from_module(
        network,
        input_size=height,
        mean=tuple(how["mean"]),
        std=tuple(how["std"]),
        name=f"timm:{model}",
        resize=modes[how["crop_mode"]],
        shorter_side=int(height / how["crop_pct"]),
        interpolation=how["interpolation"],
        feature_scale=feature_scale,
        device=device,
        batch_size=batch_size,
    )
