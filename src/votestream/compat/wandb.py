"""Bench runs in Weights & Biases, one run each, grouped by suite; `WANDB_MODE=offline` keeps them on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import wandb

from votestream.compat.records import BY_SAMPLES, Record
from votestream.compat.versions import warn_outside

warn_outside("wandb", "0.31", "0.31")

TASKS, SAMPLES = "tasks learned", "samples learned"


class WandbLog:
    """Runs of the project `votestream`, or of what `WANDB_PROJECT` names."""

    def __init__(self, project: str | None = None) -> None:
        self.project = project or os.environ.get("WANDB_PROJECT", "votestream")

    def _begin(self, suite: str, name: str, kind: str, settings: dict[str, Any]) -> Any:
        quiet = wandb.Settings(silent=True, console="off")  # the terminal is the bench's
        about = {"project": self.project, "group": suite, "name": name, "job_type": kind, "config": settings}
        return wandb.init(**about, settings=quiet, reinit="finish_previous")

    def add(self, record: Record) -> None:
        run = self._begin(record.suite, record.name, "run", {**record.settings, **record.about})
        run.define_metric("accuracy/*", step_metric=TASKS)
        run.define_metric(BY_SAMPLES, step_metric=SAMPLES)
        steps: dict[int, dict[str, float]] = {}
        for name, points in record.curves.items():
            for step, value in points:
                steps.setdefault(step, {TASKS: step})[name] = value
        for step in sorted(steps):
            run.log(steps[step])
        for step, value in record.by_samples:
            run.log({SAMPLES: step, BY_SAMPLES: value})
        run.summary.update({**record.numbers, **({"error": record.error} if record.error else {})})
        run.finish(exit_code=1 if record.error else 0)

    def add_figure(self, suite: str, path: Path) -> None:
        run = self._begin(suite, f"{suite} figure", "figure", {})
        run.log({suite: wandb.Image(str(path))})
        run.finish()

    def close(self) -> None:
        """Every run is finished as it is written."""


def open_log() -> WandbLog:
    """Where `votestream bench run --log wandb` writes."""
    return WandbLog()
