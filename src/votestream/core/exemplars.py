"""What learners tell about the exemplars they keep."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Exemplars(NamedTuple):
    """The stored exemplars, class by class in order of arrival."""

    features: NDArray[np.float32]  # (n, D)
    labels: NDArray[Any]  # (n,)
    tasks: NDArray[np.int64]  # (n,)
