"""What every backbone promises, on a small one and on the built-in network."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from votestream.backbones import Backbone, create_backbone, from_module, spread

from .samples import random_images, shuffle_batch_norms


@pytest.fixture(params=["tiny", "reduced_resnet18"])
def backbone(request: pytest.FixtureRequest, tiny: Backbone, weights_file: Path) -> Backbone:
    if request.param == "tiny":
        return tiny
    return create_backbone("reduced_resnet18", weights=weights_file, device="cpu")


def test_features_are_float32_and_finite_and_alike_every_time(backbone: Backbone) -> None:
    images = random_images(9, backbone.input_size, backbone.input_size)
    features = backbone(images)
    assert features.shape == (9, backbone.feature_dim)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features, backbone(images))


def test_a_images_features_do_not_depend_on_its_company(backbone: Backbone) -> None:
    images = random_images(70, backbone.input_size, backbone.input_size)  # more than one batch
    together = backbone(images)
    alone = np.concatenate([backbone(images[i]) for i in (0, 33, 69)])
    np.testing.assert_allclose(together[[0, 33, 69]], alone, atol=1e-5 * np.abs(together).max())


def test_lists_arrays_and_files_give_the_same_features(backbone: Backbone, tmp_path: Path) -> None:
    images = random_images(3, 40, 50)
    for index, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{index}.png")
    wanted = backbone(images)
    for same in (
        list(images),
        [Image.fromarray(image) for image in images],
        sorted(tmp_path.iterdir()),
        [str(tmp_path / "0.png"), images[1], Image.fromarray(images[2])],
        images[:, :, ::-1][:, :, ::-1],
    ):
        np.testing.assert_array_equal(backbone(same), wanted)
    np.testing.assert_allclose(backbone(tmp_path / "1.png"), wanted[1:2], atol=1e-5 * np.abs(wanted).max())


def test_nothing_in_nothing_out(backbone: Backbone) -> None:
    for nothing in ([], np.empty((0, 32, 32, 3), np.uint8)):
        assert backbone(nothing).shape == (0, backbone.feature_dim)


def test_read_only_and_memory_mapped_images_are_fine(backbone: Backbone, tmp_path: Path) -> None:
    images = random_images(4, backbone.input_size, backbone.input_size)
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(backbone(mapped), backbone(images))


def test_calibrating_gives_unit_spread_and_another_digest(backbone: Backbone) -> None:
    images = random_images(40, backbone.input_size, backbone.input_size)
    scaled = backbone.calibrate(images)
    assert spread(scaled(images)) == pytest.approx(1, abs=1e-3)
    assert spread(backbone(images)) != pytest.approx(1, abs=1e-3)
    assert scaled.digest != backbone.digest
    np.testing.assert_allclose(
        scaled(images) * scaled.feature_scale, backbone(images) * backbone.feature_scale, rtol=1e-5
    )
    assert scaled.calibrate(images).feature_scale == pytest.approx(scaled.feature_scale, rel=1e-3)


def test_images_that_are_all_alike_cannot_calibrate() -> None:
    blind = nn.Conv2d(3, 4, 1)
    nn.init.zeros_(blind.weight)
    nn.init.zeros_(blind.bias)
    with pytest.raises(ValueError, match="without any spread"):
        from_module(blind, input_size=8).calibrate(random_images(2, 8, 8))


def network() -> nn.Module:
    torch.manual_seed(0)
    return shuffle_batch_norms(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()))


def test_the_digest_follows_whatever_changes_features_and_nothing_else() -> None:
    def digest(module: nn.Module, **options: object) -> str:
        return from_module(module, **({"input_size": 8, "name": "net"} | options)).digest

    same = digest(network())
    # Written down: another machine, platform or version must arrive at it too.
    constant = copy.deepcopy(network())
    for values in (*constant.parameters(), *constant.buffers()):
        values.data.fill_(1)
    assert digest(constant) == "9d35e1d06e87d1343310051301956f4eecb8eec6a9fd7c1435cf516857fa93b1"
    assert digest(network()) == same
    assert digest(network(), batch_size=3, device="cpu") == same
    plain = {"mean": [0, 0, 0], "std": [1, 1, 1], "shorter_side": 8, "interpolation": "BICUBIC"}
    assert digest(network(), **plain) == digest(network(), mean=(0.0,) * 3, std=(1.0,) * 3)
    other = network()
    other[0].weight.data[0, 0, 0, 0] += 1e-3
    different = [
        digest(other),
        digest(network(), mean=(0.5, 0.5, 0.5)),
        digest(network(), interpolation="bilinear"),
        digest(network(), shorter_side=9),
        digest(network(), input_size=9),
        digest(network(), feature_scale=2.0),
    ]
    assert len({same, *different}) == 7


def test_a_backbone_is_frozen_whatever_happens_to_its_module() -> None:
    module = network().train()
    backbone = from_module(module, input_size=8)
    before = backbone(random_images(2, 8, 8))
    module[0].weight.data.zero_()
    np.testing.assert_array_equal(backbone(random_images(2, 8, 8)), before)
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_features_match_the_bare_network_in_eval_mode() -> None:
    module = network().eval()
    images = random_images(6, 8, 8)
    x = torch.from_numpy((images / 255 - 0.5) / 0.25).float().permute(0, 3, 1, 2)
    with torch.no_grad():
        wanted = module(x).mean((2, 3)).numpy() / 3
    backbone = from_module(module, input_size=8, mean=(0.5,) * 3, std=(0.25,) * 3, feature_scale=3.0)
    np.testing.assert_allclose(backbone(images), wanted, atol=1e-5)


def test_bad_settings_are_refused() -> None:
    module = nn.Conv2d(3, 4, 3)
    with pytest.raises(ValueError, match="feature_scale"):
        from_module(module, input_size=8, feature_scale=0)
    with pytest.raises(ValueError, match="batch_size"):
        from_module(module, input_size=8, batch_size=0)
    with pytest.raises(ValueError, match="not features"):
        from_module(nn.Flatten(0), input_size=8)
    two_outputs = nn.LSTM(8, 4)
    with pytest.raises(ValueError, match="not features"):
        from_module(nn.Sequential(nn.Flatten(0, 2), two_outputs), input_size=8)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="sees no GPU"):
            from_module(module, input_size=8, device="cuda")


def test_on_a_gpu_batches_have_few_sizes(tiny: Backbone) -> None:
    there, images = copy.copy(tiny), random_images(300, 8, 8)
    there.device, there.batch_size = torch.device("cuda"), 256
    sizes = {n: len(there._filled(images[:n])) for n in (1, 2, 64, 65, 130, 256)}
    assert sizes == {1: 1, 2: 64, 64: 64, 65: 128, 130: 256, 256: 256}
    np.testing.assert_array_equal(there._filled(images[:3])[:3], images[:3])
    there.batch_size = 10
    assert len(there._filled(images[:7])) == 10
    assert len(tiny._filled(images[:7])) == 7


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_a_gpu_gives_the_same_features_as_the_cpu(weights_file: Path) -> None:
    on_cpu, on_gpu = (create_backbone("reduced_resnet18", weights=weights_file, device=d) for d in ("cpu", "cuda"))
    images = random_images(300)
    wanted = on_cpu(images)
    np.testing.assert_allclose(on_gpu(images), wanted, atol=1e-4 * np.abs(wanted).max())
    np.testing.assert_array_equal(on_gpu(images), on_gpu(images))
    np.testing.assert_allclose(on_gpu(images[:3]), wanted[:3], atol=1e-4 * np.abs(wanted).max())
    assert on_gpu.digest == on_cpu.digest
