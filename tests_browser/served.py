"""`votestream serve` as a process of its own, for a browser to use."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

STARTS_WITHIN = 90.0  # seconds; other work may keep the machine busy
BACKBONE = "reduced_resnet18"


class Served:
    """A service for a model file or a folder of them. It begins to start at once; `ready` waits until it answers."""

    def __init__(self, model: Path, *options: str) -> None:
        self.model, self.options = model, options
        self.log = model.with_name(f"{model.name}.log")
        self.port = 0
        self.address = ""
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "votestream", "serve", str(self.model), "--port", str(self.port)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def ready(self) -> Served:
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"https?://\S+?:(\d+)/\S*", self.log.read_text())
            if found:
                self.port, self.address = int(found.group(1)), found.group()
                if self._answers():
                    return self
            time.sleep(0.05)
        raise AssertionError(f"votestream serve did not start: {self.log.read_text()}")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """At the same address, once it was killed."""
        self._start()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


class Model:
    """A model of a service: where its page is, and what it knows."""

    def __init__(self, served: Served, name: str = "") -> None:
        self.served = served
        self.page = f"{served.address}?model={name}" if name else served.address
        self.routes = f"http://127.0.0.1:{served.port}/v1/{f'models/{name}/' if name else ''}"

    def counts(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.routes}model", timeout=30) as answer:
            return {each["label"]: each["count"] for each in json.load(answer)["classes"]}

    def post(self, path: str, body: bytes, kind: str) -> Any:
        request = urllib.request.Request(self.routes + path, body, {"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
