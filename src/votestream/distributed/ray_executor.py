"""Work on a Ray cluster: one actor a worker. Workers and nodes that die cost only what they were at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from votestream.common.progress import note
from votestream.distributed.executor import AT_ONCE, MOST_DEATHS, Executor, WorkerDied, in_turn
from votestream.distributed.ray_cluster import ClusterError, RayCluster, check_version, version_probe

T = TypeVar("T")
R = TypeVar("R")

PATIENCE = 30  # seconds without any worker, before the person who waits is told


@dataclass(eq=False)
class _Worker:
    """An actor, and the items it holds, by its calls in the order in which it works on them."""

    actor: Any
    holds: dict[Any, tuple[int, Any]] = field(default_factory=dict)


class RayExecutor(Executor):
    """Workers with one CPU each, as many as the cluster has unless given; those it has no room for join later.

    With `cuda` they share the cluster's GPUs, and are where those are. They are kept from one run to the next.
    """

    name = "ray"

    def __init__(self, on: str = "ray", workers: int | None = None, cuda: bool = False) -> None:
        self._cluster = RayCluster(on, workers)
        self._ray = self._cluster.ray
        self.workers = workers or max(1, sum(self._cluster.node_cpus))
        gpus = self._cluster.gpu_share(self.workers) if cuda else 0
        if cuda and not gpus:
            self._cluster.close()
            raise ClusterError("the model is on a GPU, but the Ray cluster has none; make it with device='cpu'")
        self._kind = self._ray.remote(num_cpus=1, num_gpus=gpus)(_actor_class())
        self._starting: dict[Any, _Worker] = {}
        self._ready: list[_Worker] = []
        self._failed_starts = 0

    def run(self, make: Callable[[], Callable[[T], R]], items: Iterable[T]) -> Iterator[tuple[int, R]]:
        # Bytes, which a node holds once: each of its workers unpickles a copy that it may change.
        job = self._ray.put(self._ray.cloudpickle.dumps(make))
        drawn, more = enumerate(items), True
        again: deque[tuple[int, Any]] = deque()  # what workers that died have left
        deaths: dict[int, int] = {}
        begun: set[_Worker] = set()
        whole = False
        try:
            while True:
                for worker in in_turn(self._ready, 1 if self._starting else AT_ONCE):
                    item = again.popleft() if again else next(drawn, None)
                    if item is None:
                        more = False
                        break
                    if worker not in begun:
                        begun.add(worker)
                        worker.actor.begin.remote(job)
                    worker.holds[worker.actor.work.remote(item[1])] = item
                calls = {call: worker for worker in self._ready for call in worker.holds}
                if not (more or calls or again):
                    whole = True
                    return
                self._start(self.workers if more else len(again))
                done = self._first([*calls, *self._starting])
                if done in self._starting:
                    self._hear_start(done)
                    continue
                worker = calls[done]
                try:
                    result = self._ray.get(done)
                except self._cluster.deadly as error:
                    number, value = next(iter(worker.holds.values()))  # it was at the first
                    if not getattr(error, "preempted", False):  # a node that was taken away is no item's fault
                        deaths[number] = deaths.get(number, 0) + 1
                    if deaths.get(number) == MOST_DEATHS:
                        raise WorkerDied(number, value) from error
                    again.extend(worker.holds.values())
                    self._ready.remove(worker)
                    self._ray.kill(worker.actor)  # where only a result was lost, it is still there
                except self._ray.exceptions.RayTaskError as error:
                    raise error.cause from error
                else:
                    number, _ = worker.holds.pop(done)
                    yield number, result
        finally:
            if not whole:  # nobody wants what is in flight
                self._stop()

    def close(self) -> None:
        self._stop()
        self._cluster.close()

    def _start(self, wanted: int) -> None:
        while len(self._ready) + len(self._starting) < min(wanted, self.workers):
            worker = _Worker(self._kind.remote())
            self._starting[worker.actor.version.remote()] = worker

    def _hear_start(self, call: Any) -> None:
        worker = self._starting.pop(call)
        try:
            version, node = self._ray.get(call)
        except self._cluster.deadly as error:
            self._failed_starts += 1
            if self._failed_starts == MOST_DEATHS:
                raise ClusterError(f"{MOST_DEATHS} of Ray's workers died as they started: {error}") from error
        else:
            check_version(version, node)
            self._failed_starts = 0
            self._ready.append(worker)

    def _first(self, calls: list[Any]) -> Any:
        """The first call that is answered; with no worker for long, whoever waits is told, once."""
        done, _ = self._ray.wait(calls, timeout=None if self._ready else PATIENCE)
        if not done:
            note(f"Ray has had no room for a worker in {PATIENCE} seconds; waiting for a free CPU or GPU.")
            done, _ = self._ray.wait(calls)
        return done[0]

    def _stop(self) -> None:
        for worker in [*self._starting.values(), *self._ready]:
            self._ray.kill(worker.actor)
        self._starting, self._ready = {}, []


def _actor_class() -> type:
    """Made in a function, so that Ray sends its code along and it can say that a node has no VoteStream."""
    probe = version_probe()

    class VoteStream:
        def version(self) -> tuple[str | None, str]:
            return probe()

        def begin(self, job: bytes) -> None:
            self._job = job
            self._function: Any = None

        def work(self, item: Any) -> Any:
            import pickle

            from votestream.distributed.executor import single_threaded

            with single_threaded():
                if self._function is None:
                    self._function = pickle.loads(self._job)()
                return self._function(item)

    return VoteStream
