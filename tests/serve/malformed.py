"""Requests that are wrong in some way, by a seed: each of them has to be refused, and none may change a model."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import quote

from PIL import Image

JSON = "application/json"
JSON_ROUTES = (
    "/v1/learn-features",
    "/v1/predict-features",
    "/v1/undo",
    "/v1/classes/red/rename",
    "/webhook",
    "/predict",
    "/train",
    "/v1/label-studio/sync",
)


@dataclass(frozen=True)
class Wrong:
    """A request, and the kind of thing that is wrong with it."""

    kind: str
    method: str
    target: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    host: str = "127.0.0.1"
    with_token: bool = True

    def raw(self, token: str | None) -> bytes:
        """As it goes over a connection that is closed afterwards."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {self.host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.all_headers(token)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self.body

    def all_headers(self, token: str | None) -> list[tuple[str, str]]:
        names = {name.lower() for name, _ in self.headers}
        more = []
        if token and self.with_token and "authorization" not in names:
            more.append(("Authorization", f"Bearer {token}"))
        if self.body and not names & {"content-length", "transfer-encoding"}:
            more.append(("Content-Length", str(len(self.body))))
        return [*self.headers, *more]


def wrong_request(rng: Random) -> Wrong:
    return rng.choice(KINDS)(rng)


def _path(rng: Random) -> Wrong:
    up = rng.choice(["../", "..%2f", "%2e%2e/", "..%5c", "%c0%ae%c0%ae/", "....//"]) * rng.randint(1, 6)
    file = rng.choice(["etc/passwd", "engine.py", "shop.safetensors", "proc/self/environ", "%00", "nothing"])
    start = rng.choice(["/page/", "/docs/", "/v1/models/", "/v1/", "/page/index.html/"])
    return Wrong("path", rng.choice(["GET", "GET", "POST"]), start + up + file)


def _name(rng: Random) -> Wrong:
    """Classes and models that are not there."""
    name = quote(_text(rng, 1, 40), safe="") or "x"
    return rng.choice(
        [
            Wrong("name", "DELETE", f"/v1/classes/no-{name}"),
            Wrong("name", "GET", f"/v1/models/no-{name}/model"),
            Wrong("name", "POST", f"/v1/models/no-{name}/learn?label=a", body=_noise(rng)),
            Wrong("name", "POST", f"/v1/classes/no-{name}/rename", [("Content-Type", JSON)], b'{"to": "x"}'),
        ]
    )


def _method(rng: Random) -> Wrong:
    method = rng.choice(["PUT", "PATCH", "TRACE", "PROPFIND", "FOO", "get"])
    return Wrong("method", method, rng.choice(["/v1/learn?label=a", "/v1/model", "/", "/v1/undo", "/v1/events"]))


def _query(rng: Random) -> Wrong:
    label = rng.choice(["", "%0a", "%00", "%ed%a0%80", "a" * 201, "%20", "%e2%80%a8", "%1b[2J"])
    number = rng.choice(["0", "-1", "x", "1e3", "", "9" * 30, "%00", "1.5", "null"])
    return rng.choice(
        [
            Wrong("query", "POST", f"/v1/learn?label={label}", body=_image()),
            Wrong("query", "POST", "/v1/learn", body=_image()),
            Wrong("query", "POST", f"/v1/predict?top={number}", body=_image()),
            Wrong("query", "POST", f"/v1/predict-features?width={number}", body=bytes(16)),
            Wrong("query", "POST", f"/v1/learn-features?width={number}&label=a", body=bytes(16)),
            Wrong("query", "POST", f"/v1/learn-features?width=2&label={label}", body=bytes(16)),
            Wrong("query", "POST", f"/v1/learn?label=a&task={'t' * 201}", body=_image()),
        ]
    )


def _json(rng: Random) -> Wrong:
    """What is no JSON, or too much of it."""
    body = rng.choice(
        [
            b"{",
            b'{"rows": [[NaN]], "labels": ["a"]}',
            b'{"rows": [[Infinity]], "labels": ["a"]}',
            b"[" * rng.randint(1000, 200_000),
            b'{"a":' * rng.randint(1000, 100_000),
            b'{"lesson": ' + b"9" * rng.randint(5000, 50_000) + b"}",
            b"\xff\xfe{}",
            b'"text"',
            b"[]",
            b"null",
            _noise(rng),
            json.dumps({"rows": [[1.0, 2.0]], "labels": ["a"]}).encode()[: rng.randint(1, 30)],
        ]
    )
    return Wrong("json", "POST", rng.choice(JSON_ROUTES), [("Content-Type", JSON)], body)


def _types(rng: Random) -> Wrong:
    """JSON that says something which makes no sense."""

    def odd(depth: int = 0) -> object:
        choices = [None, True, -1, 0, 1.5, 10**40, 1e308, "", "text", "\ud800", "a\nb", "x" * 300, [], {}]
        if depth < 3 and rng.random() < 0.4:
            return [odd(depth + 1) for _ in range(rng.randint(0, 3))]
        if depth < 3 and rng.random() < 0.2:
            return {rng.choice(["rows", "labels", "to", "id", "x"]): odd(depth + 1)}
        return rng.choice(choices)

    route = rng.choice(JSON_ROUTES)
    sent: dict[str, object] = {}
    if route == "/webhook":
        sent = {"action": rng.choice(["ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED"])}
        sent |= {"annotation": odd(), "project": rng.choice([odd(), {"id": "x", "label_config": odd()}]), "task": 7}
        sent["annotations"] = [7]
    elif route == "/predict":
        sent = {
            "tasks": odd(),
            "label_config": rng.choice(["<View/>", "<", '<!DOCTYPE a [<!ENTITY b "c">]><View/>', 7]),
        }
    elif route == "/v1/undo":
        sent = {"lesson": rng.choice([0, -1, 1.5, "1", True, [], {}, 10**40])}
    elif route.endswith("rename"):
        sent = rng.choice(
            [{"to": rng.choice([None, True, 1.5, "", "a\nb", [], {}, "x" * 300])}, {"to": "x", "merge": 1}, {}]
        )
    else:  # no row of the model's 12 numbers is among them
        sent = {key: odd() for key in ("rows", "labels", "task") if rng.random() < 0.8}
    if rng.random() < 0.2:
        sent["never"] = odd()
    return Wrong("types", "POST", route, [("Content-Type", JSON)], json.dumps(sent).encode())


def _rows(rng: Random) -> Wrong:
    value = rng.choice([[], [[]], [[1], [1, 2]], [["1"]], [[True]], [[None]], [1], "1", [[[1]]], [[1e39]], [[10**400]]])
    if rng.random() < 0.5:
        body = json.dumps({"rows": value, "labels": ["red"]}).encode()
        return Wrong("rows", "POST", "/v1/learn-features", [("Content-Type", JSON)], body)
    width = rng.choice([3, 7, 1000])  # not the model's 12
    raw = rng.choice([bytes(4 * width), b"\0\0\xc0\x7f" * width, bytes(4 * width + rng.randint(1, 3)), b""])
    route = rng.choice([f"/v1/predict-features?width={width}", f"/v1/learn-features?width={width}&label=red"])
    return Wrong("rows", "POST", route, body=raw)


def _broken_image(rng: Random) -> Wrong:
    whole = _image(rng.choice(["png", "jpeg", "webp", "gif", "bmp", "tiff"]))
    start = rng.choice(
        [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"BM", b"II*\0", b"PK\3\4"]
    )
    body = rng.choice(
        [
            whole[: rng.randint(1, max(1, len(whole) // 3))],
            start + _noise(rng),
            _noise(rng),
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            b"%!PS-Adobe-3.0",
            bomb_png(rng.randint(20_000, 60_000)),
        ]
    )
    route = rng.choice(["/v1/learn?label=red", "/v1/learn?label=never", "/v1/predict"])
    return Wrong("image", "POST", route, [("Content-Type", "image/png")], body)


def _form(rng: Random) -> Wrong:
    part = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.png"\r\n\r\n'
    body = rng.choice(
        [
            part + _noise(rng),
            part + _image()[:20] + b"\r\n--b--\r\n",
            b"--b--\r\n",
            b"--c\r\n",
            b"",
            part * 300 + b"\r\n--b--\r\n",
            b"--b\r\n" + b"X: " + b"a" * rng.randint(9000, 50_000),
            b"--b\r\nContent-Disposition: form-data\r\n\r\nvalue\r\n--b--\r\n",
            b"--b\r\nno header\r\n\r\n",
            b'--b\r\nContent-Disposition: form-data; filename="\r\n\r\n--b--',
        ]
    )
    kind = rng.choice(["multipart/form-data; boundary=b", "multipart/form-data", "multipart/mixed; boundary=b"])
    return Wrong("form", "POST", "/v1/learn?label=red", [("Content-Type", kind)], body)


def _content_type(rng: Random) -> Wrong:
    kind = rng.choice(
        ["text/plain", "text/html; charset=x", "application/json", "multipart/", "multipart/form-data;boundary="]
    )
    return Wrong("content type", "POST", "/v1/learn?label=red", [("Content-Type", kind)], _image())


def _host(rng: Random) -> Wrong:
    host = rng.choice(
        ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "", "[::1", "a b"]
    )
    return Wrong("host", rng.choice(["GET", "POST"]), rng.choice(["/v1/model", "/", "/v1/undo"]), host=host)


def _origin(rng: Random) -> Wrong:
    origin = rng.choice(
        ["http://evil.example", "null", "https://127.0.0.1.evil.example", "http://127.0.0.1:1", "file://"]
    )
    site = rng.choice([[("Origin", origin)], [("Sec-Fetch-Site", "cross-site")], [("Origin", origin), ("Origin", "x")]])
    if rng.random() < 0.2:
        return Wrong("origin", "GET", "/v1/events", site)
    return Wrong("origin", "POST", rng.choice(["/v1/learn?label=red", "/v1/undo"]), site, _image())


def _token(rng: Random) -> Wrong:
    sent = rng.choice([None, "", "Bearer", "Bearer x", "Basic eDp5", "Bearer " + _noise(rng, 40).hex(), "bearer \xe9"])
    headers = [] if sent is None else [("Authorization", sent)]
    return Wrong("token", "POST", "/v1/learn?label=red", headers, _image(), with_token=False)


def _length(rng: Random) -> Wrong:
    length = rng.choice([str(1 << 40), "99999999999999999999", str((64 << 20) + 1)])
    return Wrong("length", "POST", "/v1/learn?label=red", [("Content-Length", length)], b"x")


def _key(rng: Random) -> Wrong:
    return Wrong("key", "POST", "/v1/learn?label=red", [("Idempotency-Key", rng.choice(["", "k" * 201]))], _image())


KINDS: tuple[Callable[[Random], Wrong], ...] = (
    *(_path, _name, _method, _query, _json, _types, _rows, _broken_image, _form, _content_type, _host, _origin, _token),
    *(_length, _key),
)


def _noise(rng: Random, most: int = 300) -> bytes:
    return rng.randbytes(rng.randint(1, most))


def _text(rng: Random, least: int, most: int) -> str:
    return "".join(
        chr(rng.choice([rng.randint(32, 126), rng.randint(160, 0x2FF)])) for _ in range(rng.randint(least, most))
    )


def _image(kind: str = "png") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 40, 40)).save(file, kind)
    return file.getvalue()


def bomb_png(side: int) -> bytes:
    """A small file that would become an image of side x side pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    head = side.to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(100_000)))
        + chunk(b"IEND", b"")
    )
