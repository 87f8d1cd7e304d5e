"""ImageClassifier: what it takes, what it refuses, and that nothing of an image stays with it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import votestream as vs
from conftest import ImageStream, same_model
from votestream.streams import sample_images


def on_pixels(**params):
    return vs.ImageClassifier("pixels", vs.CandidatesVoting(device="cpu", **params))


@pytest.fixture
def images():
    return ImageStream()


@pytest.fixture
def learned(images):
    return on_pixels(budget=20).partial_fit(images.X, images.y)


def as_paths(X, folder):
    paths = [folder / f"{number}.png" for number in range(len(X))]
    for path, pixels in zip(paths, X, strict=True):
        Image.fromarray(pixels).save(path)
    return paths


# ---- what it takes ------------------------------------------------------------------------------


def test_arrays_pil_images_paths_and_mixes_of_them_are_the_same_images(images, tmp_path):
    X, y = images.X[:40], images.y[:40]
    paths = as_paths(X, tmp_path)
    mixed = [(x, Image.fromarray(x), path, str(path))[i % 4] for i, (x, path) in enumerate(zip(X, paths, strict=True))]
    plain = on_pixels().partial_fit(X, y)
    for other in (list(X), [Image.fromarray(x) for x in X], paths, list(map(str, paths)), mixed):
        assert same_model(plain, on_pixels().partial_fit(other, y))
        assert np.array_equal(plain.predict_proba(X), plain.predict_proba(other))


def test_one_image_needs_no_list(learned, images, tmp_path):
    path = as_paths(images.X[:1], tmp_path)[0]
    assert learned.predict(path).shape == (1,)
    assert learned.predict(images.X[0]).tolist() == learned.predict(str(path)).tolist()


def test_it_votes_as_its_learner_does_on_the_backbones_features(learned, images):
    vote = learned.vote(images.X)
    inner = learned.learner_.vote(learned.backbone_(images.X))
    assert np.array_equal(vote.score, inner.score)
    assert vote.winner.tolist() == learned.predict(images.X).tolist()


def test_without_a_learner_it_is_gaussian_voting(images):
    model = vs.ImageClassifier("pixels").partial_fit(images.X, images.y)
    assert isinstance(model.learner_, vs.GaussianVoting)
    plain = vs.GaussianVoting().partial_fit(model.backbone_(images.X), images.y)
    assert same_model(model, plain)
    assert not hasattr(model, "exemplars_")


def test_it_is_bounded_where_its_learner_is(images):
    for learner, bounded in ((None, True), (vs.NearestClassMean(), True), (vs.JointProbe(max_iter=2), False)):
        model = vs.ImageClassifier("pixels", learner)
        assert model.bounded == bounded
        assert model.partial_fit(images.X, images.y).bounded == bounded


def test_a_learner_that_has_learned_goes_on(images):
    backbone = vs.create_backbone("pixels")
    learner = vs.CandidatesVoting(device="cpu").partial_fit(backbone(images.X[:60]), images.y[:60], task="a")
    model = vs.ImageClassifier(backbone, learner).partial_fit(images.X[60:120], images.y[60:120], task="b")
    assert model.tasks_ == ["a", "b"]
    assert model.class_counts_.sum() == 120


def test_features_learned_are_the_images_learned(images):
    X, y = images.X[:60], images.y[:60]
    backbone = vs.create_backbone("pixels")
    plain = on_pixels().partial_fit(X, y, task="a")
    assert same_model(plain, on_pixels().partial_fit_features(backbone(X), y, task="a"))
    untouched = copy.deepcopy(plain)
    with pytest.raises(ValueError, match="X has 5 features"):
        plain.partial_fit_features(np.zeros((2, 5)), [0, 1])
    assert same_model(plain, untouched)


# ---- what it refuses ----------------------------------------------------------------------------

BROKEN = {
    "text": b"this is no image",
    "empty": b"",
    "cut off": None,  # half of a real one
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_image_is_named_and_leaves_the_model_exactly_as_it_was(learned, images, tmp_path, kind):
    paths = as_paths(np.repeat(np.repeat(images.X[:6], 16, axis=1), 16, axis=2), tmp_path)
    data = BROKEN[kind]
    paths[4].write_bytes(paths[4].read_bytes()[:60] if data is None else data)
    untouched = copy.deepcopy(learned)
    with pytest.raises(vs.ImageError, match=r"4\.png"):
        learned.partial_fit(paths, ["new"] * 6, task="new")
    assert same_model(learned, untouched)
    for model in (learned, untouched):
        model.partial_fit(images.X[:20], images.y[:20])
    assert same_model(learned, untouched)


def test_a_broken_image_in_the_first_call_leaves_nothing_learned(images, tmp_path):
    model = on_pixels()
    with pytest.raises(vs.ImageError, match="no file"):
        model.partial_fit([images.X[0], tmp_path / "missing.png"], [0, 1])
    with pytest.raises(NotFittedError):
        model.predict(images.X[:1])
    assert len(model.partial_fit(images.X[:10], images.y[:10]).classes_) == 2


@pytest.mark.parametrize(
    ("X", "y", "complaint"),
    [
        ([], [], "empty"),
        (np.zeros((2, 2, 2, 3), np.uint8), [0], "2 rows, 1 labels"),
        (np.zeros((2, 2, 2, 3), np.uint8), [0.5, 1], "strings or integers"),
        (np.zeros((2, 2, 2, 3), np.float32), [0, 1], "whose white is unknown"),
        (np.zeros((2, 2, 2, 7), np.uint8), [0, 1], "1 to 4 channels"),
        ([3, 4], [0, 1], "give paths, PIL images"),
    ],
)
def test_wrong_input_is_named_and_leaves_the_model_exactly_as_it_was(learned, X, y, complaint):
    untouched = copy.deepcopy(learned)
    with pytest.raises(ValueError, match=complaint):
        learned.partial_fit(X, y)
    assert same_model(learned, untouched)


# ---- the backbone belongs to the model ----------------------------------------------------------


def linear(seed, name="module"):
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 8))
    return vs.from_module(network, input_size=2, name=name, device="cpu")


def test_loading_refuses_another_backbone_by_its_digest(learned, tmp_path):
    learned.save(tmp_path / "m.safetensors")
    with pytest.raises(vs.ModelFileError, match=r"trained with the backbone 'pixels'.*'module'"):
        vs.load(tmp_path / "m.safetensors", backbone=linear(0))
    with pytest.raises(vs.ModelFileError, match=r"trained with.*reduced_resnet18"):
        vs.load(tmp_path / "m.safetensors", backbone="reduced_resnet18")


def test_the_same_name_with_other_weights_is_another_backbone(images, tmp_path):
    vs.ImageClassifier(linear(0)).partial_fit(images.X, images.y).save(tmp_path / "m.safetensors")
    with pytest.raises(vs.ModelFileError, match="whose features are different"):
        vs.load(tmp_path / "m.safetensors", backbone=linear(1))


def test_a_backbone_without_a_name_is_asked_for(images, tmp_path):
    model = vs.ImageClassifier(linear(0)).partial_fit(images.X, images.y)
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(vs.ModelFileError, match=r"cannot be made here.*vs\.load\(path, backbone="):
        vs.load(tmp_path / "m.safetensors")
    loaded = vs.load(tmp_path / "m.safetensors", backbone=linear(0))
    assert np.array_equal(loaded.predict_proba(images.X), model.predict_proba(images.X))
    again = clone(loaded).partial_fit(images.X, images.y)  # a clone still knows its backbone
    assert len(again.classes_) == 6


# ---- no image is kept -------------------------------------------------------------------------


class Red(torch.nn.Module):
    """Sees nothing but the red of an image."""

    def forward(self, x):
        return x[:, 0].flatten(1)


@pytest.mark.parametrize("learner", [vs.CandidatesVoting(budget=20, device="cpu"), vs.GaussianVoting(device="cpu")])
def test_images_with_equal_features_give_byte_for_byte_the_same_file(tmp_path, learner):
    """The file is a function of features, labels and settings: what features do not tell is not in it."""
    rng = np.random.default_rng(0)
    one = rng.integers(0, 256, (60, 4, 4, 3), np.uint8)
    other = one.copy()
    other[..., 1:] = rng.integers(0, 256, (60, 4, 4, 2))
    labels = [f"class {i % 3}" for i in range(60)]
    files = []
    for images in (one, other, 255 - one):
        backbone = vs.from_module(Red(), input_size=4, name="red", device="cpu")
        model = vs.ImageClassifier(backbone, learner)
        model.partial_fit(images, labels).save(tmp_path / "m.safetensors")
        files.append((tmp_path / "m.safetensors").read_bytes())
    assert files[0] == files[1]
    assert files[0] != files[2]  # where the red differs, so do the files


def windows(data, width=8):
    """Every run of `width` bytes that is not mostly one value, as such runs are in any file."""
    runs = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), width)
    telling = (np.diff(np.sort(runs, axis=1), axis=1) > 0).sum(1) >= 5
    return set(np.ascontiguousarray(runs[telling]).view(np.uint64).ravel().tolist())


@pytest.mark.parametrize("learner", [vs.CandidatesVoting(budget=40, device="cpu"), vs.GaussianVoting(device="cpu")])
def test_no_run_of_pixels_of_any_image_is_in_the_file(tmp_path, learner):
    images, labels = sample_images("test")
    images, labels = images[::5], labels[::5]
    path = tmp_path / "m.safetensors"
    vs.ImageClassifier(learner=learner).partial_fit(images, labels).save(path)
    data = path.read_bytes()
    # Row by row, as images lie in memory and in files; colour by colour, as the network takes them.
    pixels = windows(images.tobytes()) | windows(images.transpose(0, 3, 1, 2).tobytes())
    assert len(pixels) > 100_000
    assert not pixels & windows(data)
    assert pixels & windows(data + images[7, 3].tobytes())  # one row of one image would be noticed


# ---- meta-estimator habits ----------------------------------------------------------------------


def test_the_learners_settings_are_reached_through_it(images):
    model = on_pixels(budget=20)
    assert model.get_params()["learner__budget"] == 20
    assert set(model.get_params(deep=False)) == {"backbone", "learner"}
    model.set_params(learner__budget=12, learner__lr=0.05)
    assert model.learner.budget == 12
    assert len(model.partial_fit(images.X, images.y).exemplars_.features) == 12
    with pytest.raises(ValueError, match="nonsense"):
        model.set_params(learner__nonsense=1)


def test_a_clone_has_the_settings_and_nothing_learned(learned, images):
    copied = clone(learned)
    assert copied.get_params()["learner__budget"] == 20
    with pytest.raises(NotFittedError):
        copied.predict(images.X)
    assert same_model(copied.partial_fit(images.X, images.y), learned)


def test_the_learner_given_is_not_touched(images):
    learner = vs.CandidatesVoting(device="cpu")
    vs.ImageClassifier("pixels", learner).partial_fit(images.X, images.y)
    with pytest.raises(NotFittedError):
        _ = learner.classes_


def test_another_backbone_can_be_set_before_learning_only(images):
    model = on_pixels()
    assert model.backbone_.feature_dim == 12
    model.set_params(backbone=linear(0))
    assert model.backbone_.feature_dim == 8
    model.partial_fit(images.X, images.y).set_params(backbone="pixels")
    with pytest.raises(ValueError, match="taught through the backbone 'module'"):
        model.predict(images.X)
