"""RanDumb: "Random Representations Outperform Online Continually Learned Representations" (Prabhu et al., 2024)."""

from __future__ import annotations

from typing import Any, ClassVar

from votestream.core.registry import register
from votestream.learners.statistics.klda import KLDA


@register("randumb")
class RanDumb(KLDA):
    r"""Random Fourier features, decorrelated by the covariance that all classes share; the nearest class mean decides.

    .. math::
        \hat y = \arg\min_c \; (h - m_c)^\top S^{-1} (h - m_c), \qquad h = \cos(x W + b)

    h = cos(x W + b) as in `klda`, and the distance to class c is (h - m_c) S' (h - m_c), S' the inverse of the shrunk
    covariance within the classes. The nearest mean by this distance is the class of the largest linear discriminant, so
    this is `klda` with one draw, and its code; what differs is how the paper's values are chosen. The paper takes
    pixels, and mirrored images besides; here it is given whatever features there are.

    Kept: 4 M (M + C) + 8 C bytes; W and b, 4 M (D + 1), made from the seed and not in the file; at most 128 rows that
    wait. Learning costs M² multiplications a sample, solving M³ / 3.

    Take it to compare with: what one draw of `klda` is worth.

    Reference: Ameya Prabhu et al., "Random Representations Outperform Online Continually Learned Representations",
    NeurIPS 2024.

    Parameters
    ----------
    projection : M, the random features.
    gamma : of the kernel exp(-gamma |x - x'|² / (D scale²)), as in `klda`.
    scale : what features are divided by; "auto" is the root mean square of the first row, as a power of two. Models
        that are to be merged need the same.
    shrinkage : of the covariance, above 0, at most 1; "oas" estimates it, as the authors' code does.
    preset : "paper" takes the paper's 25,000 random features, unless `projection` is given another value than its
        default.
    close_task_after : where `task=` is not given, samples per class after which a task is closed for good.
    batch_size : has no influence on what is learned.
    seed, device : "auto" is the GPU if there is one.
    track : predict samples before they are learned (a mini-batch whenever the stream is half as long again, as
        solving takes seconds), for `track_record`, `unknown_score` and calibrated probabilities.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "not")  # no line can tell
    >>> model = vs.RanDumb(projection=100, gamma=1.0, scale=1.0).partial_fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    fixed_parameters = ("projection", "gamma", "scale", "preset")
    paper: ClassVar[dict[str, Any]] = {"projection": 25_000}

    def __init__(
        self,
        projection: int = 2000,
        gamma: float = 0.03,
        scale: float | str = "auto",
        shrinkage: float | str = "oas",
        preset: str | None = None,
        close_task_after: int = 20,
        batch_size: int = 10,
        seed: int = 0,
        device: str = "auto",
        track: bool = False,
    ) -> None:
        self.projection = projection
        self.gamma = gamma
        self.scale = scale
        self.shrinkage = shrinkage
        self.preset = preset
        self.close_task_after = close_task_after
        self.batch_size = batch_size
        self.seed = seed
        self.device = device
        self.track = track

    def n_draws(self) -> int:
        return 1
