"""`votestream bench run --log`: rows go to MLflow, TensorBoard or Weights & Biases as runs end."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from votestream.bench.runs import Suite
from votestream.common.extras import import_package
from votestream.compat.records import Record, RunLog

LIBRARIES = ("mlflow", "tensorboard", "wandb")  # each has its module in votestream.compat
SETTINGS = ("method", "learner", "stream", "backbone", "digest", "seed", "Q")
NUMBERS = (
    "Avg",
    "Last",
    "forgetting",
    "bytes",
    "seconds learning",
    "seconds predicting",
    "AAA",
    "WC-Acc",
    "prequential",
)
ABOUT = ("version", "hardware", "finished", "command")


class Logs:
    """The libraries that were asked for; one that fails is told once, and costs no row of the results."""

    def __init__(self, suite: Suite, names: Iterable[str]) -> None:
        self.suite = suite
        self._logs = {name: _open(name) for name in dict.fromkeys(names)}

    def add(self, row: Mapping[str, Any]) -> None:
        """A run that has just ended."""
        record = as_record(self.suite.name, row)
        for name, log in list(self._logs.items()):
            try:
                log.add(record)
            except Exception as error:  # whatever a server or a library may raise
                self._give_up(name, error)

    def finish(self, rows: list[dict[str, str]]) -> None:
        """Add the suite's figure of all its rows, where one can be drawn."""
        with tempfile.TemporaryDirectory() as folder:
            path = self._drawn(rows, Path(folder))
            for name, log in list(self._logs.items()):
                try:
                    if path is not None:
                        log.add_figure(self.suite.name, path)
                    log.close()
                except Exception as error:
                    self._give_up(name, error)

    def _drawn(self, rows: list[dict[str, str]], folder: Path) -> Path | None:
        if not self.suite.plot or not self._logs or find_spec("matplotlib") is None:
            return None
        from votestream.bench.plot import plot_suite

        path = folder / f"{self.suite.name}.png"
        try:
            plot_suite(self.suite, rows, path)
        except ValueError:  # rows with nothing to draw, such as failed ones
            return None
        return path

    def _give_up(self, name: str, error: Exception) -> None:
        del self._logs[name]
        warnings.warn(
            f"{name} keeps no more records of these runs ({type(error).__name__}: {error}); results do", stacklevel=3
        )


def _open(name: str) -> RunLog:
    if name not in LIBRARIES:
        raise ValueError(f"--log must be one of {', '.join(LIBRARIES)}, got {name}")
    import_package(name, f"--log {name}")
    try:
        log: RunLog = import_module(f"votestream.compat.{name}").open_log()
    except Exception as error:  # whatever a library says about its settings and its server
        raise ValueError(f"--log {name} cannot be begun: {error}") from error
    return log


def as_record(suite: str, row: Mapping[str, Any]) -> Record:
    """What a row of the results says, in the words of `Record`.

    >>> row = {"method": "NCM", "stream": "sample", "seed": "0", "settings": '{"k": 3}', "options": "{}"}
    >>> record = as_record("smoke", {**row, "after each task": "90.00 81.50", "by task": "90.00; 85.00 78.00"})
    >>> record.name, record.settings["settings.k"], record.curves["accuracy/all so far"]
    ('NCM on sample, seed 0', 3, [(1, 90.0), (2, 81.5)])
    >>> record.curves["accuracy/task 1"], record.curves["accuracy/task 2"]
    ([(1, 90.0), (2, 85.0)], [(2, 78.0)])
    """
    settings = {name: row[name] for name in SETTINGS if row.get(name) not in (None, "")}
    for column in ("settings", "options"):
        for name, value in json.loads(row.get(column) or "{}").items():
            settings[f"{column}.{name}"] = value if isinstance(value, (str, int, float, bool)) else json.dumps(value)
    Q = f", Q {row['Q']}" if row.get("Q") else ""
    numbers = {name: float(row[name]) for name in NUMBERS if row.get(name) not in (None, "")}
    about = {name: str(row[name]) for name in ABOUT if row.get(name)}
    name = f"{row['method']}{Q} on {row['stream']}, seed {row['seed']}"
    return Record(suite, name, settings, _curves(row), _by_samples(row), numbers, about, str(row.get("error") or ""))


def _curves(row: Mapping[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """Accuracy on all classes so far, and on each task's, after each task."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for step, value in enumerate(str(row.get("after each task") or "").split(), 1):
        curves.setdefault("accuracy/all so far", []).append((step, float(value)))
    tests = [test.split() for test in str(row.get("by task") or "").split(";") if test.strip()]
    last = max((len(test) for test in tests), default=0)
    for test in tests:  # a test after task n has n numbers; a run that is tested once has one such line
        for task, value in enumerate(test, 1):
            if value != "nan":
                curves.setdefault(f"accuracy/task {task:0{len(str(last))}}", []).append((len(test), float(value)))
    return curves


def _by_samples(row: Mapping[str, Any]) -> list[tuple[int, float]]:
    points = (point.split() for point in str(row.get("anytime") or "").split(";") if point.strip())
    return [(int(samples), float(value)) for samples, value in points]
