"""Streams as they are in life: what each function promises, alone and combined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import votestream as vs


def plain(n_classes=8, each=50, tasks=4, **how):
    y = np.arange(n_classes * each) % n_classes
    test = np.arange(n_classes)
    return vs.stream_from(np.arange(len(y))[:, None], y, tasks=tasks, test=(test[:, None], test), **how)


def shares(stream):
    """How many samples of each class, in class order, each task has."""
    return np.array([np.bincount(stream.labels[rows], minlength=len(stream.class_order)) for rows in stream.plan])


LIFE = {
    "blurry": lambda stream: vs.blurry(stream, 0.2),
    "repeated": lambda stream: vs.repeated(stream, 0.3),
    "long_tail": lambda stream: vs.long_tail(stream, 10),
    "one_class_at_a_time": vs.one_class_at_a_time,
}


def may_empty_a_task(names):
    """Thinning after moving may leave, of a task's classes, only samples that arrive with other tasks."""
    moving = [place for place, name in enumerate(names) if name in ("blurry", "repeated")]
    return bool(moving) and "long_tail" in names[moving[0] :]


@settings(max_examples=60, deadline=None)
@example(["repeated", "long_tail", "long_tail", "long_tail"], False, 0, 1)
@given(st.lists(st.sampled_from(sorted(LIFE)), max_size=5), st.booleans(), st.integers(0, 3), st.integers(1, 13))
def test_however_combined_no_sample_comes_twice_and_all_is_reproducible(names, free, seed, batch):
    def make():
        stream = plain(seed=seed, batch=batch)
        for name in names:
            stream = LIFE[name](stream)
        return vs.task_free(stream, 3) if free else stream

    try:
        stream = make()
    except ValueError as problem:
        if may_empty_a_task(names) and "Nothing would be left of task" in str(problem):
            return
        raise
    rows = np.concatenate(make().plan)
    assert len(np.unique(rows)) == len(rows)
    assert stream.left_out == (0 if "long_tail" not in names else 400 - len(rows))
    assert all(np.array_equal(a, b) for a, b in zip(stream.plan, make().plan, strict=True))
    assert set(stream.class_order) == set(range(8)) == {label for task in stream for label in task.new_classes}
    seen = [label for task in stream for _, y in task for label in y.tolist()]
    assert seen == [row % 8 for row in rows]


@pytest.mark.parametrize("name", sorted(LIFE))
def test_parameters_are_printed_and_the_given_stream_stays_as_it_is(name):
    stream = plain()
    before = [rows.copy() for rows in stream.plan]
    changed = LIFE[name](stream)
    assert all(np.array_equal(a, b) for a, b in zip(before, stream.plan, strict=True))
    assert len(str(changed).splitlines()) > len(str(stream).splitlines())


def test_blurry_leaks_its_share_into_both_neighbours_and_nowhere_else():
    counts = shares(vs.blurry(plain(), 0.2))
    for number, row in enumerate(counts.reshape(4, 4, 2).sum(2)):
        assert row[number] == 80
    groups = counts.reshape(4, 4, 2).sum(2)  # samples of task j's classes that arrive with task i
    assert groups[0].tolist() == [80, 10, 0, 0]
    assert groups[1].tolist() == [20, 80, 10, 0]
    assert groups[3].tolist() == [0, 0, 10, 80]


def test_blurry_strays_are_strewn_over_the_whole_task():
    stream = vs.blurry(plain(each=500), 0.4)
    places = np.flatnonzero(stream.labels[stream.plan[1]] < 2) / len(stream.plan[1])
    assert 0.45 < places.mean() < 0.55


def test_classes_met_early_are_tested_early():
    stream = vs.blurry(plain(), 0.2)
    assert len(stream[0].new_classes) == 4
    assert set(stream[0].test[1].tolist()) == set(stream[0].new_classes)


def test_repeated_brings_old_classes_back_in_every_later_task_and_none_early():
    counts = shares(vs.repeated(plain(), 0.3)).reshape(4, 4, 2).sum(2)
    assert np.array_equal(counts, np.tril(counts))
    assert counts[:, 0].tolist() == [70, 10, 10, 10]
    assert counts[:, 3].tolist() == [0, 0, 0, 100]


@pytest.mark.parametrize("rare", ["last", "first"])
def test_long_tail_thins_out_exponentially(rare):
    counts = shares(vs.long_tail(plain(each=100), 100, rare=rare)).sum(0)
    wanted = [round(100 * 100 ** (-i / 7)) for i in range(8)]
    assert counts.tolist() == (wanted if rare == "last" else wanted[::-1])


def test_long_tail_draws_the_rare_classes_and_keeps_at_least_one_sample():
    counts = shares(vs.long_tail(plain(each=20), 1000)).sum(0)
    assert counts.min() == 1
    assert counts.max() == 20
    assert sorted(counts, reverse=True) != counts.tolist()


def test_long_tail_says_how_many_do_not_arrive():
    stream = vs.long_tail(plain(), 50)
    assert stream.left_out == 400 - stream.n_samples > 0
    assert f"{stream.left_out} training samples do not arrive" in str(stream)


def test_one_class_ends_before_the_next_begins():
    for task in vs.one_class_at_a_time(plain()):
        labels = np.concatenate([y for _, y in task])
        assert (np.diff(labels) != 0).sum() == 1
        assert list(dict.fromkeys(labels.tolist())) == task.classes


def test_task_free_tells_no_boundaries_and_batches_cross_them():
    stream = vs.task_free(plain(batch=30), pieces=3)
    assert [task.name for task in stream] == [None] * 3
    assert "3 pieces without boundaries" in str(stream)
    sizes = [len(y) for task in stream for _, y in task]
    assert sizes == [30] * 13 + [10]
    groups = {frozenset(np.unique(stream.labels[rows] // 2)) for rows in stream.plan}
    assert any(len(group) > 1 for group in groups)


def test_pauses_do_not_change_what_arrives_in_which_batch():
    runs = [[y.tolist() for task in vs.task_free(plain(batch=7), k) for _, y in task] for k in (1, 3, 10)]
    assert runs[0] == runs[1] == runs[2]


def test_functions_draw_independently_of_each_other():
    alone = vs.long_tail(plain(), 10)
    combined = vs.long_tail(vs.blurry(plain()), 10)
    assert shares(alone).sum(0).tolist() == shares(combined).sum(0).tolist()


def test_a_seed_of_its_own_changes_only_the_function():
    one, two = vs.blurry(plain(), 0.2, seed=1), vs.blurry(plain(), 0.2, seed=2)
    assert one.class_order == two.class_order
    assert not np.array_equal(one.plan[1], two.plan[1])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: vs.blurry(plain(), 1.5), "share must lie between 0 and 1, not 1.5"),
        (lambda: vs.repeated(plain(), -0.1), "share must lie between 0 and 1, not -0.1"),
        (lambda: vs.blurry(plain(tasks=1)), "no neighbours"),
        (lambda: vs.repeated(plain(), 1.0), "Nothing would be left of task 1"),
        (lambda: vs.long_tail(vs.repeated(plain(), 0.9), 1000, rare="first"), "left of task 2: choose milder"),
        (lambda: vs.long_tail(plain(), 0.5), "factor must be at least 1"),
        (lambda: vs.long_tail(plain(), rare="often"), "rare must be"),
        (lambda: vs.task_free(plain(), 41), "between 1 and the 40 batches"),
        (lambda: vs.blurry(vs.task_free(plain())), "apply task_free last"),
        (lambda: vs.one_class_at_a_time(vs.task_free(plain())), "apply task_free last"),
    ],
)
def test_wrong_parameters_are_named(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()
