"""`vs.learn` on rows: the same bytes for any workers, close to learning in sequence, nothing lost on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import votestream as vs
from distributed import work
from votestream.core.files import parts_of
from votestream.core.merge import settle
from votestream.distributed.executor import Executor, Here, executor
from votestream.distributed.merge_tree import MergeTree
from votestream.distributed.parts import merged
from votestream.io.model_files import packed

WIDTH, CLASSES = 12, 7


def rows(n=600, seed=0, classes=CLASSES, width=WIDTH):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(n, width)) + 3 * np.random.default_rng(9).normal(size=(classes, width))[y]
    return np.maximum(X, 0).astype(np.float32), [f"class {number}" for number in y]


def content(model) -> bytes:
    """What `save` would write."""
    return packed(*parts_of(model))


class Shuffled(Here):
    """Does the work in this process, in an order of its own, as so many workers might."""

    def __init__(self, workers: int, seed: int) -> None:
        self.workers, self._rng = workers, np.random.default_rng(seed)

    def run(self, make: Callable, items: Iterable) -> Iterator:
        work, drawn, held = make(), enumerate(items), []
        while True:
            while len(held) < 2 * self.workers and (item := next(drawn, None)) is not None:
                held.append(item)
            if not held:
                return
            number, item = held.pop(int(self._rng.integers(len(held))))
            yield number, work(item)


LEARNERS = {
    "gaussian_voting": {"block": 40},
    "slda": {},
    "ncm": {},
    "rls": {},
    "fecam": {},
    "srda": {},
    "ranpac": {"projection": 50},
    "foal": {"projection": 50},
    "klda": {"projection": 50, "draws": 2, "gamma": 0.3},
    "randumb": {"projection": 50, "gamma": 0.3},
    "knn": {"budget": 100},
    "candidates_voting": {"budget": 70},
}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_model_is_the_same_for_1_2_3_and_7_workers_in_any_order(name):
    X, y = rows()
    expected = content(vs.learn(X, y, vs.create(name, **LEARNERS[name]), chunk=50))
    for workers in (1, 2, 3, 7):
        learned = vs.learn(X, y, vs.create(name, **LEARNERS[name]), on=Shuffled(workers, workers), chunk=50)
        assert content(learned) == expected


class WithADeath(Executor):
    """Two processes, one of which is killed at a chunk."""

    name = "processes"

    def __init__(self, place: Executor, marker: Path) -> None:
        self.workers, self._place, self._marker = place.workers, place, marker

    def run(self, make: Callable, items: Iterable) -> Iterator:
        return self._place.run(partial(work.dying_once, make, self._marker), items)

    def close(self) -> None:
        pass


def test_processes_give_the_same_bytes_and_so_they_do_when_one_is_killed(tmp_path):
    X, y = rows()
    expected = content(vs.learn(X, y, vs.GaussianVoting(), chunk=50))
    with executor("processes", 2) as two:
        assert content(vs.learn(X, y, vs.GaussianVoting(), on=two, chunk=50)) == expected
        killed = WithADeath(two, tmp_path / "died")
        assert content(vs.learn(X, y, vs.GaussianVoting(), on=killed, chunk=50)) == expected
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("name", ["ncm", "slda", "rls", "fecam", "srda", "ranpac", "foal", "klda", "randumb"])
def test_statistics_come_out_as_in_sequence_up_to_rounding(name):
    X, y = rows()
    parallel = vs.learn(X, y, vs.create(name, **LEARNERS[name]), chunk=64)
    sequential = vs.create(name, **LEARNERS[name]).partial_fit(X, y, task="task 1")
    assert parallel.tasks_ == sequential.tasks_
    assert parallel.classes_seen_.tolist() == sequential.classes_seen_.tolist()
    settle(sequential)  # or it predicts with what its classes share as that was some rows ago
    sequential.guard.forget()
    # RanPAC holds out other rows, as blocks end elsewhere; the discriminants divide by what float32 sums leave.
    tolerance = {"ranpac": 0.02, "klda": 5e-3, "randumb": 5e-3}.get(name, 1e-4)
    np.testing.assert_allclose(parallel.predict_proba(X), sequential.predict_proba(X), atol=tolerance)


def test_gaussian_voting_predicts_as_in_sequence_for_nearly_every_row():
    X, y = rows(2000)
    parallel = vs.learn(X, y, vs.GaussianVoting(rank=3), chunk=128)
    sequential = vs.GaussianVoting(rank=3).partial_fit(X, y)
    np.testing.assert_array_equal(parallel.class_counts_, sequential.class_counts_)
    np.testing.assert_allclose(parallel.class_means_, sequential.class_means_, atol=1e-4)
    assert np.mean(parallel.predict(X) == sequential.predict(X)) > 0.995


@pytest.mark.parametrize("name", ["candidates_voting", "knn"])
def test_learners_that_cannot_be_merged_learn_as_in_sequence_to_the_last_bit(name):
    X, y = rows(333)
    parallel = vs.learn(X, y, vs.create(name, **LEARNERS[name]), on=Shuffled(3, 0), chunk=37, task="all")
    assert content(parallel) == content(vs.create(name, **LEARNERS[name]).partial_fit(X, y, task="all"))


@pytest.mark.parametrize("name", LEARNERS)
def test_learning_goes_on_next_week(name):
    X, y = rows()
    week1, week2 = [label in ("class 0", "class 1", "class 2") for label in y], [label > "class 1" for label in y]
    model = vs.create(name, **LEARNERS[name])
    for week in (week1, week2):
        own = np.flatnonzero(week)
        model = vs.learn(X[own], [y[i] for i in own], model, chunk=50)
    assert model.tasks_ == ["task 1", "task 2"]
    assert model.task_of_class_.tolist() == [0] * 3 + [1] * 4
    if hasattr(model, "class_counts_"):
        assert model.class_counts_.sum() == sum(week1) + sum(week2)


def test_a_task_that_is_told_is_the_task_of_new_classes():
    X, y = rows()
    assert vs.learn(X, y, vs.GaussianVoting(), task="spring").tasks_ == ["spring"]
    model = vs.CandidatesVoting(budget=70).partial_fit(X, y, task="spring")
    assert vs.learn(X, y, model).tasks_ == ["spring"]  # nothing is new, and so is no task


def test_features_out_of_scale_and_powers_are_begun_as_in_sequence():
    X, y = rows()
    X *= 1e-25
    parallel = vs.learn(X, y, vs.GaussianVoting(), chunk=50)
    assert parallel.state_.unit != 1
    assert np.mean(parallel.predict(X) == np.array(y)) > 0.9
    X[: vs.GaussianVoting().batch_size] -= 1e-25  # negative in the first chunk only
    mixed = vs.learn(X, y, vs.GaussianVoting(), chunk=50)
    assert float(mixed.memory_.power) == 1.0


@pytest.mark.parametrize("name", ["gaussian_voting", "fecam", "ranpac"])
def test_workers_begin_as_the_model_did_whatever_comes_now(name):
    X, y = rows()
    model = vs.create(name, **LEARNERS[name], seed=3).partial_fit(X - 1, y)  # some below zero: no square roots
    model.set_params(seed=4)
    sequential = copy.deepcopy(model).partial_fit(X, y)
    vs.learn(X, y, model, chunk=50)
    assert np.mean(model.predict(X) == sequential.predict(X)) > 0.98


def test_columns_of_a_data_frame_keep_their_names():
    X, y = rows(100)
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(WIDTH)])
    for name in ("slda", "knn"):
        model = vs.learn(frame, y, vs.create(name), chunk=30)
        model = vs.learn(frame, y, model, chunk=30)
        assert model.feature_names_in_.tolist() == list(frame.columns)
        model.predict(frame)


class Failing(Here):
    def run(self, make: Callable, items: Iterable) -> Iterator:
        for number, result in super().run(make, items):
            if number == 3:
                raise KeyboardInterrupt
            yield number, result


@pytest.mark.parametrize("name", LEARNERS)
def test_a_job_that_is_interrupted_leaves_the_model_as_it_was(name):
    X, y = rows()
    model = vs.create(name, **LEARNERS[name])
    with pytest.raises(KeyboardInterrupt):
        vs.learn(X, y, model, on=Failing(), chunk=50)
    assert not model.fitted
    model.partial_fit(X, y)
    before = content(model)
    with pytest.raises(KeyboardInterrupt):
        vs.learn(X, y, model, on=Failing(), chunk=50)
    assert content(model) == before


class Meddling(Here):
    """Somebody else teaches the model meanwhile."""

    def __init__(self, model) -> None:
        self._model = model

    def run(self, make: Callable, items: Iterable) -> Iterator:
        yield from super().run(make, items)
        self._model.partial_fit(*rows(10))


def test_what_the_model_learned_meanwhile_is_not_lost():
    X, y = rows()
    model = vs.GaussianVoting().partial_fit(X, y)
    with pytest.raises(RuntimeError, match="the model has changed while the workers learned"):
        vs.learn(X, y, model, on=Meddling(model))
    assert model.class_counts_.sum() == len(y) + 10


def test_the_track_record_is_that_of_the_model_when_the_job_began():
    X, y = rows(900)
    known = np.flatnonzero([label != "class 6" for label in y])
    first = vs.learn(X[known], [y[i] for i in known], vs.GaussianVoting(track=True), chunk=50)
    record = first.track_record()
    assert (record.samples, record.so_far.tested, record.unknown.met) == (len(known), 0, 0)
    fresh, labels = rows(400, seed=5)
    expected = np.mean([first.predict(fresh[i : i + 1])[0] == labels[i] for i in range(400) if labels[i] != "class 6"])
    both = vs.learn(fresh, labels, copy.deepcopy(first), on=Shuffled(3, 1), chunk=50)
    record = both.track_record()
    assert record.samples == len(known) + 400
    assert record.unknown.met == labels.count("class 6")
    assert record.so_far.right / record.so_far.tested == pytest.approx(expected)
    assert content(both) == content(vs.learn(fresh, labels, copy.deepcopy(first), chunk=50))
    assert both.unknown_score(fresh).max() < 1


def test_a_budget_is_kept():
    X, y = rows()
    model = vs.learn(X, y, vs.GaussianVoting(budget_bytes=2500), chunk=50)
    assert 0 < model.ranks_.max() < 16
    assert model.memory_bytes() <= 2500


def test_a_budget_that_the_classes_outgrow_is_refused_and_the_model_stays():
    X, y = rows()
    model = vs.GaussianVoting(budget_bytes=900, block=1).partial_fit(X[:1], y[:1])
    before = content(model)
    with pytest.raises(ValueError, match="budget_bytes=900 is too small"):
        vs.learn(X, y, model, chunk=50)
    assert content(model) == before


@pytest.mark.parametrize(
    ("X", "y", "options", "said"),
    [
        ([[1.0, np.nan]], ["a"], {}, "X holds NaN in row 0"),
        ([[1.0]], ["a", "b"], {}, "1"),
        ([[1.0]], None, {}, "y is needed"),
        ([[1.0]], ["a"], {"chunk": 0}, "chunk must be an integer from 1 to .*, got 0"),
        ([[1.0]], ["a"], {"task": 1.5}, "task must be"),
        ([[1.0]], ["a"], {"on": "moon"}, "on must be"),
    ],
)
def test_what_cannot_be_learned_is_refused_at_once(X, y, options, said):
    with pytest.raises(ValueError, match=said):
        vs.learn(X, y, vs.GaussianVoting(), **options)


def test_learners_that_train_a_network_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match="use partial_fit"):
        vs.learn(np.zeros((2, 32, 32, 3), np.uint8), ["a", "b"], vs.ExperienceReplay())
    with pytest.raises(TypeError, match="model must be a learner, got str"):
        vs.learn([[1.0]], ["a"], "model.safetensors")  # type: ignore[type-var]


def test_parts_keep_more_directions_than_the_model_which_keeps_as_many_as_it_was_asked_to():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(4000, 60)) * np.linspace(2, 1, 60)).astype(np.float32)
    model, tree = vs.learn(X, ["one"] * 4000, vs.GaussianVoting(rank=8), chunk=50), MergeTree(merged)
    for number in range(80):
        own = X[50 * number : 50 * number + 50]
        tree.add(number, vs.GaussianVoting(rank=8, power=1.0).partial_fit(own, ["one"] * 50))
    assert model.rank == 8
    assert model.ranks_.tolist() == [8]
    true = np.linalg.svd(X - X.mean(0), compute_uv=False)[:8]
    lost, lost_by_eight = (true - one.memory_.now().lengths[0] for one in (model, tree.result()))
    assert lost.sum() < 0.9 * lost_by_eight.sum()


def test_a_model_that_goes_on_keeps_its_rank():
    X, y = rows(2000, classes=2, width=60)
    model = vs.GaussianVoting(rank=4).partial_fit(X[:500], y[:500])
    assert vs.learn(X[500:], y[500:], model, chunk=50).ranks_.tolist() == [4, 4]
