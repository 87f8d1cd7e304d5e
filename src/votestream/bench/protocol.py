"""One run: learn the stream task by task, answer after each on all classes so far."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from votestream import __version__
from votestream.bench import metrics
from votestream.bench.finding import create_learner, find_learner, make_stream, takes_images, the_backbone
from votestream.bench.runs import Run, as_json
from votestream.learners import Learner
from votestream.streams import Stream, Task


def carry_out(
    run: Run, device: str = "auto", data_dir: str | None = None, tell: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Everything about the run that goes into its row; `tell(task, tasks)` is called as each task ends.

    Samples go to the learner a task a call, which it learns in its own mini-batches, once or as often as it does;
    tasks are told where the stream tells them. "auto" is the GPU, if there is one, for learners that train a network,
    and the CPU for those on features, whose small steps it is faster at.
    """
    on_images = takes_images(find_learner(run.method.learner))
    device = "cpu" if device == "auto" and not on_images else device
    backbone = None if on_images else the_backbone(run.backbone, "auto", run.method.views, run.method.stages)
    stream = make_stream(run.stream, run.seed, backbone, data_dir)
    model = create_learner(run.method, seed=run.seed, device=device, backbone=run.backbone)
    examine = _examiner(model, stream)
    history: list[float] = []
    matrix: list[list[float]] = []
    learning = predicting = 0.0
    for task in stream:
        start = time.perf_counter()
        _learn(model, task, run.method.first_passes if task.number == 0 else 1)
        learning += _since(start)
        if run.method.ask == "each" or task.number == len(stream) - 1:
            start = time.perf_counter()
            answers, truth = examine(task)
            predicting += _since(start)
            history.append(metrics.accuracy(answers, truth))
            matrix.append(metrics.by_task(answers, truth, _task_of(stream, truth), task.number + 1))
        if tell is not None:
            tell(task.number + 1, len(stream))
    whole = run.method.ask == "each"
    return {
        **run.columns,
        "Q": run.method.Q,
        "paper row": run.method.paper,
        "class order": as_json(stream.class_order),
        "after each task": _numbers(history) if whole else "",
        "by task": "; ".join(map(_numbers, matrix)),
        "Avg": metrics.average(history) if whole else None,
        "Last": metrics.last(history),
        "forgetting": metrics.forgetting(matrix) if whole else None,
        "bytes": model.memory_bytes() if hasattr(model, "memory_bytes") else None,
        "seconds learning": round(learning, 3),
        "seconds predicting": round(predicting, 3),
        "confusion": _confusion(stream, answers, truth) if run.confusion else "",
        **about(device),
        "norms": _norms(model, stream) if run.norms else "",
    }


def about(device: str) -> dict[str, str]:
    """What made a row, and when."""
    name = torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else "CPU"
    threads = torch.get_num_threads()
    return {
        "version": __version__,
        "hardware": f"{name}, {platform.machine()}, {threads} threads, torch {torch.__version__}",
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _learn(model: Any, task: Task, passes: int) -> None:
    X, y = task.train
    if isinstance(X, np.ndarray):
        if passes > 1:
            model.fit_task(X, y, task=task.name, passes=passes)
        elif task.name is not None and getattr(model, "whole_tasks", False) and getattr(model, "bounded", True):
            # Trained here and now, and not when it is asked.
            model.fit_task(X, y, task=task.name)
        else:
            model.partial_fit(X, y, task=task.name)
    else:  # files, which need not fit in memory together
        for x, labels in task:
            model.partial_fit(x, labels, task=task.name)


def _examiner(model: Learner, stream: Stream) -> Callable[[Task], tuple[NDArray, NDArray]]:
    """Answers and truth on the classes so far. A learner with an `examiner` of its own answers by that.

    `model.examiner(X)` returns a function of rows that answers as `model.predict(X[rows])`, and may remember what
    further learning cannot change.
    """
    data = stream.data
    if not (hasattr(model, "examiner") and isinstance(data.X_test, np.ndarray) and data.y_test is not None):
        return lambda task: _predictions(model, task)
    ask, truth = model.examiner(data.X_test), data.y_test

    def examine(task: Task) -> tuple[NDArray, NDArray]:
        rows = np.flatnonzero(stream.first_met[stream.test_labels] <= task.number)
        return _checked(ask(rows), truth[rows])

    return examine


def _predictions(model: Learner, task: Task) -> tuple[NDArray, NDArray]:
    parts = [_checked(model.predict(X), y) for X, y in task.test_batches(10_000)]
    return np.concatenate([answers for answers, _ in parts]), np.concatenate([truth for _, truth in parts])


def _checked(answers: Any, truth: NDArray) -> tuple[NDArray, NDArray]:
    made = np.asarray(answers)
    if made.shape != truth.shape:
        raise ValueError(
            f"predict returned an array of shape {made.shape} for {len(truth)} rows: it must be ({len(truth)},)"
        )
    return made, truth


def _since(start: float) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _task_of(stream: Stream, labels: NDArray) -> NDArray[np.int64]:
    """The task that first brought each of these classes."""
    task_of = dict(zip(stream.class_order, stream.first_met.tolist(), strict=False))
    return np.array([task_of[label] for label in labels.tolist()], np.int64)


def _confusion(stream: Stream, answers: NDArray, truth: NDArray) -> str:
    """Counts, a row a true class, in class order: rows separated by semicolons."""
    place = {label: i for i, label in enumerate(stream.class_order)}
    counts = np.zeros((len(place), len(place)), int)
    np.add.at(counts, ([place[t] for t in truth.tolist()], [place[a] for a in answers.tolist()]), 1)
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
