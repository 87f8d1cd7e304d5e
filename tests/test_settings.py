"""Constructor arguments: checked when they are used, saved as they can be loaded, and never silently without effect."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import votestream as vs
from conftest import ON_FEATURES, Stream, make_on_features


def test_numpy_numbers_as_arguments_can_be_saved_and_loaded(make, stream, tmp_path):
    given = make().get_params(deep=False)
    as_numpy = {name: np.array(value)[()] for name, value in given.items() if isinstance(value, (bool, int, float))}
    model = make(**as_numpy).partial_fit(stream.X[:20], stream.y[:20])
    model.save(tmp_path / "m.safetensors")
    again = vs.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.predict(stream.X), model.predict(stream.X))


def test_a_device_object_can_be_saved(stream, tmp_path):
    vs.NearestClassMean(device=torch.device("cpu")).partial_fit(stream.X, stream.y).save(tmp_path / "m.safetensors")
    assert vs.load(tmp_path / "m.safetensors").device == "cpu"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("candidates_voting", {"lr": float("nan")}),
        ("candidates_voting", {"batch_size": 0}),
        ("candidates_voting", {"decide": "toss a coin"}),
        ("candidates_voting", {"augment": "yes"}),
        ("candidates_voting", {"seed": "lucky"}),
        ("gaussian_voting", {"temperature": -1}),
        ("gaussian_voting", {"close_task_after": 1.5}),
        ("slda", {"shrinkage": 2}),
        ("ncm", {"device": "abacus"}),
        ("knn", {"k": 0}),
        ("er_features", {"lr": "fast"}),
        ("fecam", {"gamma": 0}),
        ("srda", {"alpha": 2}),
        ("klda", {"shrinkage": "some"}),
        ("randumb", {"gamma": -1}),
        ("foal", {"ridge": 0}),
    ],
)
def test_a_wrong_argument_set_later_is_named_when_it_is_used_and_never_saved(name, wrong, stream, tmp_path):
    model = make_on_features(name)().partial_fit(stream.X, stream.y)
    right = model.get_params(deep=False)
    model.set_params(**wrong)
    for use in (lambda: model.partial_fit(stream.X, stream.y), lambda: model.save(tmp_path / "m.safetensors")):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            use()
    assert not (tmp_path / "m.safetensors").exists()
    model.set_params(**right).partial_fit(stream.X, stream.y).save(tmp_path / "m.safetensors")
    assert vs.load(tmp_path / "m.safetensors").get_params() == model.get_params()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("candidates_voting", {"budget": 50}),
        ("candidates_voting", {"keep": "reservoir"}),
        ("gaussian_voting", {"block": 3}),
        ("gaussian_voting", {"power": 2.0}),
        ("knn", {"budget": 10**9}),
        ("ranpac", {"projection": 7}),
        ("klda", {"draws": 7}),
        ("randumb", {"gamma": 7.0}),
    ],
)
def test_what_learning_began_with_cannot_be_changed_later(name, change, stream, tmp_path):
    """It would hold for the file and not for the model, or the other way round."""
    model = make_on_features(name)().partial_fit(stream.X, stream.y).set_params(**change)
    with pytest.raises(ValueError, match=f"{next(iter(change))} was .* when learning began"):
        model.partial_fit(stream.X, stream.y)
    with pytest.raises(ValueError, match="when learning began"):
        model.save(tmp_path / "m.safetensors")
    assert model.fit(stream.X, stream.y).get_params()[next(iter(change))] == next(iter(change.values()))


def test_what_answers_are_made_with_may_change_at_any_time(stream):
    model = vs.CandidatesVoting(device="cpu").partial_fit(stream.X, stream.y)
    model.predict(stream.X)
    assert model.set_params(beta=0.25).beta_ == 0.25
    assert np.array_equal(
        model.set_params(decide="nearest").predict(stream.X),
        vs.CandidatesVoting(device="cpu", decide="nearest").partial_fit(stream.X, stream.y).predict(stream.X),
    )
    model = vs.StreamingLDA(device="cpu").partial_fit(stream.X, stream.y)
    sharp = model.predict_proba(stream.X)
    assert not np.array_equal(model.set_params(shrinkage=1.0).predict_proba(stream.X), sharp)


def test_an_argument_given_beside_a_preset_wins(stream):
    model = vs.CandidatesVoting(preset="paper", beta=0.1, device="cpu").partial_fit(stream.X, stream.y)
    assert model.beta_ == model.get_params()["beta"] == 0.1
    assert vs.CandidatesVoting(preset="paper", device="cpu").partial_fit(stream.X, stream.y).beta_ == 0.5


# ---- learners from outside ------------------------------------------------------------------------


class Sums:
    """A helper class of somebody else's."""

    __slots__ = ("rows",)

    def __init__(self):
        self.rows = np.zeros((10, 12))


@pytest.fixture
def outside():
    """A learner of another package."""

    class Mine(vs.NearestClassMean):
        def begin(self, *args, **options):
            self.sums = {"a": [Sums()]}
            return super().begin(*args, **options)

    return Mine


def test_memory_bytes_count_what_classes_from_outside_hold(outside, stream):
    plain = vs.NearestClassMean(device="cpu").partial_fit(stream.X, stream.y)
    assert outside(device="cpu").partial_fit(stream.X, stream.y).memory_bytes() == plain.memory_bytes() + 960


def test_a_learner_without_a_name_of_its_own_is_not_saved_as_its_parent(outside, stream, tmp_path):
    model = outside(device="cpu").partial_fit(stream.X, stream.y)
    with pytest.raises(TypeError, match=r"Mine is not registered.*@votestream\.register"):
        model.save(tmp_path / "m.safetensors")
    vs.register("mine")(outside)
    model.save(tmp_path / "m.safetensors")
    assert type(vs.load(tmp_path / "m.safetensors")) is outside


def test_a_name_is_not_taken_twice(outside):
    with pytest.raises(
        ValueError, match=r"'slda' is registered already: votestream\.learners\.statistics\.slda\.StreamingLDA"
    ):
        vs.register("slda")(outside)
    assert type(vs.create("slda")) is vs.StreamingLDA
    vs.register("mine")(outside)
    assert vs.register("mine")(outside) is outside  # a notebook's cell run twice


@pytest.mark.parametrize("name", ON_FEATURES)
def test_the_same_stream_cut_differently_gives_the_same_file(name, tmp_path):
    stream = Stream()
    files = []
    for cuts in (range(0, 180, 10), [0, 60, 120], [0, 10, 130, 170]):
        model = make_on_features(name)()
        for start, end in zip(cuts, [*list(cuts)[1:], 180], strict=True):
            model.partial_fit(stream.X[start:end], stream.y[start:end])
        model.save(tmp_path / "m.safetensors")
        files.append((tmp_path / "m.safetensors").read_bytes())
    assert files[0] == files[1] == files[2]
