"""The HTML page of an evaluation: a confusion matrix and thumbnails of the worst mistakes, in one file."""

from __future__ import annotations

import base64
import html
import io
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image

from votestream._version import __version__
from votestream.images.class_folders import some
from votestream.images.convert import as_rgb, decode_path
from votestream.images.files import ImageError
from votestream.photos.evaluation import EvaluatedPhoto, Evaluation
from votestream.tracking.report import Score

SIDE = 192  # pixels of a thumbnail
MOST = 30  # classes in the matrix
ABOUT_THUMBNAILS = (
    "The thumbnails are stored in this page only; the model stores no photo. Everyone who gets the page can see them."
)


def page(made: Evaluation, model: Path, folder: Path, max_pixels: int) -> str:
    """The HTML text of the page."""
    template = (resources.files("votestream.photos") / "evaluation.html").read_text(encoding="utf-8")
    title = _safe(f"{model.name} on {folder}")
    body = [
        f"<h1>{title}</h1>",
        f'<p><span class="big">{_percent(made.score.accuracy)}</span> of {made.score.tested:,} photos right '
        f'<span class="soft">(95 % interval {_interval(made.score)})</span></p>',
        *_left_out(made),
        *_matrix(made),
        *_worst(made, max_pixels),
        *_classes(made.by_class),
        f'<p class="soft">Made by VoteStream {__version__}. The model was not trained on these photos.</p>',
    ]
    return template.replace("{{TITLE}}", title).replace("{{BODY}}", "\n".join(body))


def _left_out(made: Evaluation) -> list[str]:
    lines = []
    if made.left_out:
        names = some([f"{label} ({photos:,})" for label, photos in made.left_out.items()])
        lines.append(f"<p>Classes that the model does not have, left out: {_safe(names)}.</p>")
    if made.untested:
        lines.append(f"<p>Classes of the model without a photo here: {_safe(some(made.untested))}.</p>")
    return lines


def _matrix(made: Evaluation) -> list[str]:
    """Photos by class (rows) and predicted class (columns)."""
    counts = Counter((photo.label, photo.predicted) for photo in made.photos)
    wrong = Counter(label for a, b, times in made.confusions for label in (a, b) for _ in range(times))
    there = sorted({label for pair in counts for label in pair}, key=lambda label: (-wrong[label], str(label)))
    shown = sorted(there[:MOST], key=str)
    rows = []
    for label in shown:
        total = made.by_class[label].tested if label in made.by_class else 0
        cells = "".join(_cell(counts[label, other], total, label == other) for other in shown)
        rows.append(f'<tr><th scope="row">{_safe(label)}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{_safe(label)}</th>' for label in shown)
    left = f" Shown are the {MOST} of {len(there):,} classes with the most mistakes." if len(there) > MOST else ""
    return [
        "<h2>Confusion matrix</h2>",
        f'<p class="soft">A row for each class, a column for each prediction; numbers are photos.{left}</p>',
        f'<div class="scroll"><table class="matrix"><thead><tr><td></td>{head}</tr></thead>',
        f"<tbody>{''.join(rows)}</tbody></table></div>",
    ]


def _cell(photos: int, of: int, right: bool) -> str:
    if not photos:
        return "<td></td>"
    share = 0.15 + 0.7 * photos / of
    return f'<td style="background: rgba(var(--{"right" if right else "wrong"}), {share:.2f})">{photos:,}</td>'


def _worst(made: Evaluation, max_pixels: int) -> list[str]:
    if not made.worst:
        return ["<h2>Mistakes</h2>", "<p>None.</p>"]
    return [
        "<h2>Most confident mistakes</h2>",
        f'<p class="soft">{ABOUT_THUMBNAILS}</p>',
        f'<div class="photos">{"".join(_figure(photo, max_pixels) for photo in made.worst)}</div>',
    ]


def _figure(photo: EvaluatedPhoto, max_pixels: int) -> str:
    text = f"<b>{_safe(photo.predicted)}</b> {_percent(photo.confidence)}, is <b>{_safe(photo.label)}</b>"
    try:
        image = f'<img alt="{_safe(photo.label)}" src="{thumbnail(photo.path, max_pixels)}">'
    except ImageError:  # deleted since it was read
        image = ""
    return f'<figure>{image}<figcaption>{text}<br><span class="soft">{_safe(photo.path)}</span></figcaption></figure>'


def thumbnail(path: Path, max_pixels: int) -> str:
    """A small JPEG as a data URI, upright and without EXIF data."""

    def shrink(image: Image.Image) -> Image.Image:
        small = as_rgb(image, str(path)).copy()
        small.thumbnail((SIDE, SIDE))
        return small

    data = io.BytesIO()
    small = decode_path(path, shrink, max_pixels, SIDE)
    Image.frombytes("RGB", small.size, small.tobytes()).save(data, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"


def _classes(scores: dict[Any, Score]) -> list[str]:
    rows = []
    for label, score in scores.items():
        cells = (_safe(label), f"{score.tested:,}", f"{score.right:,}", _percent(score.accuracy), _interval(score))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("class", "photos", "right", "accuracy", "95 % interval"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return ["<h2>Classes, the lowest accuracy first</h2>", f'<div class="scroll">{table}</div>']


def _safe(text: object) -> str:
    return html.escape(str(text).encode("utf-8", "replace").decode())


def _interval(score: Score) -> str:
    return f"{_percent(score.low)} to {_percent(score.high)}"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):.1f} %"
