"""ONNX Runtime for browsers, onnxruntime-web: from a folder, or fetched once from the npm registry."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

from votestream.common.cache_folder import cache_folder
from votestream.io.partial_files import write_whole

VERSION = "1.30.0"
ADDRESS = f"https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-{VERSION}.tgz"
# sha512 of the package, as the registry gives it.
INTEGRITY = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
LONGEST = 100_000_000  # bytes
SCRIPT, WASM = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
BY_HAND = f"`npm pack onnxruntime-web@{VERSION}`, unpack it, and give the folder as --runtime"


class BrowserRuntime(NamedTuple):
    """The two files that a page needs."""

    script: bytes
    wasm: bytes


def runtime_in(folder: Path) -> BrowserRuntime:
    """From a folder with the npm package's files, or the package's own folder."""
    for place in (folder, folder / "dist", folder / "package" / "dist"):
        if (place / SCRIPT).is_file() and (place / WASM).is_file():
            return BrowserRuntime((place / SCRIPT).read_bytes(), (place / WASM).read_bytes())
    raise ValueError(f"{folder} must hold {SCRIPT} and {WASM} of the npm package onnxruntime-web, and does not")


def fetched_runtime() -> BrowserRuntime:
    """From the cache; where it is not there yet, from the npm registry, its digest checked."""
    folder = cache_folder() / f"onnxruntime-web-{VERSION}"
    if not ((folder / SCRIPT).is_file() and (folder / WASM).is_file()):
        files = _unpacked(_fetched(ADDRESS))
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip((SCRIPT, WASM), files, strict=True):
            write_whole(folder / name, content)
    return runtime_in(folder)


def _fetched(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            package: bytes = answer.read(LONGEST)
    except OSError as problem:  # urllib's errors among them
        reason = getattr(problem, "reason", None) or problem
        raise ValueError(f"{address} could not be fetched ({reason}): {BY_HAND}") from problem
    if base64.b64encode(hashlib.sha512(package).digest()).decode() != INTEGRITY:
        raise ValueError(f"{address} is not what it was when VoteStream was made: {BY_HAND} if you trust it")
    return package


def _unpacked(package: bytes) -> BrowserRuntime:
    with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as archive:
        parts = [archive.extractfile(f"package/dist/{name}") for name in (SCRIPT, WASM)]
        return BrowserRuntime(*(part.read() for part in parts if part is not None))
