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

FOR_GOOD = "no journal is kept beside this model: that cannot be taken back."
BACK = "`votestream undo` takes that back."
LISTED = 40  # steps; there may be a thousand

app = typer.Typer()

Model = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]


@app.command(epilog=CODES)
def undo(
    model: Model,
    lessons: Annotated[
        int | None,
        typer.Option(min=1, help="How many photos to take back, the newest first.", show_default="1"),
    ] = None,
    last_run: Annotated[bool, typer.Option("--last-run", help="Take back all that the last run did.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only list what can be taken back, the newest first.")] = False,
) -> None:
    """Take back the photos that were learned last, as if they had never been learned.

    A class that was renamed or forgotten since is taken back too, and counts as one photo.
    MODEL.journal says how far back it goes: 1,000 photos, unless `learn --journal` says otherwise.

    Example: votestream undo shop.safetensors --last-run
    """
    if sum((lessons is not None, last_run, listed)) > 1:
        raise typer.BadParameter("give one of --lessons, --last-run and --list", param_hint="--lessons")
    from votestream.photos.correcting import undo as take_back
    from votestream.photos.correcting import undoable
    from votestream.photos.report import count

    if listed:
        steps = undoable(model)
        for number, step in enumerate(steps[:LISTED], 1):
            told = f"{step.what}: {step.label}" if step.photo else step.what
            typer.echo(shown(f"{number:>5}  {step.when}  {told}"))
        if len(steps) > LISTED:
            typer.echo(f"And {len(steps) - LISTED:,} older ones.")
        typer.echo("Take back the newest N of them: --lessons N.")
        return
    done = take_back(model, None if last_run else lessons or 1)
    lines = [f"Taken back: {step.what}." for step in done.steps if not step.photo]
    if photos := [step.what for step in done.steps if step.photo]:
        by_class = (f"{label} {n:,}" for label, n in sorted(done.photos.items(), key=lambda pair: str(pair[0])))
        lines += [f"{count(len(photos), 'photo')} taken back: {some(by_class)}.", f"  {some(photos, 5)}"]
    if done.gone:
        lines.append(f"No longer known: {some(done.gone)}.")
    lines.append(f"{model} has learned {count(done.total, 'photo')} now; {done.left:,} more can be taken back.")
    if photos:
        lines.append("Photos that still lie in their folders are learned again by the next `votestream learn`.")
    for line in lines:
        typer.echo(shown(line))


@app.command(epilog=CODES)
def forget(
    model: Model,
    label: Annotated[str, typer.Argument(help="The class to take out.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    for_good: Annotated[
        bool,
        typer.Option("--for-good", help="Keep nothing that could bring it back: the journal is deleted."),
    ] = False,
) -> None:
    """Take a class out of a model, with all that was learned of it.

    `votestream undo` brings it back, unless --for-good is given: the journal holds what is needed for that.

    Example: votestream forget shop.safetensors litter
    """
    if not yes:
        if not sys.stdin.isatty():
            lasting = "permanently " if for_good else ""
            raise PhotoError(f"This {lasting}deletes {label!r} from {model}. Add --yes to confirm.")
        if not agreed(shown(f"Forget all that {model} has learned of {label}?")):
            stop("Nothing was forgotten.", NOTHING)
    from votestream.photos.correcting import forget as take_out
    from votestream.photos.report import count

    photos, undoable = take_out(model, label, for_good)
    typer.echo(shown(f"{label} is forgotten, {count(photos, 'photo')}. Its folder, if offered again, is learned anew."))
    note(BACK if undoable else FOR_GOOD)


@app.command(epilog=CODES)
def rename(
    model: Model,
    old: Annotated[str, typer.Argument(help="The class as it is called now.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Join two classes without a question.")] = False,
) -> None:
    """Give a class another name. With the name of another class the two become one, after a question.

    Rename its folder too: photos are learned under their folder's name.

    Example: votestream rename shop.safetensors plastik plastic
    """
    from votestream.photos.correcting import rename as give_name
    from votestream.photos.report import count

    def join(mine: int, theirs: int) -> bool:
        told = (
            f"{new} is a class already, of {count(theirs, 'photo')}: {old}, of {count(mine, 'photo')}, becomes part of "
            "it, and the model no longer tells the two apart."
        )
        if yes:
            return True
        if not sys.stdin.isatty():
            raise PhotoError(f"{told} Add --yes to confirm.")
        note(told)
        return agreed(shown(f"Join {old} and {new}?"))

    done = give_name(model, old, new, join)
    if done is None:
        stop("Nothing was renamed.", NOTHING)
    typer.echo(shown(f"{old} is part of {new} now." if done.joined else f"{old} is called {new} now."))
    note(BACK if done.undoable else FOR_GOOD)


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
