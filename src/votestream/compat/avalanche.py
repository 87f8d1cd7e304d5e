"""VoteStream's learners in Avalanche, and Avalanche's benchmarks as streams. Needs avalanche-lib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from avalanche.benchmarks import OnlineCLExperience
from avalanche.core import SupervisedPlugin
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.plugins.evaluation import default_evaluator
from avalanche.training.templates import SupervisedTemplate
from numpy.typing import NDArray

from votestream.compat.versions import warn_outside
from votestream.core.learner import Learner
from votestream.streams.data_set import DataError, DataSet
from votestream.streams.tasks import Stream

warn_outside("avalanche-lib", oldest="0.6", newest="0.6")

UNKNOWN = 1e-12  # probability of a class that was never learned, so that the loss of its samples is finite


class VoteStreamStrategy(SupervisedTemplate):
    """An Avalanche strategy that trains a VoteStream learner, in one pass.

    Each mini-batch is predicted, for Avalanche's metrics during training, and then learned. Outputs are logarithms of
    probabilities, in a column for each class number up to the largest that was met, so the loss is the negative
    logarithm of the right class's probability. Experiences are tasks for the learner; the parts of an online stream
    are so only where the stream was made with `access_task_boundaries=True`.

    Samples are features (D), or images where the learner takes images: tensors (3, H, W) in [0, 1], as torchvision's
    `ToTensor` gives them, without `Normalize`.

    Parameters
    ----------
    learner : trained in place; `vs.ImageClassifier` for images.
    train_mb_size, eval_mb_size : rows learned and predicted at a time.
    plugins, evaluator, eval_every, peval_mode : as in Avalanche's `SupervisedTemplate`.

    >>> import torch, votestream as vs
    >>> from avalanche.benchmarks import benchmark_from_datasets
    >>> from avalanche.benchmarks.utils import as_classification_dataset
    >>> def part(labels):
    ...     data = torch.utils.data.TensorDataset(torch.randn(60, 4) + 9 * labels[:, None], labels)
    ...     data.targets = labels.tolist()  # Avalanche wants them, as torchvision's data sets have them
    ...     return as_classification_dataset(data)
    >>> parts = [part(2 * i + torch.arange(60) % 2) for i in range(2)]
    >>> benchmark = benchmark_from_datasets(train=parts, test=parts)
    >>> strategy = VoteStreamStrategy(learner=vs.GaussianVoting(), evaluator=None)
    >>> for experience in benchmark.train_stream:
    ...     _ = strategy.train(experience)
    >>> strategy.learner.tasks_
    ['experience 1', 'experience 2']
    """

    def __init__(
        self,
        *,
        learner: Learner,
        train_mb_size: int = 10,
        eval_mb_size: int = 256,
        plugins: Sequence[SupervisedPlugin] | None = None,
        evaluator: EvaluationPlugin | Callable[[], EvaluationPlugin] | None = default_evaluator,
        eval_every: int = -1,
        peval_mode: str = "epoch",
    ) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must be one of VoteStream's, as vs.GaussianVoting(), got {learner!r}")
        super().__init__(
            model=_Answers(learner),
            optimizer=None,
            train_mb_size=train_mb_size,
            eval_mb_size=eval_mb_size,
            plugins=plugins,
            evaluator=evaluator,
            eval_every=eval_every,
            peval_mode=peval_mode,
        )
        self.learner = learner

    def make_optimizer(self, **options: Any) -> None:
        """Nothing is trained by gradients here."""
        self.optimized_param_id: dict[str, Any] = {}

    def forward(self) -> torch.Tensor:
        """(n, C), enough columns for the labels of this mini-batch too."""
        return self.model(self.mb_x, int(self.mb_y.max()) + 1)

    def training_epoch(self, **options: Any) -> None:
        """Predict each mini-batch, then learn it."""
        task = self._task()
        for rows in self.dataloader:
            if self._stop_training:
                break
            self.mbatch = rows
            self._unpack_minibatch()
            self._before_training_iteration(**options)
            self._before_forward(**options)
            self.mb_output = self.forward()
            self._after_forward(**options)
            self.loss = self.criterion()
            self._before_update(**options)
            self.learner.partial_fit(as_samples(self.mb_x), self.mb_y.cpu().numpy(), task=task)
            self._after_update(**options)
            self._after_training_iteration(**options)

    def _task(self) -> str | None:
        experience = self.experience
        if isinstance(experience, OnlineCLExperience):
            if not experience.access_task_boundaries:
                return None
            experience = experience.origin_experience
        return f"experience {experience.current_experience + 1}"


class _Answers(torch.nn.Module):
    """A learner where Avalanche wants a module."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.learner = learner

    def forward(self, x: torch.Tensor, columns: int = 1) -> torch.Tensor:
        if not self.learner.fitted:
            return torch.zeros(len(x), columns)
        known = self.learner.classes_
        shares = np.full((len(x), max(columns, int(known.max()) + 1)), UNKNOWN)
        shares[:, known] = np.maximum(self.learner.predict_proba(as_samples(x)), UNKNOWN)
        return torch.from_numpy(np.log(shares)).float()


def as_samples(x: torch.Tensor) -> NDArray[Any]:
    """A batch of Avalanche's as VoteStream takes it: features (n, D), or images (n, H, W, 3), uint8."""
    if x.ndim != 4:
        return x.detach().cpu().numpy()
    if x.shape[1] not in (1, 3):
        raise ValueError(f"images must be (n, 3, H, W) or (n, 1, H, W), got {tuple(x.shape)}")
    if x.dtype != torch.uint8:
        low, high = float(x.min()), float(x.max())
        if low < 0 or high > 1:
            raise ValueError(
                f"images must hold values in [0, 1], got {low:.3g} to {high:.3g}: leave out Normalize, the backbone "
                "normalises images itself"
            )
        x = (x * 255).round().to(torch.uint8)
    return x.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().cpu().numpy()


def stream_from_avalanche(benchmark: Any, *, batch: int = 10, seed: int = 0, shuffle: bool = True) -> Stream:
    """An Avalanche benchmark as a VoteStream stream: each experience of its training stream is a task.

    All samples are read into memory, through the transforms that the benchmark has for evaluation. Samples of an
    experience come in an order drawn by the seed, or as they lie without `shuffle`.

    >>> import torch, votestream as vs
    >>> from avalanche.benchmarks import benchmark_from_datasets
    >>> from avalanche.benchmarks.utils import as_classification_dataset
    >>> data = torch.utils.data.TensorDataset(torch.randn(30, 4), torch.arange(30) % 3)
    >>> data.targets = data.tensors[1].tolist()
    >>> part = as_classification_dataset(data)
    >>> print(stream_from_avalanche(benchmark_from_datasets(train=[part], test=[part])))
    avalanche: 1 task, 3 classes, 30 samples in batches of 10, seed 0
    class order: 0, 1, 2
    """
    X, y, sizes = _read(benchmark.train_stream)
    rng, ends = np.random.default_rng(seed), np.cumsum(sizes)
    plan = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    classes = [label for rows in plan for label in np.unique(y[rows]).tolist()]
    test = _read(benchmark.test_stream)[:2] if hasattr(benchmark, "test_stream") else (None, None)
    return Stream(
        name="avalanche",
        data=DataSet("avalanche", X, y, *test),
        plan=tuple(rng.permutation(rows) if shuffle else rows for rows in plan),
        class_order=list(dict.fromkeys(classes)),
        batch=batch,
        seed=seed,
    )


def _read(stream: Any) -> tuple[NDArray[Any], NDArray[np.int64], list[int]]:
    """Samples and labels of all experiences, and how many each has."""
    X, y, sizes = [], [], []
    for experience in stream:
        data = experience.dataset.eval()
        pairs = [data[i][:2] for i in range(len(data))]
        X += [_as_tensor(x) for x, _ in pairs]
        y += [int(label) for _, label in pairs]
        sizes.append(len(pairs))
    if not X:
        raise DataError("the benchmark has no samples.")
    if len({tuple(x.shape) for x in X}) > 1:
        raise DataError("the benchmark's images differ in size: give it a transform that resizes them.")
    return as_samples(torch.stack(X)), np.array(y), sizes


def _as_tensor(x: Any) -> torch.Tensor:
    """Of an image without transforms: (3, H, W), uint8."""
    if isinstance(x, torch.Tensor):
        return x
    if hasattr(x, "convert"):  # a PIL image
        return torch.from_numpy(np.array(x.convert("RGB"))).permute(2, 0, 1)
    return torch.as_tensor(x)
