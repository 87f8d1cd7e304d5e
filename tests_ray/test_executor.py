"""The executor's promises on a real Ray cluster of three nodes."""

from __future__ import annotations

import os
from functools import partial

import pytest

from votestream.distributed import ray_cluster
from votestream.distributed.executor import WorkerDied, executor

ray = pytest.importorskip("ray")

import ray_work  # noqa: E402
from conftest import NODE, OBJECT_STORE  # noqa: E402
from distributed import work  # noqa: E402


@pytest.fixture(scope="module")
def place(cluster):
    """Three workers that are kept from one test to the next; half of the CPUs are left to others."""
    os.environ["RAY_ADDRESS"] = cluster.address
    with executor("ray", 3) as made:
        yield made
    del os.environ["RAY_ADDRESS"]


def test_every_item_has_its_result_under_its_number(place):
    assert sorted(place.run(work.squares, range(20))) == [(i, i * i) for i in range(20)]
    assert list(place.run(work.squares, [])) == []


def test_workers_work_on_one_thread(place):
    assert {told for _, told in place.run(work.threads, range(30))} == {(1, "1")}


def test_items_are_drawn_as_workers_take_them(place):
    drawn = []
    items = (drawn.append(i) or i for i in range(40))
    for done, _ in enumerate(place.run(work.squares, items)):
        assert len(drawn) <= done + 2 * place.workers


def test_nobody_has_two_items_while_another_has_none(place):
    list(place.run(work.squares, range(20)))
    assert len({pid for _, pid in place.run(work.process, range(3))}) == 3


def test_the_function_is_pickled_once_and_made_once_in_each_worker(place, tmp_path):
    Counted.pickled = 0
    list(place.run(Counted(tmp_path), range(20)))
    assert Counted.pickled == 1
    assert 1 <= len(list(tmp_path.iterdir())) <= 3


class Counted:
    pickled = 0

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        Counted.pickled += 1
        return partial, (work.made_once, self.folder)


def test_results_larger_than_the_object_store_altogether_come_through(place):
    size = OBJECT_STORE // 8
    for _, result in place.run(partial(ray_work.large, size), range(24)):
        assert len(result) == size


def test_an_exception_ends_the_run_and_the_next_run_works(place):
    with executor("ray", 1) as one:
        with pytest.raises(ZeroDivisionError):
            list(one.run(work.failing, [0]))
        with pytest.raises(OSError, match="no weights here"):
            list(one.run(work.unmakeable, [1]))
        assert list(one.run(work.squares, [3])) == [(0, 9)]


def test_an_item_whose_worker_was_killed_is_given_to_another(place, tmp_path):
    assert sorted(place.run(partial(work.dying, tmp_path, 3, 2), range(8))) == [(i, i) for i in range(8)]
    assert len(list(tmp_path.iterdir())) == 2


def test_an_item_at_which_three_workers_die_is_named(place, tmp_path):
    with executor("ray", 1) as one, pytest.raises(WorkerDied, match="3 workers died at item 5, 15"):
        list(one.run(partial(work.dying, tmp_path, 15, 99), range(10, 20)))


def test_a_node_that_is_killed_costs_nothing_but_time(place, cluster):
    victim, numbers, nodes = cluster.add_node(**NODE), set(), []
    with executor("ray", 5) as five:  # the other three nodes have room for three
        for number, node in five.run(partial(ray_work.node, 0.2), range(80)):
            numbers.add(number)
            nodes.append(node)
            if victim is not None and nodes.count(victim.node_id) == 3:
                cluster.remove_node(victim, allow_graceful=False)
                victim = None
    assert victim is None
    assert numbers == set(range(80))


def test_another_version_on_the_nodes_is_refused_with_a_sentence(place, monkeypatch):
    monkeypatch.setattr(ray_cluster, "__version__", "99.0")
    with (
        executor("ray", 1) as other,
        pytest.raises(ray_cluster.ClusterError, match=r"has votestream .* has votestream 99"),
    ):
        list(other.run(work.squares, [1]))


def test_there_is_a_worker_for_each_cpu_of_the_cluster(place):
    there = int(ray.cluster_resources()["CPU"])  # 6, and those of a killed node until Ray has noticed
    with executor("ray") as all_of_it:
        assert (all_of_it.name, all_of_it.workers) == ("ray", there)
    assert there >= 6


def test_a_connection_that_the_program_opened_stays_open(place):
    with executor("ray", 1) as other:
        list(other.run(work.squares, [1]))
    assert ray.is_initialized()
    assert list(place.run(work.squares, [2])) == [(0, 4)]
