"""Features of several stages, and of parts of their maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from votestream.backbones import create_backbone
from votestream.backbones.networks.resnet import ReducedResNet18
from votestream.backbones.stages import StageFeatures

from .samples import random_images, shuffle_batch_norms

SCALES = {"1": 1.0, "2": 1.0, "3": 0.5, "4": 2.0}


@pytest.fixture(scope="module")
def network() -> ReducedResNet18:
    torch.manual_seed(0)
    made = shuffle_batch_norms(ReducedResNet18()).eval()
    assert isinstance(made, ReducedResNet18)
    return made


def test_stages_stand_side_by_side_each_over_its_scale(network: ReducedResNet18) -> None:
    x = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        maps = network.maps(x)
        features = StageFeatures(network, "3,4", SCALES)(x)
        wanted = torch.cat([maps["3"].mean((2, 3)) / 0.5, network(x) / 2.0], 1)
    torch.testing.assert_close(features, wanted)


@pytest.mark.parametrize(
    ("part", "rows", "columns"),
    [("top", slice(0, 5), slice(0, 9)), ("bottom", slice(4, 9), slice(0, 9)), ("centre", slice(2, 7), slice(2, 7))],
)
def test_parts_are_parts_of_the_map(network: ReducedResNet18, part: str, rows: slice, columns: slice) -> None:
    x = torch.rand(1, 3, 36, 36)  # 9 x 9 at the third stage: the middle row is in both halves
    with torch.inference_mode():
        features = StageFeatures(network, [f"3:{part}"], {"3": 1.0})(x)
        wanted = network.maps(x)["3"][:, :, rows, columns].mean((2, 3))
    torch.testing.assert_close(features, wanted)


@pytest.mark.parametrize("stages", ["5", "3:left", "3:", "", "3,,4", "3,3", ["3", 4], []])
def test_wrong_stages_are_told(network: ReducedResNet18, stages: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"no stage|stages must be"):
        StageFeatures(network, stages, SCALES)


def test_the_digest_tells_stages_apart() -> None:
    digests = {
        create_backbone("reduced_resnet18", device="cpu", **options).digest
        for options in ({}, {"stages": "4"}, {"stages": "3,4"}, {"stages": "3:centre,4"}, {"stages": "4,3"})
    }
    assert len(digests) == 5


def test_naming_the_last_stage_gives_the_usual_features() -> None:
    usual, named = (create_backbone("reduced_resnet18", device="cpu", **o) for o in ({}, {"stages": "4"}))
    images = random_images(3)
    np.testing.assert_allclose(named(images), usual(images), rtol=1e-5, atol=1e-6)


def test_every_stage_of_the_built_in_networks_has_a_scale() -> None:
    """Spreads near 1 on the images of the package, which no scale was measured on."""
    import votestream as vs

    images = vs.sample_images("train")[0][:50]
    for stage in "1234":
        features = create_backbone("reduced_resnet18", stages=stage, device="cpu")(images)
        assert 0.6 < features.std() < 1.6


def test_backbones_without_stages_say_so() -> None:
    with pytest.raises(ValueError, match="has no stages to choose from"):
        create_backbone("onnx:missing.onnx", stages="4")
