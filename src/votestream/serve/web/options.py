"""The options of the service, and the limits of requests."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """How much one request, and all requests together, may take."""

    body_bytes: int = 64 << 20  # the body of one request
    json_bytes: int = 16 << 20
    held_bytes: int = 256 << 20  # the bodies of all current requests
    files: int = 256  # in one request
    requests: int = 128  # at the same time
    streams: int = 64  # clients that read /v1/events
    connections: int = 1000
    header_seconds: float = 10.0  # from the first byte of a request to the end of its headers
    body_seconds: float = 20.0  # for a body, besides the time that it takes at the slowest rate
    slowest_rate: int = 16 << 10  # bytes per second
    grace_seconds: float = 1.0  # before a slow body may be dropped for other requests


@dataclass(frozen=True)
class LabelStudio:
    """The Label Studio that the service may fetch images from."""

    url: str
    token: str | None = None


@dataclass(frozen=True)
class Options:
    """Where the service listens, and who may use it."""

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    allow_origins: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    https: bool = False
    label_studio: LabelStudio | None = None
    access_log: bool = False
    limits: Limits = field(default_factory=Limits)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this computer.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "192.168.1.5", "shop.example")]
    [True, True, True, False, False, False]
    """
    if host.lower() == "localhost":
        return True
    address = as_address(host)
    return address is not None and address.is_loopback


def as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address. None if `host` is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
