"""Images to teach: three kinds that are easily told apart, from many sides; and a video of them for the camera."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

KINDS = {"leaf": (40, 140, 60), "brick": (180, 60, 40), "water": (40, 90, 190)}
FRAMES_EACH = 20  # of a kind, at 5 a second


def picture(kind: str, number: int, width: int = 96, height: int = 96) -> Image.Image:
    """A picture of a kind; each number gives another."""
    rng = np.random.default_rng([sorted(KINDS).index(kind), number])
    colour = np.clip(np.array(KINDS[kind]) + rng.integers(-20, 20, 3), 0, 255)
    image = Image.new("RGB", (width, height), tuple(int(part) for part in 255 - (255 - colour) // 3))
    draw = ImageDraw.Draw(image)
    for _ in range(14):
        x, y = int(rng.integers(width)), int(rng.integers(height))
        size = int(rng.integers(6, 22)) * width // 96
        shade = tuple(int(part) for part in np.clip(colour + rng.integers(-30, 30, 3), 0, 255))
        if kind == "leaf":
            draw.ellipse((x - size, y - size // 2, x + size, y + size // 2), fill=shade)
        elif kind == "brick":
            draw.rectangle((x - size, y - size // 2, x + size, y + size // 2), fill=shade)
        else:
            draw.line((0, y, width, y + size - 10), fill=shade, width=4)
    return image


def jpeg(kind: str, number: int) -> bytes:
    file = io.BytesIO()
    picture(kind, number).save(file, "JPEG", quality=90)
    return file.getvalue()


def upload(name: str, data: bytes, kind: str = "image/jpeg") -> dict[str, str]:
    """A file for `drop` and `paste`."""
    return {"name": name, "type": kind, "data": base64.b64encode(data).decode()}


def uploads(kind: str, n: int, start: int = 0) -> list[dict[str, str]]:
    return [upload(f"{kind}-{number}.jpg", jpeg(kind, number)) for number in range(start, start + n)]


def write_video(path: Path) -> None:
    """An uncompressed video (Y4M) for Chromium's fake camera: each kind for four seconds, over and over."""
    width, height = 320, 240
    with path.open("wb") as file:
        file.write(f"YUV4MPEG2 W{width} H{height} F5:1 Ip A1:1 C420jpeg\n".encode())
        for kind in KINDS:
            for number in range(FRAMES_EACH):
                y, cb, cr = picture(kind, 500 + number, width, height).convert("YCbCr").split()
                half = (width // 2, height // 2)
                file.write(b"FRAME\n" + y.tobytes() + cb.resize(half).tobytes() + cr.resize(half).tobytes())
