"""Access control: Host, Origin and token of a request are checked before its body is read."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import socket
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from votestream.serve.web.errors import refuse
from votestream.serve.web.options import Options, as_address, is_loopback

SAFE_METHODS = ("GET", "HEAD")
# Paths without a token: the page, which asks for it, and the health checks. They say nothing about a model.
OPEN_PATHS = ("/", "/healthz", "/readyz", "/health", "/docs", "/openapi.json")
OPEN_FOLDERS = ("/page/", "/docs/")
# Label Studio sends a name and a password, never a bearer token.
LABEL_STUDIO = re.compile("(/v1/models/[^/]+/label-studio)?/(health|setup|predict|train|webhook)")
SENT_ONCE = ("host", "origin", "authorization", "content-length", "content-type", "sec-fetch-site")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "media-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}
CORS_METHODS = "GET, POST, DELETE"
CORS_EXPOSED = "etag, retry-after, votestream-writer"
CORS_HEADERS = "authorization, content-type, idempotency-key, if-none-match"


class AccessControl:
    """ASGI middleware that refuses requests that the options do not allow, and adds security headers to answers."""

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self.app, self.options = app, options
        self.hosts = allowed_hosts(options)
        address = as_address(options.host)
        self.any_address = address is not None and address.is_unspecified

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        foreign = headers.get("origin") in self.options.allow_origins
        send = _with_headers(send, headers["origin"] if foreign else None)
        if problem := self._problem(scope, headers):
            await refuse(send, *problem)
        elif foreign and scope["method"] == "OPTIONS":
            allow = {"access-control-allow-methods": CORS_METHODS, "access-control-allow-headers": CORS_HEADERS}
            await send({"type": "http.response.start", "status": 204, "headers": _encoded(allow)})
            await send({"type": "http.response.body", "body": b""})
        elif self.options.token is not None and not self._has_token(scope["path"], headers):
            sentence = "This service needs its token: send the header `Authorization: Bearer TOKEN`."
            await refuse(send, 401, sentence, {"www-authenticate": "Bearer"})
        else:
            await self.app(scope, receive, send)

    def _problem(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Why the request is refused, whatever its token. None if it is not."""
        for name in SENT_ONCE:
            if len(headers.getlist(name)) > 1:
                return 400, f"The header {name} must be sent once."
        if not _is_utf8(scope.get("raw_path", b"")) or not _is_utf8(scope["query_string"]):
            return 400, "The address of this request must be UTF-8, percent-encoded."
        host = headers.get("host", "")
        if not self._names_this_service(host):
            return 403, (
                "The Host header does not name this service. Use the address that `votestream serve` "
                "printed, or start it with --allow-host NAME."
            )
        checked = scope["method"] not in SAFE_METHODS or scope["path"].endswith("/events")
        if checked and not self._same_site(scope["scheme"], host, headers):
            return 403, (
                "A page of another site sent this request. To allow this, start the service with --allow-origin and "
                "the address of that site."
            )
        return None

    def _names_this_service(self, host: str) -> bool:
        """Whether a Host header names this service. A page of another name must not reach it by DNS rebinding."""
        name = _name_of(host)
        # Unlike a name, an address cannot be redirected: a service that listens on all addresses accepts any of them.
        return name is not None and (name in self.hosts or (self.any_address and as_address(name) is not None))

    def _same_site(self, scheme: str, host: str, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is not None:
            # A proxy in front may add https.
            own = {f"{scheme}://{host}".lower(), f"https://{host}".lower()}
            return origin in self.options.allow_origins or origin.lower() in own
        return headers.get("sec-fetch-site", "none") in ("same-origin", "none")

    def _has_token(self, path: str, headers: Headers) -> bool:
        if path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
            return True
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic" and LABEL_STUDIO.fullmatch(path):
            value = _password(value)
        elif kind.lower() != "bearer":
            return False
        assert self.options.token is not None
        return hmac.compare_digest(value.strip().encode(), self.options.token.encode())


def allowed_hosts(options: Options) -> set[str]:
    """The names that a Host header may have, without ports."""
    own = {"localhost", "127.0.0.1", "::1"}
    if not is_loopback(options.host):
        own |= {options.host.lower(), socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
    return own | {name.lower() for name in options.allow_hosts}


def check_origin(origin: str) -> str:
    """An origin as browsers write it. Raises ValueError if it is wrong.

    >>> check_origin("HTTPS://Shop.example/")
    'https://shop.example'
    """
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError(f"an origin must be such as https://shop.example or http://localhost:3000, got {origin!r}")
    return f"{parts.scheme}://{parts.netloc}".lower()


def _name_of(host: str) -> str | None:
    """The name or address in a Host header. None if it has anything else.

    >>> [_name_of(host) for host in ("Shop.example:8080", "[::1]:8080", "a/b", "user@a", "a:b:c", "")]
    ['shop.example', '::1', None, None, None, None]
    """
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
    except ValueError:
        return None
    bracketed = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    plain = bracketed if port is None else f"{bracketed}:{port}"
    return parts.hostname if parts.hostname and host.lower() == plain else None


def _is_utf8(encoded: bytes) -> bool:
    """Whether it is UTF-8. Otherwise labels would be learned with question marks for letters.

    >>> _is_utf8(b"caf%C3%A9"), _is_utf8(b"caf%E9")
    (True, False)
    """
    try:
        unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        return False
    return True


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


_SECURITY_HEADERS = _encoded(SECURITY_HEADERS)


def _with_headers(send: Send, origin: str | None) -> Send:
    added = _SECURITY_HEADERS
    if origin is not None:
        cors = {"access-control-allow-origin": origin, "access-control-expose-headers": CORS_EXPOSED}
        cors |= {"vary": "Origin", "cross-origin-resource-policy": "cross-origin"}
        added = _encoded(SECURITY_HEADERS | cors)

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message["headers"]}
            kept = [] if b"cache-control" in own else [(b"cache-control", b"no-store")]
            message["headers"] = [*message["headers"], *kept, *added]
        await send(message)

    return sending
