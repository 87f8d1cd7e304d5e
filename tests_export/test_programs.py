"""An exported model predicts in onnxruntime, OpenVINO and OpenCV as it does in Python."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import votestream as vs

NAMES = np.array([f"class {letter}" for letter in "fbdaceghlkij"])  # not in the order in which they come
WIDTH = 24
SMALLER: dict[str, Any] = {name: {"projection": 300} for name in ("ranpac", "foal", "klda", "randumb")}
ON_FEATURES = [name for name in vs.list_learners() if vs.create(name).input == "features"]
OUTPUTS = ["class", "probabilities", "unknown_score", "confidence"]


def in_onnxruntime(path, rows, outputs):
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    return session.run(outputs, {session.get_inputs()[0].name: rows})


def in_openvino(path, rows, outputs):
    openvino = pytest.importorskip("openvino")
    exactly = {"INFERENCE_PRECISION_HINT": "f32"}  # by default a processor that has bfloat16 computes in it
    compiled = openvino.Core().compile_model(path, "CPU", exactly)
    found = compiled(rows)
    return [found[name] for name in outputs]


def in_opencv(path, rows, outputs):
    network = pytest.importorskip("cv2").dnn.readNetFromONNX(path)
    network.setInput(rows)
    return network.forward(outputs)


PROGRAMS = {"onnxruntime": in_onnxruntime, "OpenVINO": in_openvino, "OpenCV": in_opencv}


class Case(NamedTuple):
    """An exported model, rows, and what the model says of them."""

    model: Any
    path: str
    rows: np.ndarray
    decided: np.ndarray
    shares: np.ndarray
    unknown: np.ndarray | None

    @classmethod
    def of(cls, model, path, rows):
        learner = getattr(model, "learner_", model)
        track = getattr(learner, "track", False)
        unknown = np.stack((model.unknown_score(rows), model.confidence(rows))) if track else None
        return cls(model, path, rows, model.predict(rows), model.predict_proba(rows), unknown)

    def in_program(self, program):
        """Class numbers and probabilities from there; unknown scores are compared at once."""
        outputs = OUTPUTS[:2] if self.unknown is None else OUTPUTS
        numbers, shares, *unknown = PROGRAMS[program](self.path, self.rows, outputs)
        if unknown:
            check_ranks(unknown[0], self.unknown[0])
            np.testing.assert_allclose(np.reshape(unknown[1], -1), self.unknown[1], atol=1e-3)
        return np.reshape(numbers, -1).astype(int), np.reshape(shares, self.shares.shape)


def check_ranks(found, wanted):
    """An unknown score is a rank among known samples: a row between two of them may have one or the other."""
    apart = np.abs(np.reshape(found, -1) - wanted)
    assert np.mean(apart > 1e-6) <= 1e-3
    assert apart.max() < 0.01


@pytest.fixture(scope="module")
def case_of(tmp_path_factory):
    """Makes cases, each once for all programs."""
    folder = tmp_path_factory.mktemp("exported")

    @cache
    def made(name, track, far):
        if far:
            case = made(name, track, False)
            rows = case.rows[:1000] * np.float32(30)
            return Case.of(case.model, case.path, rows)
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(len(NAMES), WIDTH))

        def drawn(y):
            return (centres[y] + rng.normal(size=(len(y), WIDTH))).astype(np.float32)

        model, path = vs.create(name, device="cpu", **SMALLER.get(name, {})), str(folder / f"{name}{track}.onnx")
        if track:
            model.set_params(track=True)
        for first in range(0, len(NAMES), 3):
            for _ in range(6):
                y = rng.integers(first, first + 3, 50)
                model.partial_fit(drawn(y), NAMES[y], task=first)
        vs.export_onnx(model, path)
        rows = drawn(rng.integers(0, len(NAMES), 10_000))
        return Case.of(model, path, rows)

    return made


def with_and_without_a_record():
    for name in ON_FEATURES:
        yield pytest.param(name, False, id=name)
        if "track" in vs.create(name).get_params():
            yield pytest.param(name, True, id=f"{name}-track")


@pytest.mark.parametrize(("name", "track"), with_and_without_a_record())
@pytest.mark.parametrize("program", PROGRAMS)
def test_ten_thousand_rows_are_predicted_as_in_python(program, name, track, case_of):
    case = case_of(name, track, far=False)
    numbers, shares = case.in_program(program)
    assert np.array_equal(case.model.classes_[numbers], case.decided)
    np.testing.assert_allclose(shares, case.shares, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "track"), with_and_without_a_record())
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_far_away_that_leave_no_doubt_are_predicted_as_in_python(program, name, track, case_of):
    """Other classes' probabilities are below anything that float32 has. What docs/export.md says of such rows holds."""
    case = case_of(name, track, far=True)
    if name not in ("candidates_voting", "fecam"):  # their probabilities stay apart from 1
        assert (case.shares.max(1) == 1).any()
    numbers, shares = case.in_program(program)
    np.testing.assert_allclose(shares, case.shares, rtol=0, atol=2e-3)
    other = np.flatnonzero(case.model.classes_[numbers] != case.decided)
    assert (case.shares[other].max(1) - case.shares[other, numbers[other]] < 1e-6).all()  # as likely, up to rounding


@pytest.fixture(scope="module")
def on_images():
    images, labels = vs.sample_images("train")
    model = vs.ImageClassifier("reduced_resnet18", vs.GaussianVoting(track=True, device="cpu"))
    return model.partial_fit(images, labels)


@pytest.mark.parametrize("resize", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_images_are_predicted_as_in_python(program, resize, on_images, tmp_path):
    vs.export_onnx(on_images, tmp_path / "m.onnx", resize=resize)
    case = Case.of(on_images, str(tmp_path / "m.onnx"), vs.sample_images("test")[0][:100])
    numbers, shares = case.in_program(program)
    assert np.array_equal(on_images.classes_[numbers], case.decided)
    np.testing.assert_allclose(shares, case.shares, rtol=0, atol=1e-4)
