"""Streams as they are in life: each function takes a stream and gives another one over the same data.

They combine: `task_free(blurry(long_tail(stream)))`. No function shows a sample twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from votestream.streams.tasks import Stream


def blurry(stream: Stream, share: float = 0.1, seed: int | None = None) -> Stream:
    """Let a share of each task's samples arrive with the task before or the one after.

    Example:
        >>> from votestream.streams import stream_from
        >>> plain = stream_from(np.zeros((40, 1)), np.repeat([0, 1, 2, 3], 10), tasks=2, order=[0, 1, 2, 3])
        >>> [np.bincount(plain.data.y[task.rows]).tolist() for task in blurry(plain, 0.2)]
        [[8, 8, 2, 2], [2, 2, 8, 8]]
    """
    _check(stream, "blurry", share)
    rng = _rng(stream, "blurry", seed)
    if len(stream) == 1:
        raise ValueError("A stream of one task has no neighbours to leak into: give it more tasks.")
    beside = [[other for other in (n - 1, n + 1) if 0 <= other < len(stream)] for n in range(len(stream))]
    return _moved(stream, share, beside, rng, f"blurry: {share:.0%} of every task arrive with its neighbours")


def repeated(stream: Stream, share: float = 0.2, seed: int | None = None) -> Stream:
    """Hold a share of each task's samples back, and let them arrive over all later tasks: old classes come back.

    Example:
        >>> from votestream.streams import stream_from
        >>> plain = stream_from(np.zeros((30, 1)), np.repeat([0, 1, 2], 10), tasks=3, order=[0, 1, 2])
        >>> [task.classes for task in repeated(plain, 0.4)]
        [[0], [0, 1], [0, 1, 2]]
    """
    _check(stream, "repeated", share)
    rng = _rng(stream, "repeated", seed)
    later = [list(range(n + 1, len(stream))) for n in range(len(stream))]
    return _moved(stream, share, later, rng, f"repeated: {share:.0%} of every task arrive later, among new classes")


def long_tail(stream: Stream, factor: float = 100, rare: str = "random", seed: int | None = None) -> Stream:
    """Thin classes out exponentially: the fullest keeps all its samples, the rarest 1 in `factor`, at least one.

    Args:
        rare: Which classes are rare: "random" ones, the "last" or the "first" to arrive.

    Example:
        >>> from votestream.streams import stream_from
        >>> plain = stream_from(np.zeros((300, 1)), np.repeat([0, 1, 2], 100), tasks=3, order=[0, 1, 2])
        >>> [task.n_samples for task in long_tail(plain, 100, rare="last")]
        [100, 10, 1]
    """
    _check(stream, "long_tail")
    if not factor >= 1:
        raise ValueError(f"factor must be at least 1, not {factor}.")
    if rare not in ("random", "last", "first"):
        raise ValueError(f"rare must be 'random', 'last' or 'first', not {rare!r}.")
    rng = _rng(stream, "long_tail", seed)
    rank = np.arange(len(stream.class_order))
    rank = {"last": rank, "first": rank[::-1], "random": rng.permutation(rank)}[rare]
    rows = np.concatenate(stream.plan)
    kept = np.zeros(len(stream.data.y), bool)
    for place in range(len(rank)):
        mine = rng.permutation(rows[stream.labels[rows] == place])
        kept[mine[: max(round(len(mine) * factor ** (-rank[place] / max(len(rank) - 1, 1))), 1)]] = True
    plan = [task[kept[task]] for task in stream.plan]
    return _changed(stream, plan, f"long tail: the rarest class keeps 1 in {factor:g} samples ({rare})")


def one_class_at_a_time(stream: Stream) -> Stream:
    """Sort each task by class, in the stream's class order: a class ends before the next one begins.

    Example:
        >>> from votestream.streams import stream_from
        >>> plain = stream_from(np.zeros((6, 1)), list("abcabc"), tasks=1, order="bca", batch=2)
        >>> [y.tolist() for x, y in one_class_at_a_time(plain)[0]]
        [['b', 'b'], ['c', 'c'], ['a', 'a']]
    """
    _check(stream, "one_class_at_a_time")
    plan = [rows[np.argsort(stream.labels[rows], kind="stable")] for rows in stream.plan]
    return _changed(stream, plan, "one class at a time")


def task_free(stream: Stream, pieces: int = 1) -> Stream:
    """Forget the boundaries: tasks have no name any more, and a batch may reach from one into the next.

    Args:
        pieces: Where to pause, to be tested: cut the stream into so many parts of equal length, between batches.
            What arrives in which batch does not depend on it.

    Example:
        >>> from votestream.streams import stream_from
        >>> plain = stream_from(np.zeros((10, 1)), np.repeat([0, 1], 5), tasks=2, batch=4, order=[0, 1])
        >>> [[y.tolist() for x, y in task] for task in task_free(plain)]
        [[[0, 0, 0, 0], [0, 1, 1, 1], [1, 1]]]
    """
    _check(stream, "task_free")
    rows = np.concatenate(stream.plan)
    batches = -(-len(rows) // stream.batch)
    if not 1 <= pieces <= batches:
        raise ValueError(f"pieces must lie between 1 and the {batches} batches, not {pieces}.")
    edges = [stream.batch * (batches * i // pieces) for i in range(1, pieces)]
    return replace(stream, plan=tuple(np.split(rows, edges)), told=False)


def _check(stream: Stream, function: str, share: float = 0) -> None:
    if not stream.told:
        raise ValueError(f"{function} needs tasks, which a task-free stream has not: apply task_free last.")
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, not {share}.")


def _rng(stream: Stream, function: str, seed: int | None) -> np.random.Generator:
    """A generator of its own for each function, so that one does not change what another draws."""
    return np.random.default_rng([stream.seed if seed is None else seed, zlib.crc32(function.encode())])


def _moved(stream: Stream, share: float, goals: Sequence[Sequence[int]], rng: np.random.Generator, how: str) -> Stream:
    """Deal a share of each task's samples out to its goals, strewn in there; the rest keeps its order."""
    stay: list[np.ndarray] = []
    arriving: list[list[np.ndarray]] = [[] for _ in stream.plan]
    for rows, others in zip(stream.plan, goals, strict=True):
        if not others:
            stay.append(rows)
            continue
        leaving = np.zeros(len(rows), bool)
        for place in np.unique(stream.labels[rows]):  # the share holds for every class, not only for all together
            mine = np.flatnonzero(stream.labels[rows] == place)
            leaving[rng.permutation(mine)[: round(share * len(mine))]] = True
        stay.append(rows[~leaving])
        dealt = rng.permutation(np.resize(rng.permutation(others), leaving.sum()))
        for other in others:
            arriving[other].append(rows[leaving][dealt == other])
    plan = []
    for rows, parts in zip(stay, arriving, strict=True):
        new = rng.permutation(np.concatenate([*parts, np.empty(0, np.int64)]))
        plan.append(np.insert(rows, rng.integers(0, len(rows) + 1, len(new)), new))
    return _changed(stream, plan, how)


def _changed(stream: Stream, plan: Sequence[np.ndarray], how: str) -> Stream:
    if empty := [number + 1 for number, rows in enumerate(plan) if not len(rows)]:
        raise ValueError(f"Nothing would be left of task {empty[0]}: choose milder parameters.")
    return replace(stream, plan=tuple(plan), how=(*stream.how, how))
