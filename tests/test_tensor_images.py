"""Torch tensors as images: whichever axis holds the channels, the same image as its array; else a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import votestream as vs
from conftest import ImageStream, same_model
from votestream.images.convert import as_sequence, load_image


@pytest.fixture
def images():
    return ImageStream()


@pytest.fixture
def learned(images):
    return on_pixels().partial_fit(images.X, images.y)


def on_pixels():
    return vs.ImageClassifier("pixels", vs.CandidatesVoting(device="cpu"))


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


CHANNELS_FIRST = {3: (2, 0, 1), 4: (0, 3, 1, 2)}


@pytest.mark.parametrize("shape", [(9, 7, 3), (9, 7, 1), (9, 7, 4), (5, 9, 7, 3), (5, 9, 7, 1)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_channels_first_and_last_are_the_same_image(shape, dtype):
    array = pixels(*shape)
    last = torch.from_numpy(array) if dtype == torch.uint8 else torch.from_numpy(array).to(dtype) / 255
    first = last.permute(CHANNELS_FIRST[len(shape)])
    for tensor in (last, first, first.contiguous(), last.clone().requires_grad_(dtype != torch.uint8)):
        np.testing.assert_array_equal(as_sequence(tensor), as_sequence(array))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_within_a_grey_level(dtype):
    array = pixels(9, 7, 3)
    made = as_sequence((torch.from_numpy(array) / 255).to(dtype))[0]
    assert np.abs(made.astype(int) - array).max() <= 1


def test_a_model_learns_and_predicts_the_same_of_tensors(images, learned):
    for tensor in (
        torch.from_numpy(images.X).permute(0, 3, 1, 2),
        torch.from_numpy(images.X).permute(0, 3, 1, 2) / 255,
        torch.from_numpy(images.X),
        list(torch.from_numpy(images.X).permute(0, 3, 1, 2)),
    ):
        assert same_model(learned, on_pixels().partial_fit(tensor, torch.tensor(images.y)))
        np.testing.assert_array_equal(learned.predict_proba(tensor), learned.predict_proba(images.X))
        np.testing.assert_array_equal(learned.backbone_(tensor), learned.backbone_(images.X))


def test_one_tensor_is_one_image_also_where_it_is_grey():
    assert as_sequence(torch.zeros(3, 8, 8, dtype=torch.uint8)).shape == (1, 8, 8, 3)
    assert as_sequence(torch.zeros(1, 8, 8)).shape == (1, 8, 8, 1)
    assert as_sequence(torch.zeros(8, 8, dtype=torch.uint8)).shape == (1, 8, 8, 1)
    assert as_sequence(torch.zeros(60, 28, 28, dtype=torch.uint8)).shape == (60, 28, 28, 1)
    assert load_image(torch.zeros(3, 8, 6)).shape == (8, 6, 3)


def test_a_mixed_list_may_hold_tensors(learned, images):
    mixed = [torch.from_numpy(x).permute(2, 0, 1) if i % 2 else x for i, x in enumerate(images.X[:6])]
    np.testing.assert_array_equal(learned.predict_proba(mixed), learned.predict_proba(images.X[:6]))


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        (torch.zeros(5, 3, 9, 3), r"shape \(5, 3, 9, 3\), whose channels may stand first or last"),
        (torch.zeros(3, 9, 4), "may stand first or last"),
        (torch.zeros(2, 3, 9, 7) - 1.5, r"image 0 of .* floats from -1.5 to -1.5: floats must lie from 0 to 1"),
        (torch.full((3, 9, 7), 200.0), "floats must lie from 0 to 1, as before any Normalize"),
        (torch.full((3, 9, 7), torch.nan), "floats from nan to nan"),
        (torch.zeros(10, 192), r"floats of shape \(10, 192\), which may be features .* partial_fit_features"),
        (torch.zeros(3, 9, 7, dtype=torch.int64), "has dtype int64, whose white is unknown"),
        (torch.zeros(2, 5, 9, 7), r"has shape \(2, 5, 9, 7\), not \(n, height, width, channels\)"),
        (torch.zeros(2, 3, 0, 7), "there are no pixels in it"),
        (torch.tensor(0.5), r"has shape \(\), not"),
    ],
)
def test_what_is_no_image_is_refused_by_a_sentence(learned, tensor, told):
    with pytest.raises(vs.ImageError, match=told):
        learned.predict(tensor)


def test_values_that_resizing_pushed_past_white_are_white():
    overshot = torch.full((3, 8, 6), 1.001)
    assert as_sequence(overshot).min() == 255


def test_streams_take_tensors_of_images_and_of_features(images):
    plain = vs.stream_from(images.X, images.y, seed=3)
    tensors = vs.stream_from(torch.from_numpy(images.X).permute(0, 3, 1, 2) / 255, torch.tensor(images.y), seed=3)
    for x, y in zip(plain[0], tensors[0], strict=True):
        np.testing.assert_array_equal(x[0], y[0])
    rows = torch.rand(20, 5)
    assert vs.stream_from(rows, [0, 1] * 10)[0].train[0].dtype == np.float32


def test_features_seen_once_need_not_be_looked_at_again(learned, images):
    features = learned.backbone_(images.X)
    np.testing.assert_array_equal(learned.predict_features(features), learned.predict(images.X))
    np.testing.assert_array_equal(learned.predict_proba_features(features), learned.predict_proba(images.X))


@pytest.mark.parametrize(
    ("X", "told"),
    [
        ([[1, 2], [3]], "rows differ in shape"),
        ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 9, 3), np.uint8)], "Images of different sizes need a backbone"),
        ([torch.zeros(3, 8, 8), torch.zeros(3, 9, 8)], "image 1 is 8 x 9, image 0 is 8 x 8"),
        ([{"a": 1}, {"a": 2}], "must be numbers"),
    ],
)
def test_samples_that_do_not_stack_are_told_in_words(X, told):
    with pytest.raises(ValueError, match=told):
        vs.stream_from(X, [0, 1])


def test_labels_of_different_lengths_are_told_in_words():
    with pytest.raises(ValueError, match="y must be a row of whole numbers or texts; its rows differ in length"):
        vs.stream_from(np.zeros((2, 3)), [[1], [2, 3]])


@pytest.mark.parametrize("X", [[[1, 2], [3]], [[[0, 0], [0, 0]], [[0, 0]]], [3, 4], [None]])
def test_nested_lists_are_no_images_and_told_so(learned, X):
    with pytest.raises(vs.ImageError, match=r"image 0 is a (list|int|NoneType): give paths, PIL images, tensors"):
        learned.predict(X)
    with pytest.raises(vs.ImageError, match=r"image 0 is a (list|int|NoneType): give paths"):
        vs.cached_features(learned.backbone_, X)


FOUR = torch.zeros(2, 3, 8, 8, dtype=torch.complex64)


@pytest.mark.parametrize(
    "images",
    [
        FOUR.real.to("meta"),
        FOUR.to("meta").to(torch.uint8),
        [FOUR.real[0].to("meta")],
        FOUR.conj(),
        FOUR.real.to_sparse(),
        FOUR.real.to(torch.uint8).to_sparse(),
    ],
    ids=["no data", "no data, uint8", "no data, in a list", "complex", "sparse", "sparse, uint8"],
)
def test_tensors_without_pixels_are_refused_with_a_short_sentence(classifier, images):
    for ask in (classifier.predict, classifier.snapshot().predict, lambda X: classifier.partial_fit(X, ["a", "b"])):
        with pytest.raises((ValueError, TypeError)) as refusal:
            ask(images)
        assert len(str(refusal.value)) < 400
    assert classifier.class_counts_.tolist() == [1]


@pytest.mark.parametrize("images", [FOUR.conj().imag, FOUR.real.clone().requires_grad_()])
def test_lazily_negated_tensors_and_those_with_a_gradient_are_images(classifier, images):
    assert classifier.predict(images).tolist() == ["a", "a"]


@pytest.fixture
def classifier():
    return vs.ImageClassifier("pixels", vs.NearestClassMean()).partial_fit(np.zeros((1, 8, 8, 3), np.uint8), ["a"])
