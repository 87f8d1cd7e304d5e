"""Images of any size reach the network as it wants them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from votestream.backbones import ImageError, Preprocessing

from .samples import random_images


def test_images_of_the_right_size_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "fromarray", lambda *_: pytest.fail("went through Pillow"))
    images = random_images(5)
    how = Preprocessing(32)
    image = images[0]
    assert how.fit(image) is image
    np.testing.assert_array_equal(np.concatenate(list(how.batches(images, 2))), images)


def test_the_middle_is_kept_and_proportions_too() -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 255
    assert Preprocessing(20).fit(wide).min() == 255
    squashed = Preprocessing(20, resize="squash").fit(wide)
    assert squashed.shape == (20, 20, 3)
    assert squashed[0, 0, 0] == 0
    assert squashed[0, 10, 0] == 255


def test_shrinking_averages_what_it_drops() -> None:
    checks = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    for interpolation in ("bilinear", "bicubic"):
        small = Preprocessing(16, interpolation=interpolation).fit(checks)
        assert np.abs(small[2:-2, 2:-2].astype(int) - 127).max() < 8


def test_mixed_lists_come_out_in_order(tmp_path) -> None:
    small, large = random_images(1, 16, 16)[0], random_images(1, 40, 50, seed=1)[0]
    Image.fromarray(large).save(tmp_path / "large.png")
    lazily = Image.open(tmp_path / "large.png")
    mixed = [small, tmp_path / "large.png", lazily, lazily, small[..., 0]]
    how = Preprocessing(16)
    batches = list(how.batches(mixed, 2))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    got = np.concatenate(batches)
    np.testing.assert_array_equal(got[0], small)
    for index in (1, 2, 3):
        np.testing.assert_array_equal(got[index], how.fit(large))
    np.testing.assert_array_equal(got[4], np.repeat(small[..., :1], 3, -1))


def test_normalising_is_the_textbook_formula() -> None:
    how = Preprocessing(8, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    images = random_images(3, 8, 8)
    got = how.normalise(images, torch.device("cpu")).numpy().transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, (images / 255 - how.mean) / how.std, atol=1e-6)


def test_a_thread_as_long_as_a_needle_does_not_fill_the_memory() -> None:
    with pytest.raises(ImageError, match="needle"):
        Preprocessing(224).fit(np.zeros((1, 500_000, 3), np.uint8), "needle")


def test_settings_that_cannot_be_are_refused() -> None:
    for settings in ({"input_size": 0}, {"std": (1, 1, 0)}, {"resize": "pad"}, {"interpolation": "magic"}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            Preprocessing(**({"input_size": 8} | settings))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shorter_side"):
        Preprocessing(32, shorter_side=16)


@pytest.mark.parametrize("shape", [(300, 451), (451, 300), (64, 64), (232, 240), (100, 333)])
def test_torchvisions_own_transform_gives_the_same_input(torchvision, shape: tuple[int, int]) -> None:
    weights = torchvision.models.ResNet50_Weights.IMAGENET1K_V2
    theirs = weights.transforms()(Image.fromarray(random_images(1, *shape)[0]))
    how = Preprocessing(224, shorter_side=232, interpolation="bilinear")
    ours = how.normalise(how.fit(random_images(1, *shape)[0])[None], torch.device("cpu"))[0]
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
