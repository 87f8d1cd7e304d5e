"""Images or features, the same stream: same samples, same order, row for row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import votestream as vs

from .samples import write_cifar10, write_image


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path / "cache"))


def pixels(size):
    """A backbone whose features are the pixels themselves, from 0 to 1."""
    return vs.from_module(torch.nn.Flatten(), input_size=size, mean=(0,) * 3, std=(1,) * 3, name="pixels", device="cpu")


def as_features(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1) / np.float32(255)


MAKE = {
    "plain": lambda stream: stream,
    "blurry": vs.blurry,
    "everything": lambda stream: vs.task_free(
        vs.one_class_at_a_time(vs.repeated(vs.blurry(vs.long_tail(stream, 3)))), 4
    ),
}


@pytest.mark.parametrize("how", sorted(MAKE))
@pytest.mark.parametrize("test_share", [None, 0.3])
def test_learners_on_features_meet_the_very_samples_that_learners_on_images_do(tmp_path, how, test_share):
    write_cifar10(tmp_path)
    same = {"data_dir": tmp_path, "seed": 4, "batch": 7, "test_share": test_share}
    images = MAKE[how](vs.stream("split-cifar10", **same))
    features = MAKE[how](vs.stream("split-cifar10", backbone=pixels(32), **same))
    assert images.class_order == features.class_order
    compared = 0
    for seen, felt in zip(images, features, strict=True):
        assert (seen.name, seen.classes) == (felt.name, felt.classes)
        for (x, y), (f, z) in zip(seen, felt, strict=True):
            assert np.allclose(as_features(x), f, atol=1e-6)
            assert y.tolist() == z.tolist()
            compared += len(y)
        assert np.allclose(as_features(seen.test[0]), felt.test[0], atol=1e-6)
        assert seen.test[1].tolist() == felt.test[1].tolist()
    assert compared == images.n_samples > 25


def test_files_are_seen_through_a_backbone_as_they_are(tmp_path):
    for name in ("cat", "dog"):
        for i in range(4):
            write_image(tmp_path / name / f"{i}.png", 10 * i, (8 + i, 9))  # sizes differ: only a backbone can
    stream = vs.stream(f"folder:{tmp_path}", backbone=pixels(4), tasks=1, batch=8)
    x, y = next(iter(stream[0]))
    assert x.shape == (8, 48)
    assert sorted(np.round(x[:, 0] * 255).astype(int).tolist()) == [0, 0, 10, 10, 20, 20, 30, 30]
    assert sorted(y) == ["cat"] * 4 + ["dog"] * 4


def test_features_are_computed_once(tmp_path):
    write_cifar10(tmp_path)
    calls = []

    class Counting(torch.nn.Flatten):
        def forward(self, x):
            calls.append(len(x))
            return super().forward(x)

    backbone = vs.from_module(Counting(), input_size=32, name="counting", device="cpu")
    calls.clear()
    vs.stream("split-cifar10", backbone=backbone, data_dir=tmp_path)
    assert sum(calls) == 120
    vs.stream("split-cifar10", backbone=backbone, data_dir=tmp_path, seed=5, tasks=2)
    assert sum(calls) == 120


def test_a_learner_learns_from_a_stream(tmp_path):
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(6, 12))
    y = np.arange(300) % 6
    X = (centres[y] + rng.normal(size=(300, 12))).astype(np.float32)
    stream = vs.stream_from(X, y, tasks=3, test_share=0.2)
    model = vs.CandidatesVoting(budget=60, device="cpu")
    for task in stream:
        for x, labels in task:
            model.partial_fit(x, labels, task=task.name)
        samples, truth = task.test
        assert (model.predict(samples) == truth).mean() > 0.9
    first_met = [0, 0, 1, 1, 2, 2]
    assert list(model.task_of_class_[np.searchsorted(model.classes_, model.classes_seen_)]) == first_met
