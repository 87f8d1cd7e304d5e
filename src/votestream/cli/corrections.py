"""`votestream undo`, `forget`, `rename` and `merge`: the commands that correct a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from votestream.cli.options import Model
from votestream.common.exits import CODES, NOTHING, Refused, agreed, note, stop
from votestream.common.printing import shown
from votestream.images.class_folders import some

CANNOT_UNDO = "this cannot be undone: the model has no journal."
CAN_UNDO = "`votestream undo` undoes this."
MOST_STEPS = 40  # steps listed; there may be a thousand

app = typer.Typer()


@app.command(epilog=CODES)
def undo(
    model: Model,
    photos: Annotated[
        int | None,
        typer.Option(min=1, help="How many photos to undo, the newest first.", show_default="1"),
    ] = None,
    last_run: Annotated[bool, typer.Option("--last-run", help="Undo everything that the last run did.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Only list what can be undone, the newest first.")] = False,
    lessons: Annotated[int | None, typer.Option("--lessons", min=1, hidden=True)] = None,  # the name until 0.2
) -> None:
    """Undo the newest photos, as if they had never been learned.

    Renamed and forgotten classes are undone too; each counts as one photo.
    MODEL.journal has the newest 1,000 photos, or what `learn --journal` says.

    Example: votestream undo shop.safetensors --last-run
    """
    photos = lessons if photos is None else photos
    if sum((photos is not None, last_run, listed)) > 1:
        raise typer.BadParameter("give one of --photos, --last-run and --list", param_hint="--photos")
    from votestream.photos.corrections import undo as undo_photos
    from votestream.photos.corrections import undo_steps
    from votestream.photos.report import count

    if listed:
        steps = undo_steps(model)
        for number, step in enumerate(steps[:MOST_STEPS], 1):
            text = f"{step.what}: {step.label}" if step.photo else step.what
            typer.echo(shown(f"{number:>5}  {step.when}  {text}"))
        if len(steps) > MOST_STEPS:
            typer.echo(f"And {len(steps) - MOST_STEPS:,} older ones.")
        typer.echo("To undo the newest N of them: --photos N.")
        return
    done = undo_photos(model, None if last_run else photos or 1)
    lines = [f"Undone: {step.what}." for step in done.steps if not step.photo]
    if names := [step.what for step in done.steps if step.photo]:
        by_class = (f"{label} {n:,}" for label, n in sorted(done.photos.items(), key=lambda pair: str(pair[0])))
        lines += [f"{count(len(names), 'photo')} undone: {some(by_class)}.", f"  {some(names, 5)}"]
    if done.gone:
        lines.append(f"Classes removed: {some(done.gone)}.")
    lines.append(f"{model} has learned {count(done.total, 'photo')} now; {done.left:,} more can be undone.")
    if names:
        lines.append("Photos that are still in their folders are learned again by the next `votestream learn`.")
    for line in lines:
        typer.echo(shown(line))


@app.command(epilog=CODES)
def forget(
    model: Model,
    label: Annotated[str, typer.Argument(help="The class to delete.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    for_good: Annotated[
        bool,
        typer.Option("--for-good", help="Delete the journal too, so that the class cannot be restored."),
    ] = False,
) -> None:
    """Delete a class from a model, with everything that was learned about it.

    `votestream undo` restores it from the journal, unless --for-good is given.

    Example: votestream forget shop.safetensors litter
    """
    if not yes:
        if not sys.stdin.isatty():
            lasting = "permanently " if for_good else ""
            raise Refused(f"This {lasting}deletes {label!r} from {model}. Add --yes to confirm.")
        if not agreed(shown(f"Delete the class {label} from {model}?")):
            stop("Nothing was deleted.", NOTHING)
    from votestream.photos.corrections import forget as delete_class
    from votestream.photos.report import count

    photos, undoable = delete_class(model, label, for_good)
    typer.echo(
        shown(f"The class {label} was deleted, {count(photos, 'photo')}. Photos in its folder would be learned again.")
    )
    note(CAN_UNDO if undoable else CANNOT_UNDO)


@app.command(epilog=CODES)
def rename(
    model: Model,
    old: Annotated[str, typer.Argument(help="The class to rename.", show_default=False)],
    new: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before two classes are joined.")] = False,
) -> None:
    """Rename a class. If the new name is that of another class, the two are joined, after a question.

    Rename the folder too: the name of its folder is a photo's class.

    Example: votestream rename shop.safetensors plastik plastic
    """
    from votestream.photos.corrections import rename as rename_class
    from votestream.photos.report import count

    def join(photos: int, others: int) -> bool:
        text = (
            f"There is already a class {new}, with {count(others, 'photo')}. {old}, with {count(photos, 'photo')}, "
            "becomes part of it, and the model no longer distinguishes them."
        )
        if yes:
            return True
        if not sys.stdin.isatty():
            raise Refused(f"{text} Add --yes to confirm.")
        note(text)
        return agreed(shown(f"Join {old} and {new}?"))

    done = rename_class(model, old, new, join)
    if done is None:
        stop("Nothing was renamed.", NOTHING)
    typer.echo(shown(f"{old} is part of {new} now." if done.joined else f"{old} is called {new} now."))
    note(CAN_UNDO if done.undoable else CANNOT_UNDO)


@app.command(epilog=CODES)
def merge(
    models: Annotated[list[Path], typer.Argument(help="Two or more model files.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The file of the merged model, which must not exist yet.")],
) -> None:
    """Merge models that were trained separately, with the same backbone and the same settings, into one model.

    Example: votestream merge north.safetensors south.safetensors --out both.safetensors
    """
    if len(models) < 2:
        raise typer.BadParameter("give two models or more", param_hint="MODELS")
    from votestream.photos.corrections import merge_models
    from votestream.photos.report import count

    merged = merge_models(models, out)
    photos, classes = count(merged.photos, "photo"), count(merged.classes, "class", "classes")
    typer.echo(shown(f"{out}: {photos} of {classes}."))
    if merged.twice:
        note(f"more than one of the models had learned {count(merged.twice, 'photo')}: these count in each of them.")
