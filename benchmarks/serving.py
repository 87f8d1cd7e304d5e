"""A `votestream serve` in a process of its own, for the benchmarks of the service."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image

from votestream.streams.sample import sample_images

TOKEN = "a-token-for-benchmarks"


@contextmanager
def served(model: Path, *options: str) -> Iterator[httpx.Client]:
    """A client of a service that is ready; the process is ended by SIGTERM, and must end with 0."""
    command = [sys.executable, "-m", "votestream", "serve", str(model), "--port", "0", "--token", TOKEN, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"served at (http://[^/]+)/", process.stdout.readline())
            assert found is not None, "the service did not start"
            key = {"Authorization": f"Bearer {TOKEN}"}
            with httpx.Client(base_url=found[1], headers=key, timeout=60) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.05)
                yield client
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def sample_pngs(part: str = "train") -> list[tuple[str, bytes]]:
    """The images of `votestream demo`, as files, with their labels."""
    found = []
    for pixels, label in zip(*sample_images(part), strict=True):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "png")
        found.append((str(label), file.getvalue()))
    return found
