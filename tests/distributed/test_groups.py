"""Chunks that workers merge before they send them: the same model, and fewer parts for the driver."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from votestream.core.files import parts_of
from votestream.distributed import job
from votestream.distributed.chunks import Chunk
from votestream.distributed.executor import Here
from votestream.distributed.groups import MOST, Groups
from votestream.distributed.merge_tree import MergeTree
from votestream.io.model_files import packed


def both(left, right):
    return f"({left} {right})"


@pytest.mark.parametrize("n", [1, 2, 3, 13, 16, 47, 64, 101])
def test_merging_in_groups_gives_the_tree_of_merging_one_by_one(n):
    plain = MergeTree(both)
    for number in range(n):
        plain.add(number, str(number))
    for seed in range(20):
        rng, whole = np.random.default_rng(seed), MergeTree(both)
        groups, back = Groups(Chunk(i, [], []) for i in range(n)), []
        for number, group in enumerate(groups):
            branch = MergeTree(both)
            for place, chunk in enumerate(group):
                branch.add(place, str(chunk.first))
            back.append((number, branch.result()))
            if rng.random() < 0.3:
                groups.grow()
        for place in rng.permutation(len(back)):
            level, at = groups.branch(back[place][0])
            whole.add(at, back[place][1], level)
        assert whole.result() == plain.result()


def test_groups_grow_to_sixteen_and_no_further():
    groups, sizes = Groups(Chunk(i, [], []) for i in range(200)), []
    for group in groups:
        sizes.append(len(group))
        groups.grow()
    assert max(sizes) == MOST == 16
    assert sum(sizes) == 200


class Items(Here):
    """Counts what the driver hands out, and what comes back."""

    def run(self, make, items):
        self.sizes, self.back = [], []
        for number, blob in super().run(make, self._counted(items)):
            self.back.append(len(blob))
            yield number, blob

    def _counted(self, items):
        for item in items:
            self.sizes.append(len(item))
            yield item


@pytest.mark.parametrize("name", ["gaussian_voting", "ncm", "slda", "rls", "fecam", "ranpac"])
def test_a_driver_that_cannot_keep_up_has_workers_merge_and_the_model_is_the_same(name, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 700)
    X = (rng.normal(size=(700, 8)) + 3 * np.eye(8)[y]).astype(np.float32)
    models, most = [], []
    for busy in (2.0, 0.0):  # never, at once
        monkeypatch.setattr(job, "BUSY", busy)
        place = Items()
        settings = {"projection": 30} if name == "ranpac" else {}
        models.append(packed(*parts_of(vs.learn(X, y, vs.create(name, **settings), on=place, chunk=20))))
        most.append(max(place.sizes))
    assert most[0] == 1 < most[1]
    assert models[0] == models[1]


def test_parts_larger_than_their_features_are_merged_by_workers_until_they_are_not(monkeypatch):
    monkeypatch.setattr(job, "BUSY", 2.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1600, 800)).astype(np.float32), rng.integers(0, 2, 1600)
    place = Items()
    vs.learn(X, y, vs.GaussianVoting(), on=place, chunk=100)  # W takes 1.4 MB, 100 rows 0.3 MB
    assert place.sizes == [1, 1, 2, 4, 8]
    heavy = [size > 4 * 800 * 100 * chunks for size, chunks in zip(place.back, place.sizes, strict=True)]
    assert heavy == [True, True, True, True, False]


@pytest.mark.parametrize("settings", [{"name": "candidates_voting"}, {"name": "ncm", "track": True}])
def test_features_and_tests_are_sent_chunk_by_chunk(settings, monkeypatch):
    monkeypatch.setattr(job, "BUSY", 0.0)
    rng = np.random.default_rng(0)
    X, y, place = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 3, 300), Items()
    model = vs.create(**settings).partial_fit(X[:30], y[:30])
    vs.learn(X, y, model, on=place, chunk=10)
    assert set(place.sizes) == {1}
