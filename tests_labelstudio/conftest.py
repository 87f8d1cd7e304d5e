"""The real Label Studio, on this computer only, with a database of its own that is thrown away."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests_labelstudio")]
PROGRAM = ROOT / ".venv-labelstudio" / "bin" / "label-studio"
START_SECONDS = 240  # it makes its database first

from studio import Studio  # noqa: E402  found by the path above


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    if not PROGRAM.exists():
        pytest.skip("Label Studio is not installed: make test-labelstudio installs it")
    folder = tmp_path_factory.mktemp("label-studio")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(20)
    environment = {
        **os.environ,
        "HOME": str(folder),
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "ML_BLOCK_LOCAL_IP": "false",  # VoteStream is on this computer
        "SSRF_PROTECTION_ENABLED": "false",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    arguments = ["start", "--no-browser", "--data-dir", folder, "--internal-host", "127.0.0.1", "--port", port]
    arguments += ["--username", "a@shop.example", "--password", secrets.token_hex(8)]
    arguments += ["--user-token", token, "--enable-legacy-api-token"]
    log = folder / "log.txt"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [PROGRAM, *map(str, arguments)], cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        running = Studio(f"http://127.0.0.1:{port}", token)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _answers(running.http):
                ended = process.poll() is not None
                if ended or time.monotonic() > deadline:
                    pytest.fail(f"Label Studio does not start:\n{log.read_text(errors='replace')[-3000:]}")
                time.sleep(0.5)
            yield running
        finally:
            running.http.close()
            process.kill()


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/health").status_code == 200
    except httpx.TransportError:
        return False
