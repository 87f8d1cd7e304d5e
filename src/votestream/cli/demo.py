"""`votestream demo`: a real image stream that ships with the package, learned and judged in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from votestream.backbones import Backbone, create_backbone
from votestream.learners import CandidatesVoting, GaussianVoting, Learner
from votestream.streams.sample import CLASSES, sample_images

N_TASKS = 5


def variants(budget: int, seed: int) -> dict[str, Learner]:
    """What is compared: the paper's method, two of its parts alone, and ours."""
    how: dict[str, Any] = {"seed": seed, "device": "cpu"}
    return {
        "Baseline": CandidatesVoting(budget, augment=False, decide="argmax", **how),
        "Nearest exemplar": CandidatesVoting(budget, decide="nearest", **how),
        "CandidatesVoting": CandidatesVoting(budget, **how),
        "GaussianVoting": GaussianVoting(block=1, **how),  # as `votestream learn` makes it
    }


@dataclass
class Outcome:
    """What a run of the demo measured."""

    tasks: list[list[str]]
    image_bytes: int
    accuracy: dict[str, list[float]] = field(default_factory=dict)
    confusion: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    model_bytes: dict[str, int] = field(default_factory=dict)
    exemplar_bytes: int = 0
    kept: int = 0


def run(console: Console, seed: int = 0, budget: int = 200) -> Outcome:
    """Learn five tasks of two classes, once through, and print the accuracy on everything seen after each."""
    backbone = create_backbone("reduced_resnet18", device="cpu")
    train_images, train_labels = sample_images("train")
    test_images, test_labels = sample_images("test")
    rng = np.random.default_rng(seed)
    order = rng.permutation(CLASSES)
    outcome = Outcome([names.tolist() for names in np.split(order, N_TASKS)], train_images.nbytes)
    learners = variants(budget, seed)
    outcome.accuracy = {name: [] for name in learners}

    with _progress(console) as progress:
        looking = progress.add_task("Looking at the images", total=len(train_images) + len(test_images))
        train = _features(backbone, train_images, lambda n: progress.advance(looking, n))
        test = _features(backbone, test_images, lambda n: progress.advance(looking, n))
        learning = progress.add_task("Learning, each image once", total=len(train_images))
        for number, names in enumerate(outcome.tasks):
            rows = rng.permutation(np.flatnonzero(np.isin(train_labels, names)))
            for batch in np.split(rows, range(10, len(rows), 10)):
                for learner in learners.values():
                    learner.partial_fit(train[batch], train_labels[batch], task=number)
                progress.advance(learning, len(batch))
            seen = np.isin(test_labels, np.concatenate(outcome.tasks[: number + 1]))
            for name, learner in learners.items():
                correct = learner.predict(test[seen]) == test_labels[seen]
                outcome.accuracy[name].append(float(correct.mean()))
            console.print(_task_table(outcome, number))

    for name, learner in learners.items():
        outcome.confusion[name] = _confusion(test_labels, learner.predict(test), order)
        outcome.model_bytes[name] = learner.memory_bytes()
    exemplars = learners["CandidatesVoting"].exemplars_.features
    outcome.kept, outcome.exemplar_bytes = len(exemplars), exemplars.nbytes
    return outcome


def _progress(console: Console) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console)


def _features(backbone: Backbone, images: NDArray[np.uint8], advance: Any) -> NDArray[np.float32]:
    parts = []
    for start in range(0, len(images), 100):
        parts.append(backbone(images[start : start + 100]))
        advance(len(parts[-1]))
    return np.concatenate(parts)


def _task_table(outcome: Outcome, number: int) -> Table:
    names = " and ".join(outcome.tasks[number])
    table = Table(title=f"After task {number + 1} of {N_TASKS}: {names}", title_justify="left", min_width=60)
    table.add_column("accuracy on all classes seen so far")
    table.add_column(f"{2 * (number + 1)} classes", justify="right")
    for name, accuracies in outcome.accuracy.items():
        table.add_row(name, f"{accuracies[number]:.1%}")
    return table


def _confusion(truth: NDArray[Any], answers: NDArray[Any], order: NDArray[Any]) -> NDArray[np.int64]:
    return np.array([[np.sum((truth == t) & (answers == a)) for a in order] for t in order])


def report_memory(console: Console, outcome: Outcome) -> None:
    table = Table(title="What it keeps", title_justify="left", min_width=60)
    table.add_column("kept between calls")
    table.add_column("KB", justify="right")
    kept = {
        f"{outcome.kept} exemplar features (no image)": outcome.exemplar_bytes,
        "CandidatesVoting: they, statistics, head, random state": outcome.model_bytes["CandidatesVoting"],
        "GaussianVoting: class means and directions, one covariance": outcome.model_bytes["GaussianVoting"],
        "storing the training images instead": outcome.image_bytes,
    }
    for what, size in kept.items():
        table.add_row(what, f"{size / 1024:,.0f}")
    console.print(table)


def plot(outcome: Outcome, path: Path) -> None:
    """Accuracy after each task, and where the answers of each variant went in the end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    n_maps = len(outcome.confusion)
    curves, *maps = figure.subplots(1, 1 + n_maps, width_ratios=[1.3] + [1] * n_maps)
    steps = np.arange(1, N_TASKS + 1)
    for (name, accuracy), marker in zip(outcome.accuracy.items(), "os^D", strict=True):
        curves.plot(2 * steps, 100 * np.array(accuracy), marker=marker, label=name)
    curves.set(xlabel="classes seen", ylabel="accuracy on all of them (%)", xticks=2 * steps, ylim=(0, 100))
    curves.grid(alpha=0.3)
    curves.legend(loc="lower left")
    names = [name for task in outcome.tasks for name in task]
    for axes, (name, confusion) in zip(maps, outcome.confusion.items(), strict=True):
        axes.imshow(confusion / confusion.sum(1, keepdims=True), cmap="viridis", vmin=0, vmax=1)
        axes.set_title(f"{name}: {np.trace(confusion) / confusion.sum():.0%}")
        axes.set_xticks(range(10), names, rotation=90, fontsize=7)
        axes.set_yticks(range(10), names if axes is maps[0] else [], fontsize=7)
        axes.set_xlabel("answered, in order of learning")
        for edge in range(2, 10, 2):
            axes.axhline(edge - 0.5, color="white", linewidth=0.4)
            axes.axvline(edge - 0.5, color="white", linewidth=0.4)
    maps[0].set_ylabel("true class")
    figure.savefig(path, dpi=130)
