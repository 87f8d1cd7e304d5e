"""The merge tree: one result, whatever comes first; few parts held."""

from __future__ import annotations

import random

import pytest

from votestream.distributed.merge_tree import MergeTree


def merged(left: str, right: str) -> str:
    return f"({left} {right})"


def tree_of(numbers, empty=()):
    tree = MergeTree(merged)
    for number in numbers:
        tree.add(number, None if number in empty else str(number))
    return tree


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 13])
def test_any_order_of_completion_gives_one_result(count):
    expected = tree_of(range(count)).result()
    for seed in range(20):
        order = list(range(count))
        random.Random(seed).shuffle(order)
        assert tree_of(order).result() == expected
    assert [word.strip("()") for word in expected.split()] == [str(number) for number in range(count)]


def test_parts_in_order_are_held_in_the_logarithm_of_their_number():
    tree = MergeTree(merged)
    most = 0
    for number in range(1000):
        tree.add(number, "")
        most = max(most, len(tree))
    assert most <= 10


def test_parts_without_anything_learned_leave_the_others_as_they_are():
    assert tree_of([0, 1, 2, 3], empty={1, 2}).result() == "(0 3)"
    assert tree_of([0, 1], empty={0, 1}).result() is None
    assert MergeTree(merged).result() is None
