"""A writer and followers of it, in this process, over real connections."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from serve.history import rows_of
from serve.processes import listening
from votestream.serve.app import create_app
from votestream.serve.engine import Engine
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.replica.follower import Follower
from votestream.serve.replica.upstream import Upstream
from votestream.serve.web.options import Limits, Options

ON_CPU = EngineSettings(device="cpu")


@contextmanager
def writing(path, port=0, learner=None, **options):
    """An engine, and the address at which it is served."""
    new = None if path.exists() else "pixels"
    engine = Engine.open(path, EngineSettings(backbone=new, learner=learner, device="cpu"))
    try:
        with listening(create_app({"shop": engine}, Options(**options)), Limits(), port=port) as port:
            yield engine, f"http://127.0.0.1:{port}"
    finally:
        engine.close()


@contextmanager
def following(path, address, max_stale=None, settings=ON_CPU, **how):
    follower = Follower.open(path, Upstream(address, **how), settings, max_stale)
    try:
        yield follower
    finally:
        follower.close()


def refused(path, address, **how):
    """For `pytest.raises`: a follower that must not be opened."""
    with following(path, address, **how):
        pytest.fail("it was opened")


def teach(engine, *labels, seed=0):
    """A row of each label, each a lesson of its own."""
    for place, label in enumerate(labels):
        engine.learn_features(rows_of(label, seed=seed + place), [label]).result()


def lesson_of(engine):
    return engine.describe()["lesson"]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def answering(*answers):
    """The address of a server that sends each connection the next of the answers as it is, the last one for ever.

    The requests that it got are listed in the second thing it gives.
    """
    requests = []

    def serve():
        for number in range(1000):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                requests.append(connection.recv(65536).decode())
                connection.sendall(answers[min(number, len(answers) - 1)])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()


@contextmanager
def dripping(address, path="/v1/model/file"):
    """The address of a proxy before a service, and a switch: while it is set, answers to `path` come byte by byte.

    The head of an answer comes whole, and then a byte now and then.
    """
    slow, over, open_now = threading.Event(), threading.Event(), []
    host, _, port = address.removeprefix("http://").partition(":")

    def carry(connection):
        with connection, socket.create_connection((host, int(port))) as behind:
            open_now.append(behind)
            request = connection.recv(65536)
            behind.sendall(request)
            drips = path.encode() in request and slow.is_set()
            size, head = (1, b"") if drips else (65536, None)
            while not over.is_set() and (data := behind.recv(size)):
                connection.sendall(data)
                if head is not None and b"\r\n\r\n" in (head := head[-3:] + data):
                    size, head = 1, None
                if drips and head is None:
                    over.wait(0.05)

    def one(connection):
        with suppress(OSError):
            carry(connection)

    def serve():
        with suppress(OSError):
            while True:
                thread = threading.Thread(target=one, args=(listener.accept()[0],))
                threads.append(thread)
                thread.start()

    threads = [threading.Thread(target=serve)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", slow
        finally:
            over.set()
            for each in (listener, *open_now):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(5)
                assert not thread.is_alive()


def http(status, body=b"", **headers):
    """An answer's bytes."""
    headers = {"content-length": len(body), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + body
