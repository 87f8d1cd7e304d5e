"""The memory of GaussianVoting: class Gaussians within a budget of bytes, and the newest rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.compute.place import ONE_THREAD, one_thread
from votestream.io.array_checks import demand, take_power
from votestream.io.model_files import joined, part_of
from votestream.memory.gaussians import ClassGaussians
from votestream.memory.memory import Memory
from votestream.memory.pending import Pending
from votestream.memory.power import first_power, to_power
from votestream.memory.refresh import held_samples
from votestream.memory.scatter import SharedScatter

RANK = 16  # directions of a class
BLOCK = 512  # rows taken in at once


class GaussianMemory(Memory):
    """Class Gaussians of a stream; rows wait until a block of them is full, and are taken in together.

    rank: directions kept of each class, at most; None is 16, or up to 32 where the budget has room. budget_bytes: most
    that may be kept; the number of directions falls as classes come. block: rows taken in at once; None is 512, or what
    a sixth of the budget beside the shared covariance holds. power: rows are taken to it first, see `first_power`.
    reserved: bytes of the budget that others need, by the width of the rows and the number of classes.

    >>> memory = GaussianMemory(width=2)
    >>> memory.begin(np.array([[1.0, 4.0]], np.float32))
    >>> memory.add(np.array([[1.0, 4.0], [9.0, 4.0]], np.float32), np.array([0, 0]))
    >>> memory.now().means.tolist()  # of square roots
    [[2.0, 2.0]]
    """

    def __init__(
        self,
        width: int,
        rank: int | None = None,
        budget_bytes: int | None = None,
        block: int | None = None,
        power: float | str = "auto",
        reserved: Callable[[int, int], int] | None = None,
    ) -> None:
        self.width = width
        self.rank = rank
        self._budget = budget_bytes
        self._block = block
        self._power_param = power
        self._reserved = reserved

    # ---- the budget -----------------------------------------------------------------------------

    def bytes_without_directions(self, n_classes: int) -> int:
        """What so many classes take before any direction is kept."""
        waiting = self._block_rows() * Pending.bytes_a_row(self.width)
        return waiting + ClassGaussians.bytes_for(self.width, n_classes)[0] + self._reserved_bytes(n_classes)

    def _reserved_bytes(self, n_classes: int) -> int:
        return 0 if self._reserved is None else self._reserved(self.width, n_classes)

    def _block_rows(self) -> int:
        if self._block is not None:
            return self._block
        if self._budget is None:
            return BLOCK
        left = self._budget - SharedScatter.bytes_for(self.width) - self._reserved_bytes(0)
        return min(BLOCK, max(1, left // 6 // Pending.bytes_a_row(self.width)))

    def most_rank(self) -> int:
        """Most directions of a class, whatever the budget. More than features there are none."""
        return min(self.rank or (RANK if self._budget is None else 2 * RANK), max(self.width, 2 * RANK))

    def rank_for(self, n_classes: int) -> int:
        """As many directions as the budget has room for."""
        if self._budget is None:
            return self.most_rank()
        left = self._budget - self.bytes_without_directions(n_classes)
        return max(0, min(self.most_rank(), left // ClassGaussians.bytes_for(self.width, n_classes)[1]))

    # ---- learning -------------------------------------------------------------------------------

    def begin(self, rows: NDArray[np.float32], unit: float = 1.0) -> None:
        self._make_room()
        self.power = np.float32(first_power(self._power_param, rows))

    def _make_room(self) -> None:
        self.pending = Pending(self.width, self._block_rows())
        self.gaussians = ClassGaussians(self.width)

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        for rows, numbers in self.pending.add(X, classes):
            self._add_to(self.gaussians, rows, numbers)

    def _add_to(self, gaussians: ClassGaussians, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        rank = self.rank_for(max(len(gaussians.counts), max(classes.tolist()) + 1))
        small = (rank + len(X)) ** 2 * X.shape[1] <= ONE_THREAD // 2  # BLAS does not spread these products by itself
        with nullcontext() if small else one_thread():
            gaussians.add(to_power(X, self.power), classes, rank)

    def now(self, waiting: int | None = None) -> ClassGaussians:
        """Of everything learned, waiting rows too, or the first so many of them; not to be changed."""
        rows, classes = self.pending.rows[:waiting], self.pending.classes[:waiting]
        if not len(rows):
            return self.gaussians
        gaussians = self.gaussians.copy()
        self._add_to(gaussians, rows, classes)
        return gaussians

    def held(self) -> tuple[int, int]:
        """Samples that are taken in, and those that the shared covariance of predictions is made of."""
        return held_samples(int(self.gaussians.counts.sum()), len(self.pending))

    def class_now(self, number: int, rank: int) -> tuple[int, NDArray[np.float32], NDArray[np.float32]]:
        """Count, mean and factor (rank, D) of one class, its waiting rows too."""
        own = to_power(self.pending.rows[self.pending.classes == number], self.power)
        count, mean, factor = self.gaussians.class_with(number, own, rank)
        F = np.zeros((rank, self.width), np.float32)
        F[: len(factor)] = factor
        return count, mean, F

    # ---- correcting and merging -----------------------------------------------------------------

    def forget(self, number: int) -> None:
        """Take the class out; classes above it count one less from now on."""
        self.pending.forget(number)
        if number < len(self.gaussians.counts):
            self.gaussians.forget(number)

    def join(self, number: int, into: int) -> None:
        """Make the class a part of another; afterwards classes above `number` count one less."""
        self.settle()
        self.gaussians.join(number, into, self.rank_for(len(self.gaussians.counts) - 1))

    def merge(self, other: GaussianMemory, numbers: NDArray[np.int64]) -> None:
        """Add the Gaussians of another stream; its class i is class numbers[i] here."""
        self.settle()
        n_classes = max(len(self.gaussians.counts), int(numbers.max(initial=-1)) + 1)
        self.gaussians.merge(other.now(), numbers, self.rank_for(n_classes))

    def shared_traits(self) -> dict[str, Any]:
        """The power that rows are taken to."""
        return {"power": self.power}

    def begin_like(self, other: GaussianMemory) -> None:
        """Make room, with the power of another memory."""
        self._make_room()
        self.power = other.power

    def settle(self) -> None:
        """Take in the rows that wait."""
        self.gaussians = self.now()
        self.gaussians.trim(self.rank_for(len(self.gaussians.counts)))
        self.pending.drop()

    # ---- saving ---------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {"pending": self.pending.state(), "gaussians": self.gaussians.state()}
        return {"power": np.array(self.power), **joined(parts)}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        strips, needed = part_of(arrays, "gaussians"), SharedScatter.bytes_for(self.width)
        held = sum(strip.nbytes for name, strip in strips.items() if name.startswith("scatter"))
        demand(held == needed, f"the scatter of {self.width} features takes {needed} bytes, not {held}")
        check_rank_cost(self.most_rank(), n_classes, self.width, sum(array.nbytes for array in arrays.values()))
        self._make_room()
        power, largest = take_power(arrays, np.float32)
        self.power = np.float32(power)
        self.gaussians.restore(strips, n_classes, largest)
        self.pending.restore(part_of(arrays, "pending"), len(self.gaussians.counts), n_classes)


def check_rank_cost(rank: int, n_classes: int, width: int, held: int) -> None:
    """Refuse a file in which a large `rank` would make predicting take far more memory than the file has."""
    needed = 4 * n_classes * rank * width
    demand(
        rank <= 4 * RANK or needed <= max(2**28, 100 * held),
        f"rank={rank} would take {needed} bytes to predict with, which does not fit a file of {held} bytes",
    )
