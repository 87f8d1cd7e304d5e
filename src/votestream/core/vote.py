"""What the voting learners tell about a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Vote:
    """How each decision fell: n rows, N tasks. `winner` is what the model answers."""

    candidates: NDArray[Any]  # (n, N) the label that each task nominates
    s_hat: NDArray[np.float32]  # (n, N) the candidates' normalised logits, or probabilities within their tasks
    prior: NDArray[np.float32]  # (n, N) w: which task the row looks like, by its nearest exemplar or by densities
    gamma: NDArray[np.float64]  # (n,) how confident the prior is
    score: NDArray[np.float64]  # (n, N) s_hat + exp(gamma - 1) w (see `voting.combine`), or the product s_hat w
    winner: NDArray[Any]  # (n,) label
    winner_task: NDArray[np.int64]  # (n,)
