"""The examples of docs/serve.md run against a real service, and deploy/ names what is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import votestream as vs
from serve.http_client import image, serving
from serve.processes import environment, listening
from votestream.serve.web.options import Limits

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")


def example(language):
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert len(found) == 1
    return found[0]


@pytest.fixture
def address(tmp_path, empty_folder):
    for name, colour in {"cat1": "red", "cat2": "red", "dog1": "blue", "dog2": "blue"}.items():
        Path(f"{name}.png").write_bytes(image(colour, int(name[-1])))
    with serving(tmp_path) as client, listening(client.app, Limits()) as port:
        yield f"127.0.0.1:{port}"


def run(command, text, address):
    done = subprocess.run(
        [*command, text.replace("127.0.0.1:8080", address)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_with_curl_runs(address):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    said = run(["bash", "-ec"], example("bash").replace("curl ", "curl --fail-with-body -sS "), address)
    assert '"label":"cat"' in said
    assert '"forgotten"' in said
    assert set(vs.load("copy.safetensors").classes_) == {"cat", "dog"}


def test_the_example_with_python_runs(address):
    said = run([sys.executable, "-c"], example("python"), address)
    assert said.splitlines()[0] == "1 cat was predicted as None"
    assert said.splitlines()[-1].startswith("cat ")


def test_the_example_with_javascript_runs(address):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    assert run(["node", "--input-type=module", "-e"], example("javascript"), address).startswith("cat ")


def test_every_route_of_the_page_is_one(tmp_path):
    with serving(tmp_path) as client:
        there = set(client.get("/openapi.json").json()["paths"])
    named = set()
    for line in re.findall(r"^\| (`[^|]*) \|", PAGE, re.M):
        named |= set(re.findall(r"`(?:[A-Z]+ )?(/[^`? ]+)", line))
    assert len(named) > 15
    assert not named - there


def test_the_limits_of_the_page_are_those_of_the_service():
    limits = Limits()
    assert f"{limits.body_bytes >> 20} MiB, {limits.files} files; JSON {limits.json_bytes >> 20} MiB" in PAGE
    assert f"| {limits.requests}, with {limits.held_bytes >> 20} MiB of bodies in all" in PAGE
    assert f"headers within {limits.header_seconds:.0f} s" in PAGE
    assert f"a body at {limits.slowest_rate >> 10} KiB a second, and late by {limits.body_seconds:.0f} s" in PAGE
    assert f"| connections | {limits.connections:,};" in PAGE
    assert f"| readers of events | {limits.streams} |" in PAGE


def test_the_unit_and_the_image_start_the_command_with_options_that_it_has():
    unit = (ROOT / "deploy" / "votestream.service").read_text(encoding="utf-8")
    image_file = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "votestream", "serve", "--help"],
        env=environment(COLUMNS="200", TERM="dumb"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    options = set(re.findall(r"--[a-z-]+", re.search("^ExecStart=.*", unit, re.M)[0]))
    options |= set(re.findall(r"--[a-z-]+", re.search("^CMD .*", image_file, re.M)[0]))
    assert options == {"--host", "--port"}
    assert all(option in result for option in options)
    assert "USER votestream" in image_file
    assert "HEALTHCHECK" in image_file
