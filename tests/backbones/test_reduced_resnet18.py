"""The built-in network loads its own file and no other."""

from __future__ import annotations

import csv
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from votestream.backbones import create_backbone, spread
from votestream.backbones.networks.resnet import ReducedResNet18
from votestream.streams import sample_images

from .samples import random_images

RESULTS = Path(__file__).resolve().parents[2] / "results" / "accuracy"
ABOUT = {
    "network": "reduced_resnet18",
    "mean": "[0.5, 0.5, 0.5]",
    "std": "[0.2, 0.2, 0.2]",
    "feature_scale": "2",
}


def test_features_are_those_of_the_network_with_the_files_settings(weights_file: Path) -> None:
    backbone = create_backbone("reduced_resnet18", weights=weights_file, device="cpu")
    assert (backbone.feature_dim, backbone.input_size, backbone.feature_scale) == (160, 32, 0.37)
    network = ReducedResNet18().eval()
    network.load_state_dict({k: v.float() for k, v in load_file(weights_file).items()}, strict=False)
    images = random_images(4)
    x = (images / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    with torch.no_grad():
        wanted = network(torch.from_numpy(x).float().permute(0, 3, 1, 2)).numpy() / 0.37
    np.testing.assert_allclose(backbone(images), wanted, atol=1e-4 * np.abs(wanted).max())


def test_files_that_do_not_fit_are_refused(weights_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    tensors = load_file(weights_file)
    with pytest.raises(ValueError, match=r"no weights file .*other"):
        create_backbone("reduced_resnet18", weights=path)
    save_file(tensors, path, ABOUT | {"network": "vgg"})
    with pytest.raises(ValueError, match="does not say"):
        create_backbone("reduced_resnet18", weights=path)
    save_file({k: v for k, v in tensors.items() if k != "conv.weight"}, path, ABOUT)
    with pytest.raises(ValueError, match=r"conv\.weight"):
        create_backbone("reduced_resnet18", weights=path)
    path.write_bytes(weights_file.read_bytes()[:5000])
    with pytest.raises(ValueError, match="damaged"):
        create_backbone("reduced_resnet18", weights=path)


def test_the_file_decides_the_digest(weights_file: Path, tmp_path: Path) -> None:
    tensors = load_file(weights_file)
    digests = {create_backbone("reduced_resnet18", weights=weights_file).digest}
    save_file(tensors, tmp_path / "a", ABOUT)
    digests.add(create_backbone("reduced_resnet18", weights=tmp_path / "a").digest)
    tensors["conv.weight"][0, 0, 0, 0] += 1
    save_file(tensors, tmp_path / "b", ABOUT)
    digests.add(create_backbone("reduced_resnet18", weights=tmp_path / "b").digest)
    assert len(digests) == 3


def test_the_shipped_weights_are_the_measured_ones_and_see_what_they_were_never_taught() -> None:
    backbone = create_backbone("reduced_resnet18", device="cpu")
    with (RESULTS / "backbone_accuracy.csv").open() as file:
        measured = {row["settings"] for row in csv.DictReader(file) if row["backbone"] == "reduced_resnet18"}
    assert all(f"digest {backbone.digest[:12]}" in settings for settings in measured)
    weights = resources.files("votestream.backbones") / "weights" / "reduced_resnet18.safetensors"
    assert len(weights.read_bytes()) < 2.5e6
    images, labels = sample_images("train")
    queries, truth = sample_images("test")
    features, names = backbone(images), np.unique(labels)
    assert 0.9 < spread(features) < 1.1
    means = np.stack([features[labels == name].mean(0) for name in names])
    nearest = ((backbone(queries)[:, None] - means) ** 2).sum(2).argmin(1)
    assert (names[nearest] == truth).mean() > 0.65
