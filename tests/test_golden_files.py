"""Model files of every version that was released keep loading."""

from __future__ import annotations

import json

import numpy as np
import pytest

import golden_files
import votestream as vs
from conftest import ON_FEATURES, one_thread, same_model

FILES = sorted(path.relative_to(golden_files.FOLDER) for path in golden_files.FOLDER.glob("*/*.safetensors"))


@pytest.fixture(params=FILES, ids=str)
def path(request):
    with one_thread():
        yield golden_files.FOLDER / request.param


def test_there_is_a_file_of_every_learner_on_features():
    assert {*ON_FEATURES, "image_classifier"} <= {path.stem for path in FILES}


def test_a_model_file_of_a_released_version_loads_predicts_as_it_did_and_goes_on(path, tmp_path):
    on_images = path.stem in golden_files.ON_IMAGES
    model, queries = vs.load(path, device="cpu"), golden_files.queries(on_images)
    answers = json.loads((path.parent / "answers.json").read_text())
    assert model.predict(queries).tolist() == answers[path.stem]
    assert model.tasks_ == ["Monday", None]
    labels = ["fir", "cat", 7] * 8
    known = ["elm", "cat", 7] * 8
    model.partial_fit(golden_files.rows(known, on_images, first=400), labels)
    assert set(model.classes_.tolist()) == {"cat", "dog", "oak", "elm", 7, "fir"}
    model.save(tmp_path / "again")
    again = vs.load(tmp_path / "again")
    assert same_model(model, again)
    assert np.array_equal(model.predict(queries), again.predict(queries))
