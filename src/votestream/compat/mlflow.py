"""MLflow: bench runs in its tracking, and models logged in our own file format, without pickle."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
import numpy as np
from mlflow.entities import Metric, Param, RunTag
from mlflow.models import Model, ModelSignature
from mlflow.types import Schema, TensorSpec

from votestream._version import __version__
from votestream.compat.records import Record
from votestream.compat.versions import warn_outside
from votestream.core.learner import Learner
from votestream.learners import load

warn_outside("mlflow-skinny", "3.17", "3.17")

ANSWERS = ("predict", "predict_proba")


def log_model(model: Learner, name: str = "model", **options: Any) -> Any:
    """Log a model to the current run as a pyfunc: our own file beside MLflow's description of it. No pickle.

    Args:
        name: What the run calls it.
        options: More of `mlflow.pyfunc.log_model`, such as `registered_model_name`.

    Returns: MLflow's ModelInfo; its `model_uri` is for `load_model`, and for `mlflow.pyfunc.load_model`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        signature = signature_of(model)
        (spec,) = signature.inputs.inputs
        given: dict[str, Any] = {
            "signature": signature,
            "input_example": np.zeros([1 if size == -1 else size for size in spec.shape], spec.type),
            "pip_requirements": [f"votestream=={__version__}"],
            "model_config": {"answer": "predict"},  # MLflow takes another at loading only where there is one
            **options,
        }
        return mlflow.pyfunc.log_model(name=name, loader_module=__name__, data_path=str(path), **given)


def load_model(model_uri: str, **options: Any) -> Learner:
    """The learner that `log_model` logged, to predict or to go on learning; `options` as of `votestream.load`."""
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri))
    about = Model.load(str(folder)).flavors.get(mlflow.pyfunc.FLAVOR_NAME, {})
    if about.get("loader_module") != __name__:
        raise ValueError(f"{model_uri} was not logged by votestream.compat.mlflow.log_model")
    return load(folder / about["data"], **options)


def signature_of(model: Learner) -> ModelSignature:
    """What goes in: images (n, height, width, 3) of uint8, or features (n, D) of float32."""
    if model.input == "images":
        spec = TensorSpec(np.dtype(np.uint8), (-1, -1, -1, 3))
    else:
        spec = TensorSpec(np.dtype(np.float32), (-1, model.n_features_in_))
    return ModelSignature(inputs=Schema([spec]))


class _Answering:
    """What MLflow calls."""

    def __init__(self, model: Learner, answer: str) -> None:
        if answer not in ANSWERS:
            raise ValueError(f"model_config['answer'] must be one of {', '.join(ANSWERS)}, got {answer!r}")
        self.model, self.answer = model, answer

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        return getattr(self.model, self.answer)(np.asarray(model_input))


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> _Answering:
    """MLflow's entry: `model_config={"answer": "predict_proba"}` gives probabilities in place of labels."""
    return _Answering(load(path), (model_config or {}).get("answer", "predict"))


class MlflowLog:
    """A run for each record, in the experiment `votestream/SUITE` of the tracking server that MLflow is set to."""

    def __init__(self) -> None:
        self._client = mlflow.MlflowClient()
        self._experiments: dict[str, str] = {}

    def _experiment(self, suite: str) -> str:
        if suite not in self._experiments:
            name = f"votestream/{suite}"
            found = self._client.get_experiment_by_name(name)
            self._experiments[suite] = found.experiment_id if found else self._client.create_experiment(name)
        return self._experiments[suite]

    def add(self, record: Record) -> None:
        run = self._client.create_run(self._experiment(record.suite), run_name=record.name)
        moment = run.info.start_time
        metrics = [Metric(_metric_name(name), value, moment, 0) for name, value in record.numbers.items()]
        for name, points in record.all_curves.items():
            metrics += [Metric(_metric_name(name), value, moment, step) for step, value in points]
        tags = [RunTag(name, value[:5000]) for name, value in {**record.about, "error": record.error}.items() if value]
        self._client.log_batch(
            run.info.run_id, params=[Param(name, str(value)) for name, value in record.settings.items()], tags=tags
        )
        for start in range(0, len(metrics), 1000):  # MLflow takes no more at once
            self._client.log_batch(run.info.run_id, metrics=metrics[start : start + 1000])
        self._client.set_terminated(run.info.run_id, "FAILED" if record.error else "FINISHED")

    def add_figure(self, suite: str, path: Path) -> None:
        run = self._client.create_run(self._experiment(suite), run_name=f"{suite} figure")
        self._client.log_artifact(run.info.run_id, str(path))
        self._client.set_terminated(run.info.run_id)

    def close(self) -> None:
        """Every run is closed as it is written."""


def _metric_name(name: str) -> str:
    """The name in those letters that MLflow takes."""
    return "".join(letter if letter.isalnum() or letter in "_-. /" else "_" for letter in name)


def open_log() -> MlflowLog:
    """Where `votestream bench run --log mlflow` writes: `MLFLOW_TRACKING_URI`."""
    return MlflowLog()
