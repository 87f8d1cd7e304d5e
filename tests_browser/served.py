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

STARTS_WITHIN = 60.0  # seconds; other work may keep the machine busy


class Served:
    """A service with a model file of its own. It begins to start at once; `ready` waits until it answers."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.model = folder / "shop.safetensors"
        self.log = folder / "log.txt"
        self.options = options
        self.port = 0
        self.address = ""
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "votestream", "serve", str(self.model), "--port", str(self.port)]
        command += [*self.options, "--backbone", "reduced_resnet18"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def ready(self) -> Served:
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"https?://\S+?:(\d+)/\S*", self.log.read_text())
            if found:
                self.port, self.address = int(found.group(1)), found.group().rstrip()
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

    def told(self) -> dict[str, Any]:
        """What the service says of its model."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/model", timeout=10) as answer:
            return dict(json.load(answer))

    def counts(self) -> dict[str, int]:
        return {each["label"]: each["count"] for each in self.told()["classes"]}

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
