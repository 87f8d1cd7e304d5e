"""A server in place of Label Studio that answers in ways in which Label Studio never would."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

from serve.http_client import image

OK = b"HTTP/1.1 200 OK\r\n"


def whole(body):
    return OK + b"Content-Length: %d\r\n\r\n" % len(body) + body


# What is sent for each path, in one go.
ANSWERS = {
    "/data/red.png": whole(image("red")),
    "/data/green.png": whole(image("green")),
    "/data/not-there": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "/data/elsewhere": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/secret\r\nContent-Length: 0\r\n\r\n",
    "/data/no-http": b"hello\r\n\r\n",
    "/data/bad-status": b"HTTP/1.1 two hundred\r\n\r\n",
    "/data/long-header": OK + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
    "/data/many-headers": OK + b"X: x\r\n" * 1000 + b"\r\n",
    "/data/bad-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "/data/cut-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc",
    "/data/cut": OK + b"Content-Length: 1000\r\n\r\n" + image("red"),
    "/data/bad-length": OK + b"Content-Length: -5\r\n\r\nabc",
    "/data/nothing": b"",
}
BROKEN = [path for path in ANSWERS if not path.endswith(".png")]


class Studio(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 100

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.seen = []  # targets and tokens
        self.api = {}  # answers by path, where they are not in ANSWERS
        self.sent = 0  # bytes of large images
        self.dripping = threading.Event()  # whether a slow answer was begun
        self.closing = threading.Event()


class Handler(StreamRequestHandler):
    server: Studio

    def handle(self):
        target = self.rfile.readline().decode().split(" ")[1]
        token = None
        while line := self.rfile.readline().strip().decode():
            if line.lower().startswith("authorization:"):
                token = line.partition(":")[2].strip()
        self.server.seen.append((target, token))
        with suppress(OSError):
            if target.startswith("/data/drip"):
                self._drip(b"" if "header" in target else OK + b"\r\n")
            elif target.startswith("/data/late"):
                self.server.dripping.set()
                time.sleep(0.5)
                self.wfile.write(ANSWERS["/data/red.png"])
            elif target.startswith("/data/large"):
                self._large(int(target.rpartition("-")[2]))
            elif target in ANSWERS:
                self.wfile.write(ANSWERS[target])
            else:
                self.wfile.write(self.server.api[target.partition("?")[0]])

    def _drip(self, start):
        """A byte now and then, for ever."""
        self.wfile.write(start)
        self.server.dripping.set()
        while not self.server.closing.wait(0.05):
            self.wfile.write(b"x")

    def _large(self, size):
        self.wfile.write(OK + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 16):
            self.wfile.write(bytes(1 << 16))
            self.server.sent += 1 << 16


@contextmanager
def fake_studio():
    with Studio() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
