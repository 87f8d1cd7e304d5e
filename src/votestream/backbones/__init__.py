"""Backbones: frozen networks that turn images into features, by name or from your own torch module."""

# Importing these registers them; packages that they need beyond torch are imported on first use.
from votestream.backbones import efficientnet, from_onnx, from_timm, from_torchvision, reduced_resnet18  # noqa: F401
from votestream.backbones.backbone import Backbone, spread
from votestream.backbones.cache import cached_features
from votestream.backbones.cached_entries import CacheEntry, clear_cached, list_cached
from votestream.backbones.from_torch import from_module
from votestream.backbones.optional import BackboneUnavailable
from votestream.backbones.preprocessing import Preprocessing
from votestream.backbones.registry import create_backbone, list_backbones, register_backbone
from votestream.images.convert import load_image
from votestream.images.files import ImageError

__all__ = [
    "Backbone",
    "BackboneUnavailable",
    "CacheEntry",
    "ImageError",
    "Preprocessing",
    "cached_features",
    "clear_cached",
    "create_backbone",
    "from_module",
    "list_backbones",
    "list_cached",
    "load_image",
    "register_backbone",
    "spread",
]
