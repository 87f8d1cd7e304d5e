"""`vs.learn` on images: files are read by workers, broken ones named, lists streamed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from PIL import Image

import votestream as vs
from painted import paint
from votestream.distributed.chunks import ImageExtractor
from votestream.distributed.executor import Here
from votestream.images.files import DataWarning


def classifier(**settings):
    return vs.ImageClassifier("pixels", vs.GaussianVoting(**settings))


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green", "blue"):
        paint(tmp_path / "photos", label, 20)
    return tmp_path / "photos"


def test_a_folder_of_classes_is_learned_as_by_partial_fit(photos, tmp_path):
    model = vs.learn(photos, None, classifier(), chunk=7)
    sequential = classifier().partial_fit(str(photos))
    assert model.class_counts_.tolist() == sequential.class_counts_.tolist() == [20, 20, 20]
    np.testing.assert_allclose(model.class_means_, sequential.class_means_, atol=1e-5)
    assert model.tasks_ == ["task 1"]
    model.save(tmp_path / "m.safetensors")
    assert vs.load(tmp_path / "m.safetensors").predict(photos / "red" / "photo 3.png") == ["red"]


def test_paths_arrays_and_pil_images_with_labels_are_the_same_images(photos):
    paths = sorted(photos.glob("*/*.png"))
    labels = [path.parent.name for path in paths]
    images = [Image.open(path) for path in paths]
    arrays = np.stack([np.asarray(image) for image in images])
    means = [vs.learn(given, labels, classifier(), chunk=16).class_means_ for given in (paths, images, arrays)]
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_array_equal(means[0], means[2])


def test_pairs_are_drawn_as_they_are_needed(photos):
    drawn = []
    paths = sorted(photos.glob("*/*.png"))

    def pairs():
        for path in paths:
            drawn.append(path)
            yield path, path.parent.name

    class Watching(Here):
        def run(self, make, items):
            for number, result in super().run(make, items):
                assert len(drawn) <= max(33, 5 * (number + 1))  # the first ones choose the backbone
                yield number, result

    vs.learn(pairs(), None, classifier(), on=Watching(), chunk=5)
    assert len(drawn) == 60


def test_a_photo_that_cannot_be_read_is_named_and_stops_nothing(photos):
    for name in ("a first.png", "broken.png"):
        (photos / "blue" / name).write_bytes(b"no photo")
    (photos / "red" / "empty.png").touch()
    with pytest.warns(DataWarning, match=r"3 of the 63 images were left out: .*a first\.png is not an image") as told:
        model = vs.learn(photos, None, classifier(), chunk=8)
    assert "empty.png is an empty file" in str(told[0].message)
    assert model.class_counts_.tolist() == [20, 20, 20]


def test_workers_get_a_network_to_look_with_and_none_to_train(photos):
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    sent = pickle.dumps(ImageExtractor(backbone))
    assert len(sent) < 0.6 * len(pickle.dumps(backbone))
    there = pickle.loads(sent).backbone
    assert there.digest == backbone.digest
    np.testing.assert_array_equal(there(next(photos.rglob("*.png"))), backbone(next(photos.rglob("*.png"))))
    backbone.trainable()  # ours stays as it was


def test_where_no_photo_can_be_read_the_model_stays_untaught(photos):
    paths = [photos / "red" / "none.png", photos / "red" / "nowhere.png"]
    model = classifier()
    with pytest.raises(vs.ImageError, match=r"None of the 2 images can be read: There is no file .*none\.png"):
        vs.learn(paths, ["red", "red"], model)
    assert not model.fitted


def test_an_array_that_is_no_image_is_refused(photos):
    with pytest.raises(vs.ImageError, match="image 1 has dtype float64"):
        vs.learn([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8, 3))], ["a", "b"], classifier())


def test_learners_that_cannot_be_merged_learn_features_in_order(photos):
    paths = sorted(photos.glob("*/*.png"))
    order = np.random.default_rng(0).permutation(len(paths))
    paths = [paths[i] for i in order]
    labels = [path.parent.name for path in paths]

    def untaught():
        return vs.ImageClassifier("pixels", vs.CandidatesVoting(budget=30))

    model = vs.learn(paths, labels, untaught(), chunk=13, task="all")
    sequential = untaught().partial_fit(paths, labels, task="all")
    np.testing.assert_array_equal(model.exemplars_.features, sequential.exemplars_.features)


def test_the_learner_that_was_given_goes_on_as_with_partial_fit(photos):
    learner = vs.GaussianVoting().partial_fit(np.ones((3, 12), np.float32), ["white"] * 3)
    model = vs.learn(photos, None, vs.ImageClassifier("pixels", learner))
    assert model.learner_ is learner
    assert learner.classes_seen_.tolist() == ["white", "blue", "green", "red"]


def test_images_that_bring_their_labels_take_no_y_and_others_need_one(photos):
    source = vs.labelled_images(photos)
    with pytest.raises(ValueError, match="brings its labels along: give None for y"):
        vs.learn(source, ["red"], classifier())
    with pytest.raises(ValueError, match="learning requires y"):
        vs.learn(np.zeros((2, 8, 8, 3), np.uint8), None, classifier())
    with pytest.raises(ValueError, match="X is empty"):
        vs.learn([], [], classifier())
