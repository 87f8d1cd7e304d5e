"""A Ray cluster of three nodes on this machine, each with two CPUs and as small an object store as Ray allows."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# Nodes and workers are children of this process, and find here what they import. The token is the cluster's own: a
# developer's file of tokens is neither read nor written.
PATHS = [str(ROOT / name) for name in ("src", "tests", "tests_ray")]
sys.path[:0] = PATHS
os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # a process of a test has it from its parent
# A file that workers, which have this environment, leave when they have died once.
os.environ.setdefault("DIED", str(Path(tempfile.mkdtemp()) / "died"))
OBJECT_STORE = 80 * 2**20  # bytes; Ray refuses less than 75 MiB
NODE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": OBJECT_STORE}


def pytest_configure(config: pytest.Config) -> None:
    """What Ray warns of in its own code is its own; warnings from ours stay errors."""
    config.addinivalue_line("filterwarnings", "ignore:::(?!votestream)")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = Cluster(
        initialize_head=True, head_node_args={**NODE, "include_dashboard": False, "ray_client_server_port": port}
    )
    made.client_address = f"ray://{made.address.split(':')[0]}:{port}"
    for _ in range(2):
        made.add_node(**NODE)
    yield made
    made.shutdown()
