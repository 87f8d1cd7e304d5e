"""`votestream undo`: for models that were taught something wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from votestream.common.exits import CODES
from votestream.common.printing import shown
from votestream.images.class_folders import some

app = typer.Typer()

Model = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]


@app.command(epilog=CODES)
def undo(
    model: Model,
    lessons: Annotated[int, typer.Option(min=1, help="How many photos to take back, the newest first.")] = 1,
) -> None:
    """Take back the photos that were learned last, as if they had never been; as far as MODEL.journal reaches."""
    from votestream.photos.correcting import undo as take_back
    from votestream.photos.report import count

    done = take_back(model, lessons)
    by_class = (f"{label} {number:,}" for label, number in sorted(done.photos.items(), key=lambda pair: str(pair[0])))
    lines = [f"{count(lessons, 'photo')} taken back: {some(by_class)}."]
    if done.gone:
        lines.append(f"No longer known: {some(done.gone)}.")
    lines.append(
        f"{model} has learned {count(done.total, 'photo')}; {count(done.left, 'more', 'more')} could be taken back."
    )
    lines.append("Photos that still lie in their folders are learned again by the next `votestream learn`.")
    for line in lines:
        typer.echo(shown(line))
