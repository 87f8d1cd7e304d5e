"""Runs as tasks of a Ray cluster; a run whose worker died is started again."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from votestream._version import __version__
from votestream.bench.finding import find_learner, takes_images
from votestream.bench.runs import Run
from votestream.bench.workers import Report
from votestream.distributed.executor import MOST_DEATHS
from votestream.distributed.ray_cluster import ClusterError, RayCluster, check_version, version_probe


class RayWorkers:
    """At most `jobs` tasks at once, one a CPU of the cluster unless given; each has an equal share of the CPUs.

    Runs that train a network have an equal share of the GPUs, where there are any; with `device="cuda"` all runs do.
    """

    def __init__(self, on: str, jobs: int | None, most: int, device: str, data_dir: str | None) -> None:
        self._cluster = RayCluster(on, jobs)
        self._ray = self._cluster.ray
        nodes = self._cluster.node_cpus
        self.jobs = min(jobs or sum(nodes), most)
        self._cpus, self._gpus = cpus_each(nodes, self.jobs), self._cluster.gpu_share(self.jobs)
        self._device, self._data_dir = device, None if data_dir is None else os.path.abspath(data_dir)
        if device == "cuda" and not self._gpus:
            self._cluster.close()
            raise ClusterError("device='cuda' was asked for, but the Ray cluster has no GPU; use device='cpu'")
        self._cell = self._ray.remote(max_retries=0, num_cpus=self._cpus)(_cell())
        self._board = self._ray.remote(num_cpus=0)(_board_class()).remote()
        self._busy: dict[Any, Run] = {}
        self._deaths: dict[tuple[str, ...], int] = {}

    @property
    def free(self) -> bool:
        return len(self._busy) < self.jobs

    @property
    def running(self) -> list[Run]:
        return list(self._busy.values())

    def start(self, run: Run) -> None:
        on_gpu = self._device == "cuda" or (self._device != "cpu" and takes_images(find_learner(run.method.learner)))
        task = self._cell.options(num_gpus=self._gpus if on_gpu else 0)
        how = pickle.dumps(run), self._device, self._data_dir, max(1, int(self._cpus)), self._board
        self._busy[task.remote(*how)] = run

    def reports(self, timeout: float) -> Iterator[Report]:
        """What came in, after waiting for at most so many seconds."""
        if not self._busy:
            return
        yield from self._progress()
        done, _ = self._ray.wait(list(self._busy), timeout=timeout)
        for call in done:
            run = self._busy.pop(call)
            try:
                version, node, reports = self._ray.get(call)
            except self._cluster.deadly as error:
                deaths = self._deaths[run.key] = self._deaths.get(run.key, 0) + 1
                if deaths == MOST_DEATHS:
                    why = " ".join(str(error).split()).partition(". ")[0]  # what to read in Ray's logs follows
                    yield Report(run, error=f"{MOST_DEATHS} of Ray's workers died at it, the last because: {why}")
                else:
                    self.start(run)
            else:
                check_version(version, node)
                yield from pickle.loads(reports)

    def stop(self) -> None:
        """End the tasks, whatever they are at."""
        for call in self._busy:
            self._ray.cancel(call, force=True)
        self._cluster.close()

    def _progress(self) -> Iterator[Report]:
        running = {run.key: run for run in self.running}
        try:
            told = self._ray.get(self._board.take.remote())
        except self._cluster.deadly:  # nobody sees how far runs are; their rows come all the same
            return
        for key, task, tasks in told:
            if key in running:
                yield Report(running[key], task, tasks)


def cpus_each(nodes: list[int], jobs: int) -> float:
    """The most CPUs that each of so many runs can have, all of them at once, on nodes with so many.

    >>> cpus_each([16], 4), cpus_each([4, 2], 2), cpus_each([1, 1, 1], 1), cpus_each([2], 3)
    (4, 2, 1, 0.5)
    """
    for cpus in range(max(nodes), 0, -1):
        if sum(node // cpus for node in nodes) >= jobs:
            return cpus
    return 1 / -(-jobs // sum(nodes))


def _cell() -> Callable[..., Any]:
    """The task. Made in a function, so that Ray sends its code along and it can say that a node has no VoteStream."""
    probe, ours = version_probe(), __version__

    def cell(run: bytes, device: str, data_dir: str | None, threads: int, board: Any) -> tuple[str | None, str, bytes]:
        version, node = probe()
        if version != ours:
            return version, node, b""
        import pickle

        import torch

        from votestream.bench.workers import carried_out

        torch.set_num_threads(threads)
        what = pickle.loads(run)
        reports = carried_out(what, device, data_dir, lambda *place: board.tell.remote(what.key, *place))
        return version, node, pickle.dumps(list(reports))

    return cell


def _board_class() -> type:
    """The actor that tasks tell how far they are, until somebody takes a look."""

    class Board:
        def __init__(self) -> None:
            self._told: list[tuple[Any, ...]] = []

        def tell(self, *told: Any) -> None:
            self._told.append(told)

        def take(self) -> list[tuple[Any, ...]]:
            told, self._told = self._told, []
            return told

    return Board
