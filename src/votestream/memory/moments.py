"""Count, mean and scatter of each class, exact in one pass: `ClassMoments`, and the Memory that they make."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from votestream.common.validation import LARGEST
from votestream.compute.place import one_thread
from votestream.io.array_checks import MANY, ROUNDED, check_below, check_scatter, demand, take, take_power
from votestream.io.model_files import joined, part_of
from votestream.memory.memory import Memory
from votestream.memory.pending import Pending
from votestream.memory.power import first_power, to_power
from votestream.memory.statistics import extended

SLACK = {"float32": 1e-3, "float64": 1e-9}  # what rounding may take from a scatter's being positive semidefinite
SCATTERS = (None, "shared", "class")


class ClassMoments:
    """What a Gaussian model of the classes needs: how many, where, and how they spread.

    `scatter` is the sum of (x - mean)(x - mean)^T about the mean of x's own class: "shared" keeps one matrix
    for all classes, (D, D) in float64; "class" one for each, (C, D, D) in float32; None keeps none. Means
    are float64. Blocks are merged by the formula of Chan, Golub and LeVeque (1979), which only ever squares
    deviations: features with a large mean lose nothing, as they would in sum(x x^T) - n mean mean^T.

    >>> moments = ClassMoments(width=1, scatter="shared")
    >>> moments.add(np.array([[1.0], [9.0], [3.0]], np.float32), np.array([0, 1, 0]))
    >>> moments.add(np.array([[5.0]], np.float32), np.array([0]))
    >>> moments.counts.tolist(), moments.means.tolist(), moments.scatter.round(6).tolist()
    ([3, 1], [[3.0], [9.0]], [[8.0]])
    """

    def __init__(self, width: int, scatter: str | None = None) -> None:
        self.width = width
        self.n_classes = 0
        self._kind = scatter
        self._counts = np.zeros(0, np.int64)
        self._means = np.zeros((0, width))
        shape, dtype = {
            None: ((0,), np.float32),
            "shared": ((width, width), np.float64),
            "class": ((0, width, width), np.float32),
        }[scatter]
        self._scatter = np.zeros(shape, dtype)

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Merge a block of rows."""
        order = classes.argsort(kind="stable")
        classes = classes[order]
        starts = np.flatnonzero(np.diff(classes, prepend=-1))
        present, sizes = classes[starts], np.diff(starts, append=len(classes))
        self._reserve(int(present[-1]) + 1)
        n = len(X)
        stack = np.empty((n + len(present), self.width))  # rows less their class mean in the block, then the drifts
        rows, drifts = stack[:n], stack[n:]
        rows[:] = X.take(order, axis=0)
        means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
        before = self._counts[present]
        total = before + sizes
        np.subtract(means, self._means[present], out=drifts)
        self._counts[present] = total
        self._means[present] += drifts * (sizes / total)[:, None]
        if self._kind is None:
            return
        rows -= means.repeat(sizes, axis=0)
        drifts *= np.sqrt(before * sizes / total)[:, None]
        if self._kind == "shared":
            self._scatter += stack.T @ stack
        else:
            self._add_by_class(stack.astype(np.float32), present, starts, sizes)

    def _add_by_class(
        self,
        stack: NDArray[np.float32],
        present: NDArray[np.int64],
        starts: NDArray[np.intp],
        sizes: NDArray[np.intp],
    ) -> None:
        drifts = stack[-len(present) :]
        parts = zip(present.tolist(), starts.tolist(), sizes.tolist(), drifts, strict=True)
        for label, start, size, drift in parts:
            own = np.concatenate((stack[start : start + size], drift[None]))
            self._scatter[label] += own.T @ own

    def _reserve(self, n_classes: int) -> None:
        if n_classes > len(self._counts):
            capacity = max(8, n_classes, 2 * len(self._counts))
            self._counts = extended(self._counts, capacity)
            self._means = extended(self._means, capacity)
            if self._kind == "class":
                self._scatter = extended(self._scatter, capacity)
        self.n_classes = max(n_classes, self.n_classes)

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts[: self.n_classes]

    @property
    def means(self) -> NDArray[np.float64]:
        return self._means[: self.n_classes]

    @property
    def scatter(self) -> NDArray[Any]:
        """(D, D), or (C, D, D) class by class."""
        return self._scatter[: self.n_classes] if self._kind == "class" else self._scatter

    def of_class(self, number: int) -> tuple[int, NDArray[np.float64]]:
        """Count and mean of one class; of one not met yet, 0 and zeros."""
        if number >= self.n_classes:
            return 0, np.zeros(self.width)
        return int(self._counts[number]), self._means[number]

    def forget(self, label: int) -> None:
        """The class is gone, and later ones count one less.

        Of a shared scatter its share of the degrees of freedom goes, as its own part was not kept: none where it had
        one sample, else what it has if all classes spread alike.
        """
        if self._kind == "shared":
            freedom = int(self.counts.sum()) - self.n_classes
            self._scatter *= 1 - (int(self.counts[label]) - 1) / max(1, freedom)
        elif self._kind == "class":
            self._scatter = np.delete(self._scatter, label, axis=0)
        self._counts, self._means = np.delete(self._counts, label), np.delete(self._means, label, axis=0)
        self.n_classes -= 1

    def join(self, label: int, into: int) -> None:
        """Two classes are one, with the scatter between their means; classes above `label` count one less."""
        other = ClassMoments(self.width, self._kind)
        other._counts, other._means = self.counts[label : label + 1], self.means[label : label + 1]
        other.n_classes = 1
        if self._kind == "class":
            other._scatter = self.scatter[label : label + 1]
        self.merge(other, np.array([into]))
        self._counts, self._means = np.delete(self._counts, label), np.delete(self._means, label, axis=0)
        if self._kind == "class":
            self._scatter = np.delete(self._scatter, label, axis=0)
        self.n_classes -= 1

    def merge(self, other: ClassMoments, numbers: NDArray[np.int64]) -> None:
        """Add the moments of another stream; its class i is class numbers[i] here. Exact up to rounding."""
        numbers = numbers[: other.n_classes]
        self._reserve(int(numbers.max()) + 1)
        before, added = self._counts[numbers], other.counts
        total = before + added
        drifts = other.means - self._means[numbers]
        self._counts[numbers] = total
        self._means[numbers] += drifts * (added / total)[:, None]
        drifts *= np.sqrt(before * added / total)[:, None]
        if self._kind == "shared":
            self._scatter += other._scatter + drifts.T @ drifts
        elif self._kind == "class":
            for number, scatter, drift in zip(numbers.tolist(), other.scatter, drifts, strict=True):
                self._scatter[number] += scatter + np.outer(drift, drift)

    def overall_mean(self) -> NDArray[np.float64]:
        """The mean of every row, (D,)."""
        found: NDArray[np.float64] = self.counts @ self.means / self.counts.sum()
        return found

    def copy(self) -> ClassMoments:
        return copy.deepcopy(self)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"counts": self.counts, "means": self.means, "scatter": self.scatter}

    def restore(self, state: dict[str, NDArray[Any]], most: int, largest: float) -> None:
        """At most `most` classes; `largest` is what the rows' elements are at most."""
        counts = take(state, "counts", np.int64, (None,), 1, MANY)
        n, kind = len(counts), self._scatter.dtype
        demand(n <= most, f"there are moments of {n} classes, but only {most} classes")
        self._means = take(state, "means", np.float64, (n, self.width), -ROUNDED * largest, ROUNDED * largest)
        shape = (n, *self._scatter.shape[1:]) if self._kind == "class" else self._scatter.shape
        scatter = take(state, "scatter", kind, shape, -np.finfo(kind).max, np.finfo(kind).max)
        if self._kind is not None:
            samples = counts[:, None, None] if self._kind == "class" else counts.sum()
            check_below("scatter", scatter, 4 * largest**2 * samples)
            check_scatter("scatter", lambda: scatter, SLACK[kind.name])
        self._counts, self._scatter, self.n_classes = counts, scatter, n


class Moments(Memory):
    """Class moments of a stream; rows wait until a block of them is full, and are merged together.

    Blocks end at fixed places of the stream, so that what is kept does not depend on how the stream was cut into calls.
    `now` merges those that wait into a copy: asking leaves no trace.

    scatter: which one is kept, see `ClassMoments`. power: rows are taken to this power first, "auto" decides by the
    first row; None leaves them as they are.

    >>> moments = Moments(width=1)
    >>> moments.begin(np.array([[1.0]], np.float32))
    >>> moments.add(np.array([[1.0], [9.0], [3.0]], np.float32), np.array([0, 1, 0]))
    >>> moments.now().means.tolist(), moments.nbytes > 0
    ([[2.0], [9.0]], True)
    """

    def __init__(
        self, width: int, scatter: str | None = None, block: int = 256, power: float | str | None = None
    ) -> None:
        self.width = width
        self._scatter = scatter
        self._block = block
        self._power_param = power
        self.power: float | None = None

    def begin(self, rows: NDArray[np.float32], unit: float = 1.0) -> None:
        self._make_room()
        if self._power_param is not None:
            self.power = float(first_power(self._power_param, rows))

    def _make_room(self) -> None:
        self.pending = Pending(self.width, self._block)
        self.merged = ClassMoments(self.width, self._scatter)

    def add(self, X: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        for rows, numbers in self.pending.add(X, classes):
            self._add_to(self.merged, rows, numbers)

    def _add_to(self, moments: ClassMoments, rows: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        with one_thread():
            moments.add(rows if self.power is None else to_power(rows, np.float32(self.power)), classes)

    def now(self, waiting: int | None = None) -> ClassMoments:
        """Of everything learned, waiting rows too, or the first so many of them; not to be changed."""
        rows, classes = self.pending.rows[:waiting], self.pending.classes[:waiting]
        if not len(rows):
            return self.merged
        moments = self.merged.copy()
        self._add_to(moments, rows, classes)
        return moments

    def of_class(self, number: int) -> tuple[int, NDArray[np.float64]]:
        """Count and mean of a class, waiting rows too; of memories without a power."""
        own = self.pending.rows[self.pending.classes == number]
        before, mean = self.merged.of_class(number)
        count = before + len(own)
        return count, (before * mean + own.sum(0, dtype=np.float64)) / count

    def forget(self, number: int) -> None:
        """Take the class out; classes above it count one less from now on."""
        self.pending.forget(number)
        if number < self.merged.n_classes:
            self.merged.forget(number)

    def join(self, number: int, into: int) -> None:
        """Make the class a part of another; afterwards classes above `number` count one less."""
        self.settle()
        self.merged.join(number, into)

    def merge(self, other: Moments, numbers: NDArray[np.int64]) -> None:
        """Add the moments of another stream; its class i is class numbers[i] here. Exact up to rounding."""
        self.settle()
        self.merged.merge(other.now(), numbers)

    def shared_traits(self) -> dict[str, Any]:
        """The power, where rows are taken to one."""
        return {} if self.power is None else {"power": self.power}

    def begin_like(self, other: Moments) -> None:
        """Make room, with the power of another memory."""
        self._make_room()
        self.power = other.power

    def settle(self) -> None:
        """Merge the rows that wait."""
        self.merged = self.now()
        self.pending.drop()

    def arrays(self) -> dict[str, NDArray[Any]]:
        power = {} if self.power is None else {"power": np.array(self.power)}
        return {**power, **joined({"pending": self.pending.state(), "moments": self.merged.state()})}

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        largest = LARGEST
        if self._power_param is not None:
            self.power, largest = take_power(arrays, np.float64)
        if self._scatter == "shared":  # read before room is made for one
            take(arrays, "moments.scatter", np.float64, (self.width, self.width), -np.inf, np.inf)
        self._make_room()
        self.merged.restore(part_of(arrays, "moments"), n_classes, largest)
        self.pending.restore(part_of(arrays, "pending"), self.merged.n_classes, n_classes)
