"""Tasks that are found without being told."""

from __future__ import annotations

import json

import numpy as np
import pytest

import votestream as vs
from votestream.core.tasks import TaskLedger


def tasks_of(labels, close_task_after=20, cut=None):
    ledger, order = TaskLedger(close_task_after), {}
    numbers = [order.setdefault(label, len(order)) for label in labels]
    for i in range(0, len(numbers), cut or len(numbers)):
        list(ledger.cut(numbers[i : i + (cut or len(numbers))]))
    return {label: ledger.task_of_class[number] for label, number in order.items()}


def split_stream(n_tasks, per_task, n, seed):
    rng = np.random.default_rng(seed)
    return [
        label
        for task in range(n_tasks)
        for label in rng.permutation(np.repeat(np.arange(task * per_task, (task + 1) * per_task), n)).tolist()
    ]


@pytest.mark.parametrize(("n_tasks", "per_task"), [(5, 2), (20, 5), (10, 10), (2, 50)])
@pytest.mark.parametrize("seed", range(5))
def test_the_tasks_of_split_benchmarks_are_found(n_tasks, per_task, seed):
    found = tasks_of(split_stream(n_tasks, per_task, 100, seed))
    assert all(found[label] == label // per_task for label in found)


def test_one_class_at_a_time_makes_a_task_of_each():
    found = tasks_of(np.repeat(np.arange(12), 50).tolist())
    assert [found[label] for label in range(12)] == list(range(12))


@pytest.mark.parametrize("shots", [3, 5, 12])
def test_a_few_samples_of_one_class_after_another_make_a_task_of_each(shots):
    found = tasks_of(np.repeat(np.arange(40), shots).tolist())
    assert [found[label] for label in range(40)] == list(range(40))


def test_a_class_that_comes_back_at_once_reunites_the_tasks_in_between():
    assert tasks_of([0, 0, 0, 1, 1, 1, 2, 2, 2]) == {0: 0, 1: 1, 2: 2}
    assert tasks_of([0, 0, 0, 1, 1, 1, 2, 2, 2, 1]) == {0: 0, 1: 1, 2: 1}
    assert tasks_of([0, 0, 0, 1, 1, 1, 2, 2, 2, 0]) == {0: 0, 1: 0, 2: 0}
    assert tasks_of([0, 0, 0, 1, 1, 1, 2, 2, 2] + [2] * 20 + [0]) == {0: 0, 1: 1, 2: 2}
    assert tasks_of([0, 0, 0, 1, 0, 2, 1, 2] * 3 + [3, 3]) == {0: 0, 1: 0, 2: 0, 3: 1}
    assert tasks_of([0, 0, 0, 1, 0, 2, 1, 2] * 3 + [3, 3, 0]) == {0: 0, 1: 0, 2: 0, 3: 0}


def test_a_long_tailed_mixture_is_one_task():
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels = rng.choice(4, 60, p=[0.7, 0.1, 0.1, 0.1]).tolist()
        assert set(tasks_of(labels).values()) == {0}


@pytest.mark.parametrize("shots", [3, 5, 12])
def test_the_tasks_of_a_stream_with_few_samples_are_found(shots):
    for seed in range(5):
        found = tasks_of(split_stream(10, 5, shots, seed))
        together = [found[a] == found[b] for a in found for b in found if a // 5 == b // 5]
        apart = [found[a] != found[b] for a in found for b in found if a // 5 != b // 5]
        assert np.mean(together) > 0.8
        assert np.mean(apart) > 0.95


@pytest.mark.parametrize("cut", [1, 7, 10])
def test_tasks_do_not_depend_on_how_the_stream_is_cut(cut):
    labels = split_stream(6, 3, 40, 0) + np.repeat(np.arange(100, 110), 9).tolist()
    assert tasks_of(labels, cut=cut) == tasks_of(labels)


def test_classes_that_come_back_belong_to_their_first_task_and_open_none():
    labels = split_stream(3, 2, 60, 0)
    found = tasks_of(labels + labels + [100])
    assert max(found.values()) == 3
    assert all(found[label] == label // 2 for label in range(6))


def test_a_patient_ledger_lets_late_classes_join():
    labels = [*[0, 1] * 30, 2, 0]
    assert tasks_of(labels)[2] == 1
    assert tasks_of(labels, close_task_after=100)[2] == 0


def test_a_task_named_again_gets_new_classes_and_keeps_its_old_rows_frozen():
    rng = np.random.default_rng(0)
    model = vs.CandidatesVoting(device="cpu")
    for task, label in (("a", 0), ("b", 1), ("a", 2)):
        before = model.weights_[:1] if label == 2 else None
        model.partial_fit(rng.normal(size=(30, 4)) + label, [label] * 30, task=task)
    assert model.tasks_ == ["a", "b"]
    assert model.task_of_class_.tolist() == [0, 1, 0]
    assert np.array_equal(model.weights_[:1], before)


def test_after_told_tasks_untold_ones_are_found_again():
    rng = np.random.default_rng(0)
    model = vs.CandidatesVoting(device="cpu")
    model.partial_fit(rng.normal(size=(60, 4)), rng.integers(0, 2, 60), task="first")
    model.partial_fit(rng.normal(size=(60, 4)), rng.integers(2, 4, 60))
    assert model.tasks_ == ["first", None]
    assert model.task_of_class_.tolist() == [0, 0, 1, 1]


def test_learning_one_class_at_a_time_does_not_collapse():
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.normal(size=(20, 32))
    for shots, least in ((5, 0.6), (20, 0.9), (60, 0.95)):
        model = vs.CandidatesVoting(budget=200, device="cpu")
        for label in range(20):
            model.partial_fit(centres[label] + rng.normal(size=(shots, 32)), [label] * shots)
        y = rng.integers(0, 20, 500)
        assert (model.predict(centres[y] + rng.normal(size=(500, 32))) == y).mean() > least


def test_the_record_that_any_stream_leaves_is_one_that_can_be_loaded():
    for seed in range(150):
        rng, known = np.random.default_rng(seed), 0
        ledger = TaskLedger(close_after=int(rng.integers(1, 6)))
        for _ in range(8):
            told = rng.random() < 0.25
            if told:
                ledger.begin(["a", "b", 3][rng.integers(3)])
            classes = []
            for _ in range(rng.integers(1, 30)):
                new = known == 0 or rng.random() < 0.12
                known += new
                classes.append(known - 1 if new else int(known - 1 - rng.integers(0, min(known, 4))))
            list(ledger.cut(classes, named=told))
            other = TaskLedger(close_after=1)
            other.restore(json.loads(json.dumps(ledger.to_json())), known)
            assert other.to_json() == ledger.to_json()
