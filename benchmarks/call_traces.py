"""How many files and functions of VoteStream five everyday calls run through.

    python benchmarks/call_traces.py                                # prints a table
    python benchmarks/call_traces.py --out results/speed/call_traces.csv  # adds rows, with the version
    python benchmarks/call_traces.py --names 0                      # lists the functions of the first call, by file

Models and the command are counted from their first example on, without making the model; the service from a request on,
in all of its threads, after it has answered others. Methods, generators, lambdas and properties are functions here;
comprehensions are not.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from PIL import Image

import votestream as vs
from rows import COMMAND, append
from votestream.cli.main import app

PACKAGE = Path(vs.__file__).parent
INLINE = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"}
Functions = dict[str, list[str]]  # by file


class Trace:
    """Notes the functions of the package that run while it is on, in this thread and those started since."""

    def __init__(self) -> None:
        self.on = False
        self.seen: set[CodeType] = set()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if self.on and event == "call":
            self.seen.add(frame.f_code)

    @contextmanager
    def noting(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False

    def functions(self) -> Functions:
        found: Functions = {}
        for code in self.seen:
            path = Path(code.co_filename)
            if code.co_name not in INLINE and path.is_relative_to(PACKAGE):
                found.setdefault(str(path.relative_to(PACKAGE)), []).append(code.co_qualname)
        return {path: sorted(names) for path, names in sorted(found.items())}


def partial_fit(model: Any, images: bool = False) -> Functions:
    """Twenty rows learned by a new model, in two calls."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (20, 32, 32, 3), np.uint8) if images else rng.normal(size=(20, 8)).astype(np.float32)
    y = np.arange(20) % 4
    trace = Trace()
    with trace.noting():
        model.partial_fit(X[:10], y[:10])
        model.partial_fit(X[10:], y[10:])
    return trace.functions()


def photos(folder: Path) -> Path:
    """A folder of two classes with four photos each."""
    rng = np.random.default_rng(0)
    for label, shade in (("dark", 40), ("light", 200)):
        (folder / label).mkdir(parents=True)
        for number in range(4):
            pixels = np.clip(rng.normal(shade, 20, (48, 48, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


def command(folder: Path) -> Functions:
    """`votestream learn` with a new model."""
    words = ["learn", str(photos(folder / "photos")), "--model", str(folder / "m"), "--backbone", "reduced_resnet18"]
    trace = Trace()
    with trace.noting(), redirect_stdout(io.StringIO()):
        app(words, standalone_mode=False)
    return trace.functions()


def service(folder: Path) -> Functions:
    """One image taught and one predicted by `votestream serve`, over HTTP, after others."""
    taught = sorted(photos(folder / "photos").glob("*/*.png"))
    trace = Trace()
    problems: list[BaseException] = []

    def ask(route: str, path: Path) -> None:
        address = f"http://127.0.0.1:{port}/v1/{route}"
        request = urllib.request.Request(address, path.read_bytes(), {"content-type": "image/png"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            json.load(answer)

    def client() -> None:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            for path in taught[1:]:
                ask(f"learn?label={path.parent.name}", path)
            ask("predict", taught[1])
            with trace.noting():
                ask(f"learn?label={taught[0].parent.name}", taught[0])
                ask("predict", taught[0])
        except BaseException as problem:
            problems.append(problem)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    port = 18431
    threading.Thread(target=client).start()
    words = ["serve", str(folder / "m"), "--port", str(port), "--backbone", "reduced_resnet18", "--device", "cpu"]
    with redirect_stdout(io.StringIO()):
        app(words, standalone_mode=False)
    if problems:
        raise problems[0]
    return trace.functions()


CALLS: dict[str, Callable[[Path], Functions]] = {
    "GaussianVoting.partial_fit": lambda folder: partial_fit(vs.GaussianVoting(device="cpu")),
    "CandidatesVoting.partial_fit": lambda folder: partial_fit(vs.CandidatesVoting(device="cpu")),
    "ImageClassifier.partial_fit": lambda folder: partial_fit(
        vs.ImageClassifier("reduced_resnet18", vs.GaussianVoting()), images=True
    ),
    "votestream learn": command,
    "one example and one prediction of the service": service,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a CSV file to add the rows to")
    parser.add_argument("--names", type=int, help="list the functions of the call with this number, from 0")
    options = parser.parse_args()
    for number, (name, call) in enumerate(CALLS.items()):
        if options.names not in (None, number):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = call(Path(folder))
        row = {"call": name, "files": len(found), "functions": sum(map(len, found.values()))}
        print(f"{row['files']:4d} files {row['functions']:4d} functions  {name}")
        if options.names is not None:
            for path, names in found.items():
                print(f"{path}\n    " + "\n    ".join(names))
        if options.out:
            append(options.out, {**row, "version": vs.__version__, "command": COMMAND})


if __name__ == "__main__":
    main()
