"""`votestream undo`, `forget`, `rename` and `merge`: changes to what a model has learned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from votestream.common.exits import CODES, NOTHING, agreed, note, stop
from votestream.common.printing import shown
from votestream.images.class_folders import some
from votestream.photos.finding import PhotoError

CLEARED = "the journal is cleared: `votestream undo` reaches back to this change, and no further."

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
    lines.append(f"{model} has learned {count(done.total, 'photo')} now; {done.left:,} more can be taken back.")
    lines.append("Photos that still lie in their folders are learned again by the next `votestream learn`.")
    for line in lines:
        typer.echo(shown(line))


@app.command(epilog=CODES)
def forget(
    model: Model,
    label: Annotated[str, typer.Argument(help="The class to take out.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take a class out of a model, with all that it has learned of it. There is no way back: keep a copy of it."""
    if not yes:
        if not sys.stdin.isatty():
            raise PhotoError(f"What the model knows of {label} cannot be had back: add --yes if that is meant.")
        if not agreed(shown(f"Forget all that {model} has learned of {label}?")):
            stop("Nothing was forgotten.", NOTHING)
    from votestream.photos.correcting import forget as take_out
    from votestream.photos.report import count

    photos = take_out(model, label)
    typer.echo(
        shown(f"{label} is forgotten, {count(photos, 'photo')}. Its folder, if it is offered again, is learned anew.")
    )
    note(CLEARED)


@app.command(epilog=CODES)
def rename(
    model: Model,
    old: Annotated[str, typer.Argument(help="The class as it is called now.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
) -> None:
    """Give a class another name; with the name of another class, the two become one. Rename its folder too."""
    from votestream.photos.correcting import rename as give_name

    joined = give_name(model, old, new)
    typer.echo(shown(f"{old} is part of {new} now." if joined else f"{old} is called {new} now."))
    note(CLEARED)


@app.command(epilog=CODES)
def merge(
    models: Annotated[list[Path], typer.Argument(help="Two model files or more.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The file of the merged model, a new one.")],
) -> None:
    """Make one model of several that were taught in different places, with one backbone and the same settings."""
    if len(models) < 2:
        raise typer.BadParameter("give two models or more", param_hint="MODELS")
    from votestream.photos.correcting import merge_models
    from votestream.photos.report import count

    made = merge_models(models, out)
    photos, classes = count(made.photos, "photo"), count(made.classes, "class", "classes")
    typer.echo(shown(f"{out}: {photos} of {classes}."))
    if made.twice:
        note(f"more than one of the models had learned {count(made.twice, 'photo')}: such photos count in each.")
