"""The built-in backbone: the reduced ResNet-18 with weights that come with the package."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from votestream.backbones.backbone import Backbone
from votestream.backbones.from_torch import from_module
from votestream.backbones.networks.resnet import ReducedResNet18
from votestream.backbones.registry import register_backbone
from votestream.backbones.stages import StageFeatures

INPUT_SIZE = 32
# Spread of the stages' pooled maps over that of the last, of the first 2,000 Tiny-ImageNet training images.
STAGES = {"1": 0.7095, "2": 0.8128, "3": 0.7802, "4": 1.0}


@register_backbone("reduced_resnet18")
def reduced_resnet18(
    name: str = "reduced_resnet18",
    *,
    weights: str | os.PathLike[str] | None = None,
    stages: str | Iterable[str] | None = None,
    device: str = "auto",
    batch_size: int | None = None,
) -> Backbone:
    """Make the paper's small ResNet-18: 32 x 32 pixels in, 160 features out.

    Args:
        weights: A file that `recipes/distill_reduced_resnet18.py` wrote; the package's own unless given.
        stages: Features of these stages, "1" to "4", instead of the last; see `StageFeatures`.
    """
    if weights is None:
        with resources.as_file(resources.files("votestream.backbones") / "weights" / f"{name}.safetensors") as path:
            tensors, about = _read(path)
    else:
        tensors, about = _read(Path(weights))
    network = ReducedResNet18()
    missing, unknown = network.load_state_dict(tensors, strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or unknown:
        raise ValueError(f"The weights are of another network: {missing} missing, {unknown} unknown.")
    scale = float(about["feature_scale"])
    scales = {stage: scale * share for stage, share in STAGES.items()}
    return from_module(
        network if stages is None else StageFeatures(network, stages, scales),
        input_size=INPUT_SIZE,
        mean=_numbers(about["mean"]),
        std=_numbers(about["std"]),
        name=name,
        feature_scale=scale if stages is None else 1.0,
        device=device,
        batch_size=batch_size,
    )


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if not path.is_file():
        raise ValueError(f"There is no weights file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}.") from error
    if about.get("network") != "reduced_resnet18" or not {"mean", "std", "feature_scale"} <= about.keys():
        raise ValueError(f"{path} does not say that it holds a reduced_resnet18 with mean, std and feature_scale.")
    return tensors, about


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.strip("[]() ").split(","))
