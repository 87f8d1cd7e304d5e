"""What the offline rivals share: rows that wait until their task is over, a task learned in many passes, exemplars."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from votestream.backbones import Backbone
from votestream.common.parameters import SWITCH, Ranges, choice, real, whole
from votestream.common.validation import as_device
from votestream.core.exemplars import Exemplars
from votestream.core.guard import learned
from votestream.core.settings import settings_of
from votestream.core.tasks import next_task
from votestream.io.array_checks import demand
from votestream.io.model_files import joined, part_of
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.network_learner import NetworkLearner, seed_torch, training
from votestream.learners.network.network_memory import NetworkMemory, NetworkPredictor
from votestream.learners.network.passes import Loss, dropping, train
from votestream.learners.offline.knowledge import (
    Knowledge,
    LabelledImages,
    TakeOwn,
    absent_classes,
    both,
    no_images,
    select,
)
from votestream.memory.image_memory import to_device
from votestream.memory.waiting import Waiting

SHORT = 5  # times fewer passes


class TaskMemory(NetworkMemory):
    """What was known after the last task, and the images of the task that is not over yet."""

    derived = ("ahead",)

    def __init__(
        self, backbone: Backbone, budget: int, max_waiting: int | None, device: torch.device, take_own: TakeOwn
    ) -> None:
        self.device, self.size = device, backbone.input_size
        self.known = Knowledge(Classifier(backbone, device).eval(), no_images(self.size, device))
        self.waiting = Waiting(3 * self.size**2)
        self.waiting_for: str | int | None = None  # the task that was named with the rows that wait
        self.ahead: tuple[Knowledge, tuple[Any, ...]] | None = None  # what would be known, and by which parameters
        self._budget = budget
        self._max_waiting = max_waiting  # None: no limit
        self._take_own = take_own

    def arrays(self) -> dict[str, NDArray[Any]]:
        return joined({"known": self.known.state(), "waiting": self.waiting.state()})

    def restore(self, arrays: dict[str, NDArray[Any]], n_classes: int) -> None:
        self.known = self.known.restored(part_of(arrays, "known"), n_classes, self._take_own)
        n = len(self.known.exemplars[1])
        demand(n <= self._budget, f"there are {n} exemplars, but the budget is {self._budget}")
        self.waiting.restore(part_of(arrays, "waiting"), self.known.n_classes, n_classes)
        n, most = len(self.waiting), self._max_waiting
        demand(most is None or n < most, f"{n} images wait, but there is room for {most}")


class OfflineLearner(NetworkLearner[TaskMemory]):
    """Trains a network on a task's images in many passes, with exemplars of the tasks before.

    `fit_task` learns a task at once. With `partial_fit` the rows wait, as bytes, until the task is over: another
    one is named, or found and closed for good. Predicting before that trains a copy, as if the task ended there, and
    leaves no trace. So memory is bounded by the budget and the largest task, at most `max_waiting` images; a longer
    task is learned in parts of that size.

    Known classes absent from the new data are distilled. Where known classes come back, as in the parts of a long task
    or in a stream with blurry task boundaries, their labels count.

    A method is a subclass with a `_loss`, or with a `_learn_task` where there is more to a task than passes.
    """

    parameter_ranges: ClassVar[Ranges] = {
        "budget": whole(0, 10**15),
        "epochs": whole(1, 100_000),
        "max_waiting": whole(1, 10**9),
        "momentum": real(0, 0.9999),
        "weight_decay": real(0, 10),
        "augment": SWITCH,
        "preset": choice(None, "short"),
    }
    fixed_parameters = ()
    whole_tasks = True  # the data of a task are kept until it is over
    _drops: tuple[float, ...] = (49 / 70, 63 / 70)  # shares of the passes after which the learning rate
    _factor = 5.0  # is divided by this
    _colour = False  # augmentation by brightness and contrast too

    def __init__(
        self,
        budget: int = 0,
        lr: float = 0.1,
        epochs: int = 70,
        momentum: float = 0.9,
        weight_decay: float = 1e-5,
        augment: bool = True,
        backbone: str | Backbone = "reduced_resnet18",
        batch_size: int = 128,
        max_waiting: int = 50_000,
        close_task_after: int = 20,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.budget = budget
        self.lr = lr
        self.epochs = epochs
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.augment = augment
        self.backbone = backbone
        self.batch_size = batch_size
        self.max_waiting = max_waiting
        self.close_task_after = close_task_after
        self.preset = preset
        self.seed = seed
        self.device = device

    # ---- when to learn --------------------------------------------------------------------------

    def fit_task(self, X: ArrayLike, y: ArrayLike, task: str | int | None = None) -> Self:
        """Learn these rows, and what waits of the same task, as one whole task; returns the model.

        task: its name; left out, the rows are a new task, "task 1" and so on.
        """
        with self.guard.lock:
            self.partial_fit(X, y, next_task([] if self._state is None else self.tasks_) if task is None else task)
            self._finish()
        return self

    def new_memory(self, width: int) -> TaskMemory:
        most = self.max_waiting if self.bounded else None
        return TaskMemory(self.backbone_, self.budget, most, as_device(self.device), self._take_own)

    def learn(self, X: NDArray[np.uint8], classes: NDArray[np.int64], offset: int) -> None:
        memory, tasks = self.memory_, self.state_.tasks
        if min(memory.waiting.blocks, default=tasks.settled) < tasks.settled:
            self._finish(tasks.settled)
        if len(memory.waiting) and memory.waiting_for != tasks.named:  # it had no class of its own
            self._finish()
        memory.waiting_for, memory.ahead = tasks.named, None
        while len(X):
            free = self.max_waiting - len(memory.waiting)
            memory.waiting.add(X[:free], classes[:free], tasks.block_start)
            X, classes = X[free:], classes[free:]
            if len(memory.waiting) == self.max_waiting:
                self._finish()

    def _finish(self, before: int | None = None) -> None:
        """Learn the tasks that wait; only those whose classes are below `before`, if given."""
        memory = self.memory_
        all_of_it = before is None or max(memory.waiting.blocks) < before
        memory.known = self._ahead() if all_of_it else self._after(memory.waiting.tasks(before))
        memory.waiting.drop(before)
        memory.ahead = None

    def _ahead(self) -> Knowledge:
        """What would be known if the task ended here; kept until more arrives, or parameters are set."""
        memory, settings = self.memory_, settings_of(self)
        if memory.ahead is None or memory.ahead[1] != settings:
            memory.ahead = self._after(memory.waiting.tasks()), settings
        return memory.ahead[0]

    def _after(self, tasks: list[tuple[NDArray[np.uint8], NDArray[np.int64]]]) -> Knowledge:
        memory = self.memory_
        known, device = memory.known, memory.device
        for rows, classes in tasks:
            seed = (int(self.seed) << 20) + known.tasks
            random = torch.Generator().manual_seed(seed % 2**63)
            n_classes = max(known.n_classes, int(classes.max()) + 1)
            network = copy.deepcopy(known.network)
            network.grow(n_classes, random)
            new = memory.put(rows), to_device(classes, device)
            with training(device):
                seed_torch(seed % 2**63, device)  # for dropout and its like
                exemplars, own = self._learn_task(network, known, new, random)
            heads = known.heads if n_classes == known.n_classes else [*known.heads, n_classes]
            known = Knowledge(network, exemplars, heads, known.tasks + 1, own)
        return known

    # ---- a task ---------------------------------------------------------------------------------

    def _learn_task(
        self, network: Classifier, before: Knowledge, new: LabelledImages, random: torch.Generator
    ) -> tuple[LabelledImages, dict[str, Tensor]]:
        """Train the network, whose head has grown, and leave it in evaluation mode; exemplars to keep, and more."""
        loss = self._loss(network, before, absent_classes(before, new))
        self._pass(network, both(before.exemplars, new), loss, random, self._rates())
        return self._select(network, before.exemplars, new), {}

    def _loss(self, network: Classifier, before: Knowledge, old: Tensor) -> Loss:
        """What to lessen; for the `old` classes a teacher's answers count, for the others the labels."""
        raise NotImplementedError

    def _passes(self) -> int:
        return -(-self.epochs // (SHORT if self.preset == "short" else 1))

    def _rates(self) -> list[float]:
        return dropping(self.lr, self._passes(), self._drops, self._factor)

    def _pass(
        self,
        network: Classifier,
        images: LabelledImages,
        loss: Loss,
        random: torch.Generator,
        rates: list[float],
        **how: Any,
    ) -> None:
        how |= {"batch_size": self.batch_size, "momentum": self.momentum, "weight_decay": self.weight_decay}
        augment = None if not self.augment else "colour" if self._colour else "shift"
        train(network, *images, loss, random, rates=rates, augment=augment, **how)

    def _select(self, network: Classifier, kept: LabelledImages, new: LabelledImages) -> LabelledImages:
        return select(network, kept, new, self.budget // len(network.weight))

    # ---- predicting -----------------------------------------------------------------------------

    def new_predictor(self) -> NetworkPredictor:
        known = self.knowledge()
        return self.predictor_by(known.network, live=False, scores=partial(_scores_by, self._scores, known))

    def knowledge(self) -> Knowledge:
        """What predicts: what is known, or would be if the task that waits ended here."""
        return self._ahead() if len(self.memory_.waiting) else self.memory_.known

    @staticmethod
    def _scores(known: Knowledge, images: Tensor) -> Tensor:
        found: Tensor = known.network(images)
        return found

    @classmethod
    def from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Self:
        model = super().from_file(header, arrays, device, backbone)
        model.memory_.waiting_for = model.state_.tasks.named
        return model

    # ---- what was learned -----------------------------------------------------------------------

    @learned
    def exemplars_(self) -> Exemplars:
        """The images kept of the tasks that are over, (n, size, size, 3) uint8, as `features`; labels and tasks.

        Class by class as `classes_`, the most wanted first.
        """
        state = self.state_
        images, numbers = (part.cpu().numpy() for part in state.memory.known.exemplars)
        order = state.naming.order.argsort()[numbers].argsort(kind="stable")
        numbers = numbers[order]
        return Exemplars(images[order], state.naming.seen[numbers], state.task_numbers()[numbers])

    @staticmethod
    def _take_own(state: dict[str, NDArray[Any]], known: Knowledge) -> dict[str, NDArray[Any]]:
        """A method's own arrays out of a file, checked; `known` is what it goes with."""
        return {}


def _scores_by(
    scores: Callable[[Knowledge, Tensor], Tensor], known: Knowledge, network: Classifier, images: Tensor
) -> Tensor:
    return scores(known, images)
