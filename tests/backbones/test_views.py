"""Looking several times: what is averaged, and what tells such backbones apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import votestream as vs
from votestream.backbones import Backbone, cached_features, create_backbone, from_module

from .samples import random_images


def test_features_are_the_mean_over_the_views(tiny: Backbone) -> None:
    images = random_images(3, 20, 20)
    small, large = tiny.with_views("12"), tiny.with_views("16")
    wanted = (small(images) + large(images) + large(images[:, :, ::-1].copy())) / 3
    np.testing.assert_allclose(tiny.with_views("12,16,16m")(images), wanted, rtol=1e-5, atol=1e-6)


def test_a_mirrored_view_alone_sees_the_mirror_image(tiny: Backbone) -> None:
    images = random_images(2, 16, 16)
    np.testing.assert_array_equal(tiny.with_views("16m")(images), tiny(images[:, :, ::-1].copy()))


def test_files_and_arrays_are_seen_alike_in_every_size(tiny: Backbone, tmp_path: Path) -> None:
    images = random_images(3, 20, 24)
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, pixels in zip(paths, images, strict=True):
        Image.fromarray(pixels).save(path)
    made = tiny.with_views("12,16m")
    np.testing.assert_array_equal(made(paths), made(images))
    np.testing.assert_array_equal(made([Image.open(path) for path in paths]), made(images))


def test_prepared_images_give_the_same_features(tiny: Backbone) -> None:
    images = random_images(3, 20, 24)
    for made in (tiny, tiny.with_views("12"), tiny.with_views("12,16m")):
        prepared = np.stack([made.prepare(image) for image in images])
        np.testing.assert_array_equal(made.of_prepared(prepared), made(images))


def test_the_network_s_own_view_changes_nothing(tiny: Backbone) -> None:
    assert tiny.with_views("16").digest == tiny.digest
    assert "views" not in repr(tiny.with_views("16"))


def test_the_digest_and_the_cache_tell_views_apart(tiny: Backbone, tmp_path: Path) -> None:
    images = random_images(4, 16, 16)
    variants = [tiny, tiny.with_views("16m"), tiny.with_views("16,16m"), tiny.with_views("12")]
    assert len({each.digest for each in variants}) == 4
    for each in variants:
        np.testing.assert_array_equal(cached_features(each, images, folder=tmp_path), each(images))


def test_the_part_that_is_cut_away_keeps_its_share() -> None:
    backbone = from_module(nn.Conv2d(3, 2, 1), input_size=16, shorter_side=20, device="cpu")
    assert backbone.preprocessing.of_size(32).shorter_side == 40


@pytest.mark.parametrize("views", ["16x", "m16", "0", "16,16", "", "16,,12", [16]])
def test_wrong_views_are_told(tiny: Backbone, views: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"[Vv]iew"):
        tiny.with_views(views)


def test_a_network_of_one_size_refuses_other_views() -> None:
    fixed = from_module(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 4)), input_size=8, name="fixed", device="cpu")
    assert fixed.with_views("8,8m").feature_dim == 4
    with pytest.raises(ValueError, match=r"fixed does not work with views='8,16'"):
        fixed.with_views("8,16")


def test_a_model_file_brings_views_and_stages_back(tmp_path: Path) -> None:
    options = {"views": "32,32m", "stages": "3:centre,4"}
    backbone = create_backbone("reduced_resnet18", device="cpu", **options)
    images, labels = vs.sample_images("train")
    model = vs.ImageClassifier(backbone).partial_fit(images[:40], labels[:40])
    model.save(tmp_path / "m.safetensors")
    again = vs.load(tmp_path / "m.safetensors", device="cpu")
    assert again.backbone_.digest == backbone.digest
    assert again.backbone_.stages == ("3:centre", "4")
    assert [str(view) for view in again.backbone_.views] == ["32", "32m"]
    np.testing.assert_array_equal(again.predict(images[40:60]), model.predict(images[40:60]))
    assert (
        vs.ImageClassifier(**again.get_params(deep=False)).backbone_.digest == backbone.digest
    )  # a clone has the same backbone


def test_presets_set_views_and_stages() -> None:
    careful = create_backbone("reduced_resnet18", preset="careful", device="cpu")
    by_words = create_backbone("reduced_resnet18", views="careful", stages="careful", device="cpu")
    assert careful.digest == by_words.digest
    assert (careful.feature_dim, len(careful.views)) == (400, 4)
    quick = create_backbone("reduced_resnet18", views="quick", stages="quick", device="cpu")
    assert (quick.feature_dim, quick.plain) == (240, True)
    with pytest.raises(
        ValueError, match=r"views='careful' is a preset of reduced_resnet18 and efficientnet_lite0 only"
    ):
        create_backbone("onnx:x.onnx", views="careful")
    with pytest.raises(ValueError, match="preset must be one of careful, quick, got 'slow'"):
        create_backbone("reduced_resnet18", preset="slow")


def test_views_on_a_gpu_are_the_same() -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    images = random_images(4)
    cpu, gpu = (
        create_backbone("reduced_resnet18", views="careful", stages="careful", device=d) for d in ("cpu", "cuda")
    )
    np.testing.assert_allclose(gpu(images), cpu(images), rtol=1e-3, atol=1e-3)
