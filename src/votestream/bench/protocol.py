"""One run becomes a row: its learner and stream are made, gone through, and measured."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from votestream import __version__
from votestream.bench import metrics
from votestream.bench.course import Course, Test
from votestream.bench.finding import create_learner, find_learner, make_stream, takes_images, the_backbone
from votestream.bench.runs import Run, as_json
from votestream.streams import Stream


def carry_out(
    run: Run, device: str = "auto", data_dir: str | None = None, tell: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Everything about the run that goes into its row; `tell(task, tasks)` is called as each task ends.

    "auto" is the GPU, if there is one, for learners that train a network, and the CPU for those on features, whose
    small steps it is faster at.
    """
    on_images = takes_images(find_learner(run.method.learner))
    device = "cpu" if device == "auto" and not on_images else device
    backbone = None if on_images else the_backbone(run.backbone, "auto", run.method.views, run.method.stages)
    stream = make_stream(run.stream, run.seed, backbone, data_dir)
    model = create_learner(run.method, seed=run.seed, device=device, backbone=run.backbone)
    method = run.method
    course = Course(model, stream, method.ask, method.first_passes, run.anytime, test_first=not on_images, tell=tell)
    history: list[float] = []
    matrix: list[list[float]] = []
    anytime: list[tuple[int, float]] = []
    by_task: list[list[float]] = []
    for test in course.tests():
        anytime.append((test.samples, test.accuracy))
        by_task.append(test.by_task)
        if test.ends_task:
            history.append(test.accuracy)
            matrix.append(test.by_task)
    whole = method.ask == "each"
    return {
        **run.columns,
        "class order": as_json(stream.class_order),
        "after each task": _numbers(history) if whole else "",
        "by task": "; ".join(map(_numbers, matrix)),
        "Avg": metrics.average(history) if whole else None,
        "Last": metrics.last(history),
        "forgetting": metrics.forgetting(matrix) if whole else None,
        "bytes": model.memory_bytes() if hasattr(model, "memory_bytes") else None,
        "seconds learning": round(course.seconds_learning, 3),
        "seconds predicting": round(course.seconds_predicting, 3),
        "confusion": _matrix(stream, test) if "confusion" in run.keeps else "",
        **about(device),
        "norms": _norms(model, stream) if "norms" in run.keeps else "",
        "anytime": "; ".join(f"{samples} {accuracy:.2f}" for samples, accuracy in anytime) if course.stepwise else "",
        "AAA": metrics.average([accuracy for _, accuracy in anytime]) if course.stepwise else None,
        "WC-Acc": metrics.worst_case(by_task) if course.stepwise else None,
        "prequential": course.prequential,
    }


def about(device: str) -> dict[str, str]:
    """What made a row, and when."""
    name = torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else "CPU"
    threads = torch.get_num_threads()
    return {
        "version": __version__,
        "hardware": f"{name}, {platform.machine()}, {threads} threads, torch {torch.__version__}",
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _matrix(stream: Stream, test: Test) -> str:
    """The confusion matrix, rows separated by semicolons."""
    counts = metrics.confusion(stream.class_order, test.answers, test.truth)
    return ";".join(" ".join(map(str, row)) for row in counts)


def _norms(model: Any, stream: Stream) -> str:
    """Norms of the head's rows, in class order, a semicolon after each task's. Nothing where it has no such rows."""
    if not (hasattr(model, "weights_") and hasattr(model, "classes_")):
        return ""
    place = {label: i for i, label in enumerate(model.classes_.tolist())}
    norms = np.linalg.norm(model.weights_, axis=1)
    tasks: dict[int, list[str]] = {}
    for label, task in zip(stream.class_order, stream.first_met.tolist(), strict=False):
        if label in place:
            tasks.setdefault(task, []).append(f"{norms[place[label]]:.5g}")
    return " ".join(" ".join(tasks[task]) + ";" for task in sorted(tasks))


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)
