"""The page: all it needs is in it, whatever labels say. tests_browser/ opens it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import votestream as vs
from votestream.export import browser_runtime, export_page
from votestream.export.browser_runtime import SCRIPT, WASM


@pytest.fixture
def runtime(tmp_path):
    """A folder with files of the npm package's names."""
    folder = tmp_path / "package" / "dist"
    folder.mkdir(parents=True)
    (folder / SCRIPT).write_bytes(b"the script")
    (folder / WASM).write_bytes(b"the wasm")
    return tmp_path


def packed(folder):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        archive.add(folder / "package", "package")
    return made.getvalue()


def part(page, name):
    (text,) = re.findall(rf'id="{name}">(.*?)</script>', page, re.DOTALL)
    return text


def unpacked(page, name):
    return gzip.decompress(base64.b64decode(part(page, name)))


def test_a_page_holds_the_model_the_runtime_and_any_labels(runtime):
    labels = ["</script><b>", "%MODEL%"]
    images = np.random.default_rng(0).integers(0, 256, (4, 2, 2, 3), np.uint8)
    model = vs.ImageClassifier("pixels", vs.NearestClassMean(device="cpu")).partial_fit(images, labels * 2)
    export_page(model, "page.html", runtime=runtime)
    page = Path("page.html").read_text(encoding="utf-8")
    assert json.loads(part(page, "facts"))["labels"] == sorted(labels)
    assert (unpacked(page, "runtime"), unpacked(page, "wasm")) == (b"the script", b"the wasm")
    session = onnxruntime.InferenceSession(unpacked(page, "model"))
    assert session.run(None, {"images": images})[0].tolist() == [1, 0, 1, 0]
    assert not re.search(r"(src|href)=", page)  # nothing is loaded from elsewhere


def test_a_folder_without_the_runtime_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"must hold ort.wasm.bundle.min.mjs and .*, and does not"):
        browser_runtime.runtime_in(tmp_path)


@pytest.fixture
def registry(runtime, monkeypatch, tmp_path):
    """An npm registry in a folder, and an empty cache."""
    file = tmp_path / "package.tgz"
    file.write_bytes(packed(runtime))
    monkeypatch.setattr(browser_runtime, "ADDRESS", file.as_uri())
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path / "cache"))
    return file


def test_the_runtime_is_fetched_once(registry, monkeypatch):
    digest = base64.b64encode(hashlib.sha512(registry.read_bytes()).digest()).decode()
    monkeypatch.setattr(browser_runtime, "INTEGRITY", digest)
    assert browser_runtime.fetched_runtime() == (b"the script", b"the wasm")
    registry.unlink()
    assert browser_runtime.fetched_runtime() == (b"the script", b"the wasm")


def test_a_package_with_another_digest_is_refused_and_not_kept(registry, tmp_path):
    with pytest.raises(ValueError, match="is not what it was when VoteStream was made"):
        browser_runtime.fetched_runtime()
    assert not (tmp_path / "cache").exists()


def test_without_a_network_the_sentence_says_what_to_do(registry):
    registry.unlink()
    with pytest.raises(ValueError, match=r"could not be fetched .* `npm pack onnxruntime-web@"):
        browser_runtime.fetched_runtime()
