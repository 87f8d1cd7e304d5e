"""Small streams that every test may use."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

import votestream as vs
from votestream.learners.network.network_learner import NetworkLearner
from votestream.testing.samples import ImageSamples as ImageStream
from votestream.testing.samples import Samples as Stream


@vs.register_backbone("pixels")
def pixels(name, **options):
    """Features that are the pixels: whatever becomes of an image can be followed."""
    flat = torch.nn.Flatten()
    return vs.from_module(flat, input_size=2, mean=(0.5,) * 3, std=(0.12,) * 3, name=name, **options)


# Settings that suit streams as short as ours: systems solved in no time, steps that get somewhere in 180 samples.
FOR_TESTS = {
    "ranpac": {"projection": 60},
    "foal": {"projection": 60},
    "klda": {"projection": 60, "draws": 2, "gamma": 0.1},
    "randumb": {"projection": 60, "gamma": 0.1},
    "er_features": {"lr": 0.3},
    "joint": {"max_iter": 12},
}


@vs.register_backbone("tiny")
def tiny(name, **options):
    """A network that is trained in no time and has what a large one has: convolutions and batch norms."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.Tanh(), torch.nn.Flatten()
        )
    return vs.from_module(network, input_size=2, mean=(0.5,) * 3, std=(0.12,) * 3, name=name, **options)


def make_on_features(name):
    return lambda **params: vs.create(name, **{"device": "cpu", **FOR_TESTS.get(name, {}), **params})


def make_on_images(name):
    return lambda **params: vs.create(name, backbone="pixels", learner=vs.CandidatesVoting(device="cpu", **params))


# What the defaults, made for thousands of steps, need on a stream of 18 mini-batches; and less to train on.
ON_TINY = {
    "agem": {"replay": 100},
    "aser": {"budget": 60},
    "gdumb": {"budget": 100, "passes": 8, "lr": 0.05},
    "gss": {"budget": 60},
}
# The offline rivals: few and large steps, and a mirrored image of 2 x 2 is another class.
OFFLINE = {"lr": 0.1, "epochs": 6, "batch_size": 90, "augment": False}
ON_TINY |= {name: {**OFFLINE, "budget": 60, "max_waiting": 300} for name in ("bic", "eeil", "icarl", "kd", "wa")}
ON_TINY["finetune"] = {**ON_TINY["kd"], "lr": 0.2}
ON_TINY["lwf"] = {**ON_TINY["kd"], "lr": 0.05, "weight_decay": 0.1}
ON_TINY["joint_images"] = {**OFFLINE, "lr": 0.3, "batch_size": 900}


def make_on_network(name):
    settings = {"backbone": "tiny", "device": "cpu", **ON_TINY.get(name, {})}
    return lambda **params: vs.create(name, **{**settings, **params})


TRAINED = {name for name in vs.list_learners() if isinstance(vs.create(name), NetworkLearner)}
ON_IMAGES = {"image_classifier", *TRAINED}
ON_FEATURES = [name for name in vs.list_learners() if name not in ON_IMAGES]


def maker(name):
    """A function that makes the learner, with settings that suit the tests and any arguments besides."""
    how = make_on_network if name in TRAINED else make_on_images if name in ON_IMAGES else make_on_features
    return how(name)


@contextmanager
def one_thread():
    """On a network as small as these, two threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def stream(request):
    """Features, or images where the learner under contract is one on images."""
    on_images = "make" in request.fixturenames and request.getfixturevalue("make").on_images
    return ImageStream() if on_images else Stream()


@pytest.fixture(params=vs.list_learners())
def make(request):
    """Makes the learner under contract, with any arguments; runs once for each that is registered."""
    create = maker(request.param)
    create.on_images = request.param in ON_IMAGES
    with one_thread() if request.param in TRAINED else nullcontext():
        yield create


@pytest.fixture(params=ON_FEATURES)
def make_on_arrays(request):
    """The same, only for learners that take features."""
    return make_on_features(request.param)


def same_model(one, other):
    """Whether two models hold the same, bit for bit."""
    mine, theirs = one.memory_.arrays(), other.memory_.arrays()
    return (
        list(one.classes_seen_) == list(other.classes_seen_)
        and one.task_of_class_.tolist() == other.task_of_class_.tolist()
        and mine.keys() == theirs.keys()
        and all(mine[k].dtype == theirs[k].dtype and np.array_equal(mine[k], theirs[k]) for k in mine)
    )
