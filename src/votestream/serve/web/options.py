"""What whoever starts the service may set, and the limits of a request."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """How much a request, and all of them together, may take."""

    body_bytes: int = 64 << 20  # one request's body
    json_bytes: int = 16 << 20
    held_bytes: int = 256 << 20  # the bodies of all requests under way
    files: int = 256  # of one request
    requests: int = 128  # under way at once
    streams: int = 64  # readers of /v1/events
    connections: int = 1000
    header_seconds: float = 10.0  # from the first byte of a request to the end of its headers
    body_seconds: float = 20.0  # for a body, and so much more as it takes at the slowest rate
    slowest_rate: int = 16 << 10  # bytes per second
    grace_seconds: float = 1.0  # before a body that arrives slowly may have to make way for other requests


@dataclass(frozen=True)
class LabelStudio:
    """The Label Studio that images may be fetched from."""

    url: str
    token: str | None = None


@dataclass(frozen=True)
class Options:
    """Where the service listens, who may use it, and how much of it."""

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
    """Whether only this computer reaches an address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "192.168.1.5", "shop.example")]
    [True, True, True, False, False, False]
    """
    if host.lower() == "localhost":
        return True
    address = as_address(host)
    return address is not None and address.is_loopback


def as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address, or None where it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
