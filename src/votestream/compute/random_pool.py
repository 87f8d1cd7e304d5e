"""Random numbers in small portions, drawn in large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream.io.array_checks import take, take_generator

SIZES = {"normal": 1 << 14, "uniform": 1 << 10}
FARTHEST = 10.0  # from 0, of a normal number in float32


class RandomPool:
    """Serves normal and uniform numbers from blocks drawn ahead, which a step of ten rows is too small to draw.

    What is served depends on the seed and on what was asked for before, not on the sizes of the portions.

    >>> pool, other = RandomPool(0), RandomPool(0)
    >>> bool((pool.normal(4) == np.concatenate([other.normal(1), other.normal(3)])).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(int(seed))
        self._left: dict[str, NDArray[Any]] = {kind: np.empty(0, np.float32) for kind in SIZES}

    def normal(self, n: int) -> NDArray[np.float32]:
        return self._take("normal", n)

    def uniform(self, n: int) -> NDArray[np.float64]:
        return self._take("uniform", n)

    def _take(self, kind: str, n: int) -> NDArray[Any]:
        left = self._left[kind]
        if len(left) < n:
            parts, have = [left], len(left)
            while have < n:
                parts.append(self._draw(kind))
                have += len(parts[-1])
            left = np.concatenate(parts)
        self._left[kind] = left[n:]
        return left[:n]

    def _draw(self, kind: str) -> NDArray[Any]:
        if kind == "normal":
            return torch.randn(SIZES[kind], generator=self.generator).numpy()
        return torch.rand(SIZES[kind], generator=self.generator, dtype=torch.float64).numpy()

    def state(self) -> dict[str, NDArray[Any]]:
        return {"generator": self.generator.get_state().numpy(), **self._left}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        take_generator(state, "generator", self.generator)
        normal = take(state, "normal", np.float32, (None,), -FARTHEST, FARTHEST)
        drawn = "uniform" in state and len(state["uniform"]) > 0
        uniform = take(state, "uniform", np.float64 if drawn else np.float32, (None,), 0, np.nextafter(1, 0))
        self._left = {"normal": normal, "uniform": uniform}
