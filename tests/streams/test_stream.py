"""Streams: every sample once, nothing dropped, nothing set aside, all of it decided by the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import votestream as vs

from .samples import write_cifar10, write_cifar100, write_image


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_cifar10(folder)
    write_cifar100(folder)
    return folder


def numbered(n_classes=6, each=7, **how):
    """A stream over samples that are their own row numbers."""
    y = np.arange(n_classes * each) % n_classes
    return vs.stream_from(np.arange(len(y))[:, None], y, **how)


def batches(stream):
    return [(x.tolist(), y.tolist()) for task in stream for x, y in task]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 11), st.integers(0, 5), st.data())
def test_every_sample_arrives_exactly_once_with_its_label(n_classes, each, batch, seed, data):
    tasks = data.draw(st.integers(1, n_classes))
    stream = numbered(n_classes, each, tasks=tasks, batch=batch, seed=seed)
    pairs = [(row, label) for x, y in batches(stream) for (row,), label in zip(x, y, strict=True)]
    assert sorted(pairs) == [(row, row % n_classes) for row in range(n_classes * each)]


def test_the_last_batch_is_small_and_not_dropped():
    stream = numbered(2, 8, tasks=1, batch=10)
    assert [len(y) for _, y in stream[0]] == [10, 6]
    assert len(stream[0]) == 2


def test_the_same_seed_gives_the_same_stream_and_another_one_another():
    assert batches(numbered(seed=3)) == batches(numbered(seed=3))
    assert batches(numbered(seed=3)) != batches(numbered(seed=4))
    stream = numbered(seed=3)
    assert batches(stream) == batches(stream)


def test_a_seed_means_the_same_in_every_release():
    stream = numbered(4, 3, tasks=2, seed=0)
    assert stream.class_order == [2, 0, 1, 3]
    assert [rows.tolist() for rows in stream.plan] == [[10, 6, 4, 8, 2, 0], [11, 5, 9, 7, 3, 1]]


def test_the_order_does_not_depend_on_the_batch_size():
    rows = [np.concatenate([x for task in numbered(batch=b) for x, _ in task]).ravel() for b in (1, 4, 100)]
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0], rows[2])


def test_split_cifar10_is_five_tasks_of_two(data_dir):
    stream = vs.stream("split-cifar10", data_dir=data_dir)
    assert [len(task.classes) for task in stream] == [2] * 5
    assert stream.batch == 10
    x, y = next(iter(stream[0]))
    assert x.shape == (10, 32, 32, 3)
    assert set(y.tolist()) <= set(stream[0].classes)


def test_split_cifar100_is_twenty_tasks_of_five(data_dir):
    stream = vs.stream("split-cifar100", data_dir=data_dir)
    assert [len(task.classes) for task in stream] == [5] * 20
    assert stream.n_samples == 300


@pytest.mark.parametrize(("tasks", "step"), [(20, 5), (10, 10), (5, 20), (2, 50)])
def test_the_offline_comparison_has_the_fields_order(data_dir, tasks, step):
    stream = vs.stream("split-cifar100", tasks=tasks, order=1993, data_dir=data_dir)
    assert stream.class_order[:10] == [68, 56, 78, 8, 23, 84, 90, 65, 74, 76]
    assert sorted(stream.class_order) == list(range(100))
    assert [len(task.classes) for task in stream] == [step] * tasks
    assert stream[0].classes == stream.class_order[:step]


def test_tests_are_of_all_classes_so_far_and_of_no_other(data_dir):
    stream = vs.stream("split-cifar10", data_dir=data_dir)
    for task in stream:
        X, y = task.test
        assert set(y.tolist()) == set(stream.class_order[: 2 * (task.number + 1)])
        assert len(X) == len(y) == 4 * (task.number + 1)
    official = stream.data.X_test[np.isin(stream.data.y_test, stream[0].classes)]
    assert np.array_equal(stream[0].test[0], official)


def test_what_a_learner_does_to_a_batch_stays_in_it(data_dir):
    stream = vs.stream("split-cifar10", data_dir=data_dir)
    before = batches(stream)
    for task in stream:
        for x, y in task:
            x[:], y[:] = 0, 0
        task.test[0][:] = 0
    assert batches(stream) == before
    assert stream[4].test[0].any()


def test_no_sample_is_set_aside_unless_asked(data_dir):
    assert vs.stream("split-cifar10", data_dir=data_dir).left_out == 0
    stream = vs.stream("split-cifar10", test_share=0.2, data_dir=data_dir)
    assert (stream.n_samples, len(stream[-1].test[1])) == (80, 20)
    assert "tested on 20%" in str(stream)


def test_setting_aside_costs_no_memory_and_can_be_nested(data_dir):
    data = vs.load_data("cifar10", data_dir)
    once = data.set_aside(0.2, seed=1)
    assert once.X.X is data.X
    twice = once.set_aside(0.5, seed=2)
    assert (len(twice.y), len(twice.y_test)) == (40, 40)
    for X, y in ((twice.X, twice.y), (twice.X_test, twice.y_test)):
        assert (data.y[X.rows] == y).all()
        assert np.array_equal(X[:], data.X[X.rows])


def test_print_shows_the_class_order(data_dir):
    text = str(vs.stream("split-cifar100", order=1993, tasks=10, seed=5, data_dir=data_dir))
    assert text.startswith("split-cifar100: 10 tasks, 100 classes, 300 samples in batches of 10, seed 5")
    assert "class order: 68, 56, 78, 8, 23," in text


def test_tasks_have_names_numbers_and_lengths():
    stream = numbered(6, 7, tasks=3, batch=4)
    assert [(task.name, task.number, len(task), task.n_samples) for task in stream] == [
        ("task 1", 0, 4, 14),
        ("task 2", 1, 4, 14),
        ("task 3", 2, 4, 14),
    ]
    assert len(stream) == 3
    assert stream[-1].number == 2


def test_a_whole_task_at_once_is_its_batches_in_order():
    task = numbered()[1]
    assert np.array_equal(task.train[0], np.concatenate([x for x, _ in task]))
    assert np.array_equal(task.train[1], np.concatenate([y for _, y in task]))


def test_sizes_of_tasks_and_orders_of_classes_can_be_given():
    stream = numbered(6, 7, tasks=[3, 1, 2], order=[5, 4, 3, 2, 1, 0])
    assert [task.classes for task in stream] == [[5, 4, 3], [2], [1, 0]]
    assert [len(task.classes) for task in numbered(5, 2, tasks=3)] == [2, 2, 1]


def test_without_shuffling_samples_come_as_they_lie():
    stream = numbered(4, 3, tasks=2, order=[0, 1, 2, 3], shuffle=False)
    assert [rows.tolist() for rows in stream.plan] == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]


def test_arrays_may_be_tensors_lists_and_files(tmp_path):
    X = torch.arange(12.0, requires_grad=True).reshape(6, 2)
    table = np.array(list("aabbcc"), object)
    assert batches(vs.stream_from(X, table)) == batches(vs.stream_from(X, list("aabbcc")))
    assert batches(vs.stream_from(X, torch.arange(6))) == batches(vs.stream_from(X, range(6)))
    assert batches(vs.stream_from(X, list("aabbcc"))) == batches(vs.stream_from(X.tolist(), np.array(list("aabbcc"))))
    paths = [str(write_image(tmp_path / f"{i}.png", i)) for i in range(4)]
    stream = vs.stream_from(paths, [0, 0, 1, 1], tasks=1, batch=4, shuffle=False)
    assert next(iter(stream[0]))[0][:, 0, 0, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": [0, 1]}, "6 samples, but 2 labels"),
        ({"y": np.zeros(6)}, "whole numbers or texts, not float64"),
        ({"y": np.array([1, "a", 2, 3, 4, 5], object)}, "whole numbers or texts, not object"),
        ({"X": np.arange(6)}, r"X must be numbers \(n, ...\)"),
        ({"X": np.empty((0, 2)), "y": np.empty(0, int)}, "no samples"),
        ({"tasks": 4}, "between 1 and the 3 classes, not 4"),
        ({"tasks": 0}, "between 1 and the 3 classes, not 0"),
        ({"tasks": [2, 2]}, r"add up to 3, not \[2, 2\]"),
        ({"order": [0, 1]}, "each of the 3 classes once; look at \\['2'\\]"),
        ({"order": [0, 1, 1, 2]}, "each of the 3 classes once"),
        ({"batch": 0}, "batch must be a whole number, at least 1, not 0"),
        ({"test_share": 1.5}, "between 0 and 1, not 1.5"),
        ({"test": (np.zeros((2, 2)), [0])}, "test part of arrays has 2 samples, but 1 labels"),
    ],
)
def test_wrong_arguments_are_named(change, complaint):
    arguments = {"X": np.zeros((6, 2)), "y": [0, 0, 1, 1, 2, 2]} | change
    with pytest.raises(ValueError, match=complaint):
        vs.stream_from(**arguments)


def test_test_classes_that_are_never_learned_are_left_out_by_name():
    with pytest.warns(vs.DataWarning, match=r"never learned, \[9\]"):
        stream = vs.stream_from(np.zeros((4, 1)), [0, 0, 1, 1], test=(np.zeros((3, 1)), [0, 1, 9]))
    assert stream[-1].test[1].tolist() == [0, 1]


def test_one_sample_a_class_cannot_be_split():
    with (
        pytest.warns(vs.DataWarning, match="classes 0, 1 have one sample only"),
        pytest.raises(vs.DataError, match="none can be set aside"),
    ):
        vs.stream_from(np.zeros((2, 1)), [0, 1], test_share=0.5)
