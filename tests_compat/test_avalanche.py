"""VoteStream's learners in Avalanche's benchmarks, and Avalanche's benchmarks as streams."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import votestream as vs

pytest.importorskip("avalanche")
from avalanche.benchmarks import benchmark_from_datasets, class_incremental_benchmark, split_online_stream
from avalanche.benchmarks.utils import TransformGroups, as_classification_dataset
from avalanche.evaluation.metrics import accuracy_metrics, forgetting_metrics, loss_metrics
from avalanche.training.plugins import EvaluationPlugin
from PIL import Image

from votestream.compat.avalanche import VoteStreamStrategy, as_samples, stream_from_avalanche
from votestream.testing.samples import Samples

LEARNERS = {"ncm": {}, "slda": {}, "rls": {}, "fecam": {}, "gaussian_voting": {}, "ranpac": {"projection": 60}}
LEARNERS |= {"candidates_voting": {}, "er_features": {"lr": 0.3}, "knn": {}, "joint": {"max_iter": 12}}


def data_set(X, y):
    data = torch.utils.data.TensorDataset(X, y)
    data.targets = y.tolist()
    return as_classification_dataset(data)


def features():
    """Class-incremental: three experiences of two classes."""
    samples = Samples()
    X, y = torch.tensor(samples.X), torch.tensor(samples.y)
    parts = [data_set(X[y // 2 == i], y[y // 2 == i]) for i in range(3)]
    return benchmark_from_datasets(train=parts, test=parts)


def arrays(experience):
    data = experience.dataset
    pairs = [data[i] for i in range(len(data))]
    return np.stack([x.numpy() for x, _ in pairs]), np.array([int(y) for _, y in pairs])


def evaluator():
    kinds = accuracy_metrics(minibatch=True, experience=True, stream=True)
    return EvaluationPlugin(kinds, loss_metrics(stream=True), forgetting_metrics(stream=True), loggers=[])


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_runs_with_the_evaluation_plugin(name):
    benchmark = features()
    learner = vs.create(name, device="cpu", **LEARNERS[name])
    strategy = VoteStreamStrategy(learner=learner, evaluator=evaluator())
    for experience in benchmark.train_stream:
        strategy.train(experience)
        found = strategy.eval(benchmark.test_stream)
    X, y = (np.concatenate(p) for p in zip(*map(arrays, benchmark.test_stream), strict=True))
    assert found["Top1_Acc_Stream/eval_phase/test_stream"] == pytest.approx(learner.score(X, y))
    own = learner.predict_proba(X)[np.arange(len(y)), y]
    loss = -np.log(np.maximum(own, 1e-12)).mean()
    assert found["Loss_Stream/eval_phase/test_stream"] == pytest.approx(loss, rel=1e-3, abs=1e-6)
    assert "StreamForgetting/eval_phase/test_stream" in found
    assert learner.tasks_ == ["experience 1", "experience 2", "experience 3"]
    assert learner.task_of_class_.tolist() == [0, 0, 1, 1, 2, 2]


def test_training_accuracy_is_that_of_predicting_before_learning():
    """Six mini-batches of ten, the first of which nobody could know."""
    benchmark, found = features(), []
    plain = vs.NearestClassMean()
    strategy = VoteStreamStrategy(learner=vs.NearestClassMean(), evaluator=evaluator())
    strategy.train(benchmark.train_stream[0], shuffle=False)
    X, y = arrays(benchmark.train_stream[0])
    for start in range(0, len(y), 10):
        rows, labels = X[start : start + 10], y[start : start + 10]
        answers = plain.predict(rows) if start else np.zeros(10)
        found.append(np.mean(answers == labels))
        plain.partial_fit(rows, labels, task="experience 1")
    told = strategy.evaluator.get_all_metrics()["Top1_Acc_MB/train_phase/train_stream"][1]
    assert told == pytest.approx(found)
    assert strategy.learner.class_means_.tolist() == plain.class_means_.tolist()


@pytest.mark.parametrize("told", [True, False])
def test_an_online_stream_gives_boundaries_only_where_it_says_so(told):
    stream = split_online_stream(features().train_stream, experience_size=10, access_task_boundaries=told)
    strategy = VoteStreamStrategy(learner=vs.NearestClassMean(), evaluator=None)
    for experience in stream:
        strategy.train(experience)
    assert strategy.learner.tasks_ == (["experience 1", "experience 2", "experience 3"] if told else [None, None, None])


def images(n=24):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 4
    return (60 * y[:, None, None, None] + rng.integers(0, 40, (n, 8, 8, 3))).astype(np.uint8), y


class Photos(torch.utils.data.Dataset):
    """As torchvision's data sets are: pairs of a PIL image and a number, and `targets`."""

    def __init__(self):
        self.X, self.targets = images()

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return Image.fromarray(self.X[i]), int(self.targets[i])


def on_images(transform):
    data = as_classification_dataset(Photos(), TransformGroups({"train": (transform, None), "eval": (transform, None)}))
    return class_incremental_benchmark({"train": data, "test": data}, num_experiences=2, seed=1)


def to_tensor(image):
    return torch.tensor(np.array(image)).permute(2, 0, 1) / 255


def test_images_reach_the_backbone_as_they_were():
    benchmark = on_images(to_tensor)
    model = vs.ImageClassifier("reduced_resnet18", vs.NearestClassMean())
    strategy = VoteStreamStrategy(learner=model, evaluator=evaluator())
    for experience in benchmark.train_stream:
        strategy.train(experience)
    found = strategy.eval(benchmark.test_stream)
    X, y = images()
    assert found["Top1_Acc_Stream/eval_phase/test_stream"] == pytest.approx(model.score(X, y))
    plain = vs.NearestClassMean().partial_fit(vs.create_backbone("reduced_resnet18")(X), y)
    assert np.allclose(model.class_means_, plain.class_means_, atol=1e-5)


def test_normalised_images_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"must hold values in \[0, 1\], got -1 to 1: leave out Normalize"):
        as_samples(torch.tensor([[[[-1.0, 1.0]]] * 3]))
    with pytest.raises(ValueError, match=r"must be \(n, 3, H, W\) or \(n, 1, H, W\), got \(1, 2, 4, 4\)"):
        as_samples(torch.zeros(1, 2, 4, 4))


def test_what_is_no_learner_of_ours_is_refused():
    with pytest.raises(TypeError, match=r"learner must be one of VoteStream's, as vs.GaussianVoting\(\), got 'slda'"):
        VoteStreamStrategy(learner="slda")


def test_a_benchmark_of_features_becomes_a_stream():
    stream = stream_from_avalanche(features(), batch=7)
    assert [(task.name, task.classes, task.n_samples) for task in stream] == [
        (f"task {i + 1}", [2 * i, 2 * i + 1], 60) for i in range(3)
    ]
    model = vs.StreamingLDA()
    for task in stream:
        for x, y in task:
            model.partial_fit(x, y, task=task.name)
    assert len(stream[1].test[1]) == 120
    assert model.score(*stream[2].test) > 0.9


def test_the_order_within_a_task_is_drawn_by_the_seed_or_left():
    benchmark = features()
    first = arrays(benchmark.train_stream[0])[1].tolist()
    left = stream_from_avalanche(benchmark, shuffle=False)
    assert left[0].train[1].tolist() == first
    drawn = [stream_from_avalanche(benchmark, seed=seed)[0].train[1].tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[2]) == sorted(first)


@pytest.mark.parametrize("transform", [None, to_tensor])
def test_a_benchmark_of_images_becomes_a_stream_of_the_same_images(transform):
    stream = stream_from_avalanche(on_images(transform), shuffle=False)
    X, y = images()
    for task in stream:
        own, labels = task.train
        assert own.dtype == np.uint8
        assert len(own) == 12
        for image, label in zip(own, labels, strict=True):
            assert (image == X[y == label]).all((1, 2, 3)).sum() == 1


def test_images_of_several_sizes_are_refused_with_what_to_do():
    parts = [data_set(torch.zeros(2, 3, size, size), torch.zeros(2, dtype=torch.int64)) for size in (4, 5)]
    with pytest.raises(vs.DataError, match="differ in size: give it a transform that resizes them"):
        stream_from_avalanche(benchmark_from_datasets(train=parts, test=parts))
