"""`votestream demo`: a stream of real images from the package, learned and tested in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from votestream.backbones import create_backbone
from votestream.bench.course import Course, Test
from votestream.bench.metrics import confusion
from votestream.learners import CandidatesVoting, GaussianVoting, Learner
from votestream.pipeline import ImageClassifier
from votestream.streams import Stream, Task, stream
from votestream.streams.sample import sample_images


def variants(budget: int, seed: int) -> dict[str, Learner]:
    """The learners that are compared: the paper's method, two of its parts alone, and GaussianVoting."""
    how: dict[str, Any] = {"seed": seed, "device": "cpu"}
    return {
        "Baseline": CandidatesVoting(budget, augment=False, decide="argmax", **how),
        "Nearest exemplar": CandidatesVoting(budget, decide="nearest", **how),
        "CandidatesVoting": CandidatesVoting(budget, **how),
        "GaussianVoting": GaussianVoting(block=1, **how),  # as `votestream learn` makes it
    }


@dataclass
class Outcome:
    """The results of a run of the demo."""

    stream: Stream
    learners: dict[str, Learner]
    tests: list[dict[str, Test]] = field(default_factory=list)  # after each task, of each learner


def run(console: Console, seed: int = 0, budget: int = 200) -> Outcome:
    """Learn five tasks of two classes, and print the accuracy on all classes so far after each."""
    made = stream("sample", seed=seed, backbone=create_backbone("reduced_resnet18", device="cpu"))
    outcome = Outcome(made, variants(budget, seed))
    courses = [Course(learner, made).tests() for learner in outcome.learners.values()]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        learning = progress.add_task("Learning, each image once", total=made.n_samples)
        for task, tests in zip(made, zip(*courses, strict=True), strict=True):
            outcome.tests.append(dict(zip(outcome.learners, tests, strict=True)))
            progress.advance(learning, task.n_samples)
            console.print(_task_table(task, outcome.tests[-1]))
    return outcome


def _task_table(task: Task, tests: dict[str, Test]) -> Table:
    of = f"{task.number + 1} of {len(task.stream)}"
    table = Table(title=f"After task {of}: {' and '.join(task.new_classes)}", title_justify="left", min_width=60)
    table.add_column("accuracy on all classes seen so far")
    table.add_column(f"{np.unique(next(iter(tests.values())).truth).size} classes", justify="right")
    for name, test in tests.items():
        table.add_row(name, f"{test.accuracy:.1f}%")
    return table


def report_memory(console: Console, outcome: Outcome) -> None:
    table = Table(title="What each learner stores", title_justify="left", min_width=60)
    table.add_column("stored")
    table.add_column("KB", justify="right")
    exemplars = outcome.learners["CandidatesVoting"].exemplars_.features
    kept = {
        f"{len(exemplars)} exemplar features (no image)": exemplars.nbytes,
        "CandidatesVoting: features, statistics, head, random state": outcome.learners[
            "CandidatesVoting"
        ].memory_bytes(),
        "GaussianVoting: class means and directions, one covariance": outcome.learners["GaussianVoting"].memory_bytes(),
        "storing the training images instead": sample_images("train")[0].nbytes,
    }
    for what, size in kept.items():
        table.add_row(what, f"{size / 1024:,.0f}")
    console.print(table)


def show_photos(console: Console, cutouts: int = 12) -> None:
    """Learn and predict the two photos of scikit-learn (both CC BY 2.0) with the backbone for photos."""
    from sklearn.datasets import load_sample_image

    photos = {"temple": load_sample_image("china.jpg"), "flower": load_sample_image("flower.jpg")}
    rng, images, labels = np.random.default_rng(0), [], []
    for number in range(cutouts * len(photos)):
        label = list(photos)[number % len(photos)]
        side = int(rng.integers(200, 321))
        left, top = rng.integers(0, 321 - side), rng.integers(0, photos[label].shape[0] - side)
        images.append(photos[label][top : top + side, left : left + side])
        labels.append(label)
    model = ImageClassifier(learner=GaussianVoting(block=1, device="cpu")).partial_fit(images, labels)
    console.print(
        f"Two photos of 640 x 427 pixels, with the backbone {model.backbone_.name}. The model learned {cutouts} pieces "
        "of the left half of each photo, and predicts the right halves:"
    )
    shares = model.predict_proba([np.ascontiguousarray(photo[:, 320:]) for photo in photos.values()])
    for label, row in zip(photos, shares, strict=True):
        console.print(f"  {label}: {model.classes_[row.argmax()]} {100 * row.max():.0f}%")


def plot(outcome: Outcome, path: Path) -> None:
    """Plot the accuracy after each task, and the confusion matrix of each learner at the end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    n_maps, order = len(outcome.learners), outcome.stream.class_order
    curves, *maps = figure.subplots(1, 1 + n_maps, width_ratios=[1.3] + [1] * n_maps)
    seen = np.cumsum([len(task.new_classes) for task in outcome.stream])
    for name, marker in zip(outcome.learners, "os^D", strict=True):
        curves.plot(seen, [tests[name].accuracy for tests in outcome.tests], marker=marker, label=name)
    curves.set(xlabel="classes seen", ylabel="accuracy on all of them (%)", xticks=seen, ylim=(0, 100))
    curves.grid(alpha=0.3)
    curves.legend(loc="lower left")
    for axes, (name, test) in zip(maps, outcome.tests[-1].items(), strict=True):
        counts = confusion(order, test.answers, test.truth)
        axes.imshow(counts / counts.sum(1, keepdims=True), cmap="viridis", vmin=0, vmax=1)
        axes.set_title(f"{name}: {test.accuracy:.0f}%")
        axes.set_xticks(range(len(order)), order, rotation=90, fontsize=7)
        axes.set_yticks(range(len(order)), order if axes is maps[0] else [], fontsize=7)
        axes.set_xlabel("predicted class, in order of learning")
        for edge in seen[:-1]:
            axes.axhline(edge - 0.5, color="white", linewidth=0.4)
            axes.axvline(edge - 0.5, color="white", linewidth=0.4)
    maps[0].set_ylabel("true class")
    figure.savefig(path, dpi=130)
