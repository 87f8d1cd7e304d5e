"""Bench runs in MLflow, TensorBoard and Weights & Biases, and models in MLflow: read back as those libraries do."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import votestream as vs
from votestream.bench.results import Results

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def tracking(tmp_path_factory):
    """MLflow in a database of its own."""
    pytest.importorskip("sqlalchemy")
    mlflow = pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("models", artifact_location=folder.as_uri())
    mlflow.set_experiment("models")
    return mlflow


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return (rng.normal(size=(90, 8)) + 3 * np.eye(8)[y]).astype(np.float32), np.array(["elm", "fig", "oak"])[y]


# ---- models -------------------------------------------------------------------------------------


def test_a_logged_model_is_loaded_as_it_was_and_goes_on_learning(tracking, features):
    from votestream.compat.mlflow import load_model, log_model

    X, y = features
    model = vs.GaussianVoting(device="cpu").partial_fit(X[:60], y[:60])
    with tracking.start_run():
        info = log_model(model)
    loaded = load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    loaded.partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(loaded.predict_proba(X), model.partial_fit(X[60:], y[60:]).predict_proba(X))


def test_a_logged_model_answers_as_a_pyfunc(tracking, features):
    from votestream.compat.mlflow import log_model

    X, y = features
    model = vs.NearestClassMean(device="cpu").partial_fit(X, y)
    with tracking.start_run():
        uri = log_model(model).model_uri
    np.testing.assert_array_equal(tracking.pyfunc.load_model(uri).predict(X), model.predict(X))
    proba = tracking.pyfunc.load_model(uri, model_config={"answer": "predict_proba"})
    np.testing.assert_array_equal(proba.predict(X), model.predict_proba(X))
    with pytest.raises(Exception, match=r"Incompatible input|shape"):
        tracking.pyfunc.load_model(uri).predict(X[:, :5])


def test_an_image_classifier_is_logged_with_images_as_its_input(tracking):
    from votestream.compat.mlflow import log_model

    X, y = (part[::100] for part in vs.sample_images("train"))
    model = vs.ImageClassifier("reduced_resnet18", vs.NearestClassMean(device="cpu")).partial_fit(X, y)
    with tracking.start_run():
        uri = log_model(model, "tree-classifier").model_uri
    np.testing.assert_array_equal(tracking.pyfunc.load_model(uri).predict(X), model.predict(X))


def test_no_pickle_is_written(tracking, features):
    from votestream.compat.mlflow import log_model

    with tracking.start_run():
        uri = log_model(vs.NearestClassMean(device="cpu").partial_fit(*features)).model_uri
    folder = Path(tracking.artifacts.download_artifacts(uri))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert folder / "data" / "model.safetensors" in files
    assert not [
        path for path in files if path.suffix in (".pkl", ".pickle", ".joblib") or path.read_bytes()[:1] == b"\x80"
    ]


def test_a_model_that_is_not_ours_is_refused(tracking):
    from votestream.compat.mlflow import load_model

    with tracking.start_run():
        info = tracking.pyfunc.log_model(name="other", loader_module="json", data_path=__file__)
    with pytest.raises(ValueError, match="was not logged by votestream"):
        load_model(info.model_uri)


def test_autolog_records_a_pipeline_and_its_score_but_no_learner_alone(tracking, features):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    tracking.sklearn.autolog(log_models=False, log_datasets=False)
    try:
        with tracking.start_run() as run:
            make_pipeline(StandardScaler(), vs.NearestClassMean(device="cpu")).fit(*features)
        with tracking.start_run() as alone:
            vs.NearestClassMean(device="cpu").fit(*features)
    finally:
        tracking.sklearn.autolog(disable=True)
    data = tracking.get_run(run.info.run_id).data
    assert data.params["nearestclassmean__batch_size"] == "10"
    assert data.metrics["training_score"] > 0.9
    assert not tracking.get_run(alone.info.run_id).data.params


# ---- bench runs ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    """What `votestream bench run smoke` has written, with every library that is installed."""
    folder = tmp_path_factory.mktemp("bench")
    there = [name for name in ("mlflow", "tensorboard", "wandb") if _is_installed(name)]
    env = {
        **os.environ,
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "WANDB_MODE": "offline",
        "VOTESTREAM_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "votestream", "bench", "run", "smoke", "--seeds", "1", "--method", "NCM"]
    command += ["--method", "SLDA", "--jobs", "1"]
    for name in there:
        command += ["--log", name]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "keeps no more records" not in done.stderr
    rows = {row["method"]: row for row in Results(folder / "results" / "smoke.csv").rows()}
    assert set(rows) == {"NCM", "SLDA"}
    return folder, rows


def _is_installed(name):
    try:
        __import__("sqlalchemy" if name == "mlflow" else name)
        __import__(name)
    except ImportError:
        return False
    return True


def so_far(row):
    return [float(value) for value in row["after each task"].split()]


def test_mlflow_has_each_run_with_its_settings_accuracies_and_the_figure(benched, tracking):
    folder, rows = benched
    client = tracking.MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("votestream/smoke")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"NCM on sample, seed 0", "SLDA on sample, seed 0", "smoke figure"}
    run, row = runs["NCM on sample, seed 0"], rows["NCM"]
    assert run.info.status == "FINISHED"
    assert run.data.params["learner"] == "ncm"
    assert run.data.metrics["Last"] == pytest.approx(float(row["Last"]), abs=0.01)
    assert run.data.tags["command"].startswith("votestream bench run smoke")
    history = client.get_metric_history(run.info.run_id, "accuracy/all so far")
    assert [(each.step, each.value) for each in history] == list(enumerate(so_far(row), 1))
    assert [file.path for file in client.list_artifacts(runs["smoke figure"].info.run_id)] == ["smoke.png"]


def test_tensorboard_has_each_run_with_its_curves_and_the_figure(benched):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, rows = benched
    assert {path.name for path in (folder / "runs" / "smoke").iterdir()} == {
        "NCM on sample, seed 0",
        "SLDA on sample, seed 0",
        "figure",
    }
    events = accumulator.EventAccumulator(str(folder / "runs" / "smoke" / "NCM on sample, seed 0")).Reload()
    points = [(each.step, each.value) for each in events.Scalars("accuracy/all so far")]
    assert [step for step, _ in points] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose([value for _, value in points], so_far(rows["NCM"]), rtol=1e-6)
    assert "run/Last" in events.Tags()["scalars"]
    figure = accumulator.EventAccumulator(str(folder / "runs" / "smoke" / "figure")).Reload()
    assert figure.Tags()["images"] == ["smoke"]


def test_wandb_keeps_the_runs_offline(benched):
    pytest.importorskip("wandb")
    folder, rows = benched
    runs = sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(runs) == 3
    found = [_offline_history(path) for path in runs]
    accuracies = [[row["accuracy/all so far"] for row in history if "accuracy/all so far" in row] for history in found]
    assert sorted(filter(None, accuracies)) == sorted(so_far(row) for row in rows.values())


BLOCK, HEADER = 1 << 15, struct.Struct("<IHB")  # of the file: LevelDB's log format after 7 bytes of wandb's own


def _messages(content):
    """The messages in a .wandb file; a long one stands in several pieces, of which the last is of kind 1 or 4."""
    place, message = 7, b""
    while place + HEADER.size <= len(content):
        if BLOCK - place % BLOCK < HEADER.size:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = HEADER.unpack_from(content, place)
        message += content[place + HEADER.size : place + HEADER.size + length]
        place += HEADER.size + length
        if kind in (1, 4):
            yield message
            message = b""


def _offline_history(path):
    """What was logged, from the file that `wandb sync` sends."""
    from wandb.proto import wandb_internal_pb2

    rows = []
    for message in _messages(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(message)
        if record.HasField("history"):
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows


def test_the_examples_of_the_page_run(tracking, features, monkeypatch, empty_folder):
    page = (DOCS / "records.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    names = {"X": features[0], "y": features[1]}
    assert len(blocks) == 2
    try:
        for block in blocks:
            exec(block, names)
    finally:
        tracking.sklearn.autolog(disable=True)
    assert names["model"].predict(features[0]).tolist() == names["served"].predict(features[0]).tolist()
