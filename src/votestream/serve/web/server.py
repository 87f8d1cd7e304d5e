"""The HTTP server: sockets, slow clients, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from votestream.common.exits import Refused
from votestream.serve.web.options import Limits, Options

STOP_SECONDS = 10  # for current requests when the service stops
KEEP_SECONDS = 30  # an idle connection waits for the next request
READ_SECONDS = 60.0  # without a client reading its answer; then it is disconnected


def listen(options: Options) -> socket.socket:
    """The socket that the service listens on. Raises Refused if it cannot be opened."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # Name the protocol: only then asyncio turns off Nagle's algorithm, which costs 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
        listener.listen(128)
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            raise Refused(f"Port {options.port} is taken: name another with --port, or --port 0 for any.") from None
        if problem.errno == errno.EACCES:
            raise Refused(f"Port {options.port} is only for root: name one above 1023 with --port.") from None
        raise Refused(f"{options.host} is not an address of this computer.") from None
    return listener


def check_certificate(certificate: Path, key: Path) -> None:
    """Raise Refused if the files are not a certificate and its key, before any model is opened."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as problem:
        raise Refused(f"{certificate} and {key} are not a certificate and its key: {problem}.") from None


class Server(uvicorn.Server):
    """Serves an application until SIGTERM, SIGINT or `should_exit`. The caller closes the models."""

    def __init__(
        self,
        app: FastAPI,
        limits: Limits,
        certificate: tuple[Path, Path] | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=partial(Protocol, limits=limits),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=certificate and certificate[0],
            ssl_keyfile=certificate and certificate[1],
        )
        super().__init__(config)
        self.app, self.ready = app, ready
        self.ended_by: int | None = None  # the signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again at the end, which would kill the process before the last checkpoint.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # a second signal does not wait for requests
        self.should_exit = self.app.state.service.stopping = True
        self.ended_by = self.ended_by or sig


class Protocol(H11Protocol):
    """HTTP/1.1 with time limits: clients must send their headers, and must read their answers."""

    def __init__(self, *args: Any, limits: Limits, **more: Any) -> None:
        super().__init__(*args, **more)
        self.limits = limits
        self._header_timeout, self._read_timeout = _Timeout(), _Timeout()
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_since = time.monotonic()
        if len(self.connections) > self.limits.connections:
            # Close an idle connection, or one with slow headers: otherwise these could block all others.
            idle = [one for one in self.connections if isinstance(one, Protocol) and one.idle]
            min(idle, key=lambda one: one._idle_since).transport.abort()
        self._header_timeout.start(self.limits.header_seconds, transport)

    @property
    def idle(self) -> bool:
        """Whether the connection has no request now."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def data_received(self, data: bytes) -> None:
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:
            self._header_timeout.end()  # the request is complete: its body has a time limit of its own
        elif self.cycle is None or self.cycle.response_complete:
            self._header_timeout.start(self.limits.header_seconds, self.transport)

    def on_response_complete(self) -> None:
        self._header_timeout.end()
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timeout.start(READ_SECONDS, self.transport)

    def resume_writing(self) -> None:
        self._read_timeout.end()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_timeout.end()
        self._read_timeout.end()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"error": "This is no HTTP request that can be read."}).encode()
            head = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
            for event in (h11.Response(status_code=400, headers=head), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Timeout:
    """Closes a connection unless it is ended in time."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def start(self, seconds: float, transport: asyncio.Transport) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, transport.abort)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _no_password() -> str:
    raise ValueError("the key must not be encrypted")
