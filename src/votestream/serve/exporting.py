"""The model that is served, for places without Python: an ONNX file, or one page that works offline."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

from votestream.backbones import Backbone
from votestream.export import export_onnx, export_page
from votestream.learners import Learner
from votestream.pipeline import ImageClassifier
from votestream.serve.changes import sentence
from votestream.serve.messages import Conflict


def exported(learner: Learner, backbone: Backbone | None, kind: str) -> bytes:
    """The file's bytes, "onnx" or "html". Conflict says why there can be none."""
    learner = copy.deepcopy(learner)
    model = learner if backbone is None else ImageClassifier(backbone, learner)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model.{kind}"
        try:
            if kind == "onnx":
                export_onnx(model, path)
            else:
                export_page(model, path)
        except (ValueError, ImportError) as problem:
            raise Conflict(f"This model cannot be exported so: {sentence(problem)}") from None
        return path.read_bytes()
