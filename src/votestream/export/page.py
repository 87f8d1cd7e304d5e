"""A model as one HTML file that classifies photos in the browser, with no server."""

from __future__ import annotations

import base64
import gzip
import json
import os
from importlib.resources import files
from pathlib import Path

from votestream.core import Learner
from votestream.export.browser_runtime import fetched_runtime, runtime_in
from votestream.export.metadata import UNKNOWN_ABOVE
from votestream.export.onnx_file import is_on_images, onnx_bytes
from votestream.io.partial_files import write_whole


def export_page(
    model: Learner,
    path: str | os.PathLike[str],
    *,
    float16: bool = False,
    runtime: str | os.PathLike[str] | None = None,
) -> None:
    """Write a page that holds the model and what runs it: whoever opens the file drops photos or uses the camera.

    runtime: a folder with the npm package onnxruntime-web; left out, the package is fetched once and kept in the cache.
    """
    if not is_on_images(model):
        raise ValueError("a page classifies photos, and this model takes features: export an ImageClassifier")
    content = onnx_bytes(model, float16=float16)
    script, wasm = fetched_runtime() if runtime is None else runtime_in(Path(runtime))
    labels = [str(label) for label in model.classes_.tolist()]
    classes = "1 class" if len(labels) == 1 else f"{len(labels)} classes"
    facts = {
        "labels": labels,
        "unknown_above": UNKNOWN_ABOVE,
        "about": f"This page knows {classes}. It works offline, and no photo leaves this device.",
    }
    # Labels come last, as they may hold any text, such as %MODEL%; and none may end the script that holds them.
    parts = {"%MODEL%": _packed(content), "%RUNTIME%": _packed(script), "%WASM%": _packed(wasm)}
    parts["%FACTS%"] = json.dumps(facts).replace("<", "\\u003c")
    page = files("votestream.export").joinpath("page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(name, text, 1)
    write_whole(Path(path), page.encode())


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()
