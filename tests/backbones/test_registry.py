"""Backbones are found by name, and a misspelt name gets a hint."""

from __future__ import annotations

import subprocess
import sys

import pytest

from votestream.backbones import create_backbone, list_backbones, register_backbone


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("reduced_resnet", "Did you mean 'reduced_resnet18'"),
        ("efficientnet-lite0", "Did you mean 'efficientnet_lite0'"),
        ("torchvison:resnet50", "Did you mean 'torchvision:NAME'"),
        ("torchvision:", "torchvision:NAME"),
        ("zzz", "Known: efficientnet_lite0"),
    ],
)
def test_unknown_names_get_near_ones(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="no backbone") as caught:
        create_backbone(name)
    assert hint in str(caught.value)


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="registered already"):
        register_backbone("reduced_resnet18")(lambda name: None)  # type: ignore[arg-type, return-value]


def test_optional_packages_are_not_imported_before_they_are_asked_for() -> None:
    optional = ["torchvision", "timm", "onnxruntime", "onnx"]
    code = f"import sys, votestream.backbones; print([m for m in {optional} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
    assert "timm:NAME" in list_backbones()
