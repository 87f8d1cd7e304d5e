"""A real `votestream serve`, in a process or in a thread of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

import votestream
from votestream.serve.web.options import Options
from votestream.serve.web.server import Server, listen

# In tests, features are the pixels: a backbone that is registered by whoever starts the service.
START = """
import sys
sys.path.insert(0, {tests!r})
import conftest
from votestream.cli.main import app
app(sys.argv[1:])
"""


class Service:
    """The process, and a client of it."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.port = int(address.rpartition(":")[2])
        self.http = httpx.Client(base_url=address, timeout=20)

    def end(self, number=signal.SIGTERM):
        """Its exit code and what it said, after a signal."""
        self.process.send_signal(number)
        said = self.process.stdout.read()  # not by communicate(), which passes over what readline() has read ahead
        return self.process.wait(30), said


def command(*arguments):
    return [sys.executable, "-c", START.format(tests=str(Path(__file__).parents[1])), "serve", *map(str, arguments)]


def environment(**more):
    source = str(Path(votestream.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "VOTESTREAM_TOKEN": "", **more}


@contextmanager
def service(model, *options, **more):
    """`votestream serve` on a free port, ready."""
    arguments = (model, "--port", 0, "--backbone", "pixels", "--device", "cpu", *options)
    with subprocess.Popen(
        command(*arguments), env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said = ""
            while (found := re.search(r"served at (https?://[^/]+)/", said)) is None:
                line = process.stdout.readline()
                assert line, said
                said += line
            running = Service(process, found[1])
            if found[1].startswith("http:"):
                while running.http.get("/readyz").status_code != 200:
                    time.sleep(0.05)
            yield running
            running.http.close()
        finally:
            process.kill()


@contextmanager
def listening(app, limits, certificate=None, port=0):
    """The port of a server in a thread of this process."""
    started = threading.Event()
    server = Server(app, limits, certificate, started.set)
    with listen(Options(port=port)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert started.wait(10)
            yield port
        finally:
            server.should_exit = app.state.service.stopping = True
            thread.join()
