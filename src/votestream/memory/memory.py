"""What a learner has learned: the class every kind of memory extends, and what a kind may be able to do besides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from votestream.memory.held_bytes import held_bytes


class Memory(ABC):
    """Everything a learner has learned, as arrays. It knows no labels, no files, and not how predictions are made.

    Classes are numbers here, counted in order of first appearance. A new memory is empty and takes little room,
    whatever the parameters: `begin` or `restore` comes first, and makes room.

    A kind of memory that can forget a class, make one class of two, or take in another memory has the methods of the
    protocols `Forgets`, `Joins` and `Merges` below. `width` is the number of features of a row.
    """

    width: int
    derived: ClassVar[tuple[str, ...]] = ()  # attributes that can be made again from the others: not counted, not saved

    def begin(self, rows: NDArray[Any], unit: float = 1.0) -> None:  # noqa: B027
        """Make room; `rows` are the first of the stream, which `add` gets, too, as users gave them times `unit`."""

    def add(self, X: NDArray[Any], classes: NDArray[np.int64]) -> None:
        """Take in rows and their classes, in stream order."""
        raise TypeError(f"a {type(self).__name__} takes no rows: its learner has a `learn` of its own")

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a file must hold for `restore`; they may be the memory's own arrays."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        """Be what `arrays` came from. What no memory of these parameters and classes can hold raises a ValueError."""

    # Of memories that are merged:

    def shared_traits(self) -> dict[str, Any]:
        """What was fixed when learning began and must be the same in memories that are merged, by name."""
        return {}

    def begin_like(self, other: Any) -> None:
        """Make room, with the shared traits of another memory: the two can be merged later."""
        self.begin(np.zeros((1, other.width), np.float32))

    def settle(self) -> None:  # noqa: B027
        """Take in rows that wait to be taken in together, if any do."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, tensors and random states that are not derived, each memory once."""
        return held_bytes({name: part for name, part in vars(self).items() if name not in self.derived})


@runtime_checkable
class Forgets(Protocol):
    """A memory from which a class can be taken out."""

    def forget(self, number: int) -> None:
        """Take the class out; classes above it count one less from now on."""


@runtime_checkable
class Joins(Protocol):
    """A memory in which two classes can become one."""

    def join(self, number: int, into: int) -> None:
        """Make the class a part of another; afterwards classes above `number` count one less."""


@runtime_checkable
class Merges(Protocol):
    """A memory that can take in what another memory of its kind has learned."""

    def merge(self, other: Any, numbers: NDArray[np.int64]) -> None:
        """Add what the other has learned; its class i is class numbers[i] here."""
