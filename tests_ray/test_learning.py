"""Learning on Ray: the same bytes as in this process and in others, whatever dies on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import votestream as vs
from votestream.core.files import parts_of
from votestream.distributed.executor import Executor, executor
from votestream.io.model_files import packed

pytest.importorskip("ray")

from conftest import NODE
from distributed import work
from painted import paint


def learned(on: str | Executor, workers: int | None = None) -> bytes:
    """A model taught on so many workers, as `save` would write it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 900)
    X = (rng.normal(size=(900, 16)) + 3 * np.eye(16)[y]).astype(np.float32)
    return packed(*parts_of(vs.learn(X, y, vs.GaussianVoting(), on=on, workers=workers, chunk=50)))


class Troubled(Executor):
    """A place where something happens to the work, or to the cluster after some results."""

    def __init__(self, place, change=lambda make: make, after=None):
        self.name, self.workers, self._place, self._change, self._after = "ray", place.workers, place, change, after

    def run(self, make, items):
        for done, result in enumerate(self._place.run(self._change(make), items)):
            if done == 4 and self._after:
                self._after()
            yield result


@pytest.fixture(scope="module")
def expected():
    return learned("here")


@pytest.fixture
def address(cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


def test_the_model_has_the_same_bytes_here_in_processes_and_on_ray_with_1_2_and_3_workers(expected, address):
    assert learned("processes", 2) == expected
    for workers in (1, 2, 3):
        assert learned("ray", workers) == expected


def test_the_model_has_the_same_bytes_where_a_worker_was_killed(expected, address, tmp_path):
    with executor("ray", 2) as two:
        died = tmp_path / "died"
        assert learned(Troubled(two, lambda make: partial(work.dying_once, make, died))) == expected
    assert died.exists()


def test_the_model_has_the_same_bytes_where_a_node_was_killed(expected, address, cluster):
    victim = cluster.add_node(**NODE)
    with executor("ray", 8) as all_of_them:  # so that the victim has some
        kill = partial(cluster.remove_node, victim, allow_graceful=False)
        assert learned(Troubled(all_of_them, after=kill)) == expected


def test_ray_client_learns_the_same_model(expected, cluster):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_learning import learned\n"
        "open(sys.argv[3], 'wb').write(learned(sys.argv[2], 2))"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__), cluster.client_address, "model"]
    for _ in range(3):  # Ray gives the client's server 30 seconds to start, which a busy machine may need all of
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if "Starting Ray client server failed" not in told.stderr:
            break
    assert told.returncode == 0, told.stderr
    with open("model", "rb") as file:
        assert file.read() == expected


def test_the_command_line_learns_photos_on_ray_and_prints_nothing_of_rays(address, tmp_path):
    for label in ("red", "green"):
        paint(tmp_path / "photos", label, 12)
    models = {}
    for name, where in {"here": ["processes", "--workers", "1"], "ray": ["ray", "--workers", "2"]}.items():
        models[name] = tmp_path / f"{name}.safetensors"
        command = [sys.executable, "-m", "votestream", "learn", str(tmp_path / "photos"), "--model", str(models[name])]
        command += ["--backbone", "reduced_resnet18"]
        told = subprocess.run([*command, "--on", *where], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        assert "24 photos of 2 classes" in told.stdout
        assert told.stderr == ""
        assert "ray" not in told.stdout.replace(str(tmp_path), "").replace("ray.safetensors", "").lower()
    assert models["ray"].read_bytes() == models["here"].read_bytes()
