"""Where work is done: in this process, in several, or on a Ray cluster, by one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, TypeVar

from votestream.common.cores import usable_cores

T = TypeVar("T")
R = TypeVar("R")

MOST_DEATHS = 3  # of workers at one item, which then is what kills them
AT_ONCE = 2  # items a worker has: one in hand, and one that waits, so that it never waits itself


class WorkerDied(RuntimeError):
    """Workers died again and again at one item."""

    def __init__(self, number: int, item: object) -> None:
        told = repr(item)
        told = told if len(told) <= 200 else f"{told[:200]}..."
        super().__init__(f"{MOST_DEATHS} workers died at item {number}, {told}: it may need more memory than there is")


class CannotStart(RuntimeError):
    """Worker processes do not get as far as to work: a sentence that says what to do."""


class Executor(Protocol):
    """Carries out the same function on many items; a context manager, which closes it.

    >>> from functools import partial
    >>> with executor("here") as place:
    ...     list(place.run(partial(partial, divmod, 7), [2, 3]))
    [(0, (3, 1)), (1, (2, 1))]
    """

    name: str  # "here", "processes", "ray"
    workers: int

    def run(self, make: Callable[[], Callable[[T], R]], items: Iterable[T]) -> Iterator[tuple[int, R]]:
        """Results with their item's number, in the order in which they are ready.

        `make` is pickled once, sent to each worker (with Ray, to each node) once, and called once in each worker; what
        it returns is called with each item, on one thread of torch and BLAS. At most `2 * workers` items are in flight:
        they are drawn from `items` as workers take them. An item whose worker died is given to another; at the third
        death at one item a WorkerDied names it. An exception in the function ends the run with that exception.
        """
        ...

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        ...

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Here(Executor):
    """In this process, one item after another."""

    name = "here"
    workers = 1

    def run(self, make: Callable[[], Callable[[T], R]], items: Iterable[T]) -> Iterator[tuple[int, R]]:
        work: Callable[[T], R] | None = None
        for number, item in enumerate(items):
            with single_threaded():  # as in a worker, so that results are the same to the last bit
                work = work or make()
                result = work(item)
            yield number, result

    def close(self) -> None:
        pass


def executor(on: str, workers: int | None = None, cuda: bool = False) -> Executor:
    """The executor of a name: "here", "processes", "ray", or a cluster's address, "ray://host:10001".

    workers: None is one for each core that may be used; with Ray, as many as the cluster has room for.
    cuda: the work needs a GPU, of which Ray's workers get equal shares. Processes all use the one that is here.

    >>> executor("here").workers
    1
    >>> executor("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: on must be 'here', 'processes', 'ray' or 'ray://HOST:PORT', got 'nowhere'
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise ValueError(f"workers must be an integer above 0, or None, got {workers!r}")
    if on == "here":
        if workers not in (None, 1):
            raise ValueError(f"workers={workers} needs on='processes' or on='ray': 'here' is this process alone")
        return Here()
    if on == "processes":
        from votestream.distributed.processes import Processes

        return Processes(workers or usable_cores())
    if on == "ray" or (isinstance(on, str) and on.startswith("ray://")):
        from votestream.distributed.ray_executor import RayExecutor

        return RayExecutor(on, workers, cuda)
    raise ValueError(f"on must be 'here', 'processes', 'ray' or 'ray://HOST:PORT', got {on!r}")


class Holding(Protocol):
    holds: dict[Any, tuple[int, Any]]  # items that a worker was given and has not finished


W = TypeVar("W", bound=Holding)


def in_turn(workers: Sequence[W], most: int = AT_ONCE) -> Iterator[W]:
    """Each worker, as often as it may have an item more: nobody has two while another has none."""
    for held in range(most):
        for worker in workers:
            if len(worker.holds) == held:
                yield worker


@contextmanager
def single_threaded() -> Iterator[None]:
    """torch and BLAS do what is inside on one thread: how a sum is split among threads shows in its last bits."""
    from votestream.compute.place import one_thread, torch_threads  # here: not all workers need torch

    with torch_threads(1), one_thread():
        yield
