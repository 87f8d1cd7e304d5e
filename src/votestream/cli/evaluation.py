"""`votestream evaluate`: how good a model is on photos that it does not learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from votestream.cli.photos import Device, Json, MaxPixels, Model, check_file, name_skipped
from votestream.common.exits import CODES, NOTHING, PARTLY, note, stop
from votestream.common.printing import shown
from votestream.images.class_folders import some

if TYPE_CHECKING:
    from rich.console import Console

    from votestream.photos.evaluating import Evaluation
    from votestream.tracking.report import Score

NAMED = 5  # confusions and mistakes printed

app = typer.Typer()


@app.command(epilog=CODES)
def evaluate(
    model: Model,
    folder: Annotated[
        Path, typer.Argument(help="A folder that holds one folder of photos for each class.", show_default=False)
    ],
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write a table too, one row a photo.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="PAGE.html",
            help="Write a page too: the confusion matrix, and thumbnails of the worst photos, which are kept in that "
            "page only.",
        ),
    ] = None,
    device: Device = None,
    max_pixels: MaxPixels = None,
) -> None:
    """Say how good a model is on labelled photos that it has not learned, and does not learn now.

    Accuracy with its 95 % interval (Wilson), by class, what is taken for what, and the most confident mistakes. Classes
    that the model does not know are named and left out.
    """
    check_file(csv, ".csv", "--csv")
    check_file(html, ".html", "--html")
    from votestream.photos.evaluating import evaluate as judge
    from votestream.photos.evaluating import to_evaluate
    from votestream.photos.opening import load_on_photos
    from votestream.photos.tables import judgements, write_csv, write_text

    found, asked = to_evaluate(folder), load_on_photos(model, device)
    if max_pixels is not None:
        asked.backbone_.max_pixels = max_pixels
    for text in found.notes:
        note(text)
    made = judge(asked, model, found)
    name_skipped(made.problems)
    if not made.judged:
        stop("No photo could be read, so there is nothing to judge the model by.", NOTHING)
    if csv is not None:
        write_csv(csv, judgements(made.judged))
    if html is not None:
        from votestream.photos.evaluation_page import page

        write_text(html, page(made, model, folder, asked.backbone_.max_pixels))
    if as_json:
        typer.echo(json.dumps({"model": str(model), "folder": str(folder), **made.numbers()}))
    else:
        _print(made, model, folder)
    if made.left_out:
        names = some([f"{label} ({photos:,})" for label, photos in made.left_out.items()])
        typer.echo(shown(f"Left out, since the model does not know them: {names}."), err=True)
    raise typer.Exit(PARTLY if made.problems or made.left_out else 0)


def _print(made: Evaluation, model: Path, folder: Path) -> None:
    from rich.console import Console

    from votestream.photos.report import say

    console = Console()
    say(console, f"{model} on {folder}: {made.score} photos right.")
    _print_classes(made.by_class, console)
    if made.untested:
        say(console, f"Without a photo here: {some(made.untested)}.")
    confused = [f"{label} as {other} {times:,}" for label, other, times in made.confusions]
    if confused:
        say(console, f"Most frequent confusions: {some(confused, NAMED)}.")
        say(console, "Most confident mistakes:")
    for photo in made.worst[:NAMED]:
        say(console, f"  {photo.path}: {photo.predicted} {100 * photo.confidence:.0f} %, is {photo.label}")


def _print_classes(scores: dict[Any, Score], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from votestream.photos.report import ROWS, say

    table = Table("class", "right (95 % interval)")
    for label, score in list(scores.items())[:ROWS]:
        table.add_row(Text(shown(label)), str(score))
    console.print(table)
    if len(scores) > ROWS:
        say(console, f"And {len(scores) - ROWS:,} classes with higher accuracy: --json lists them all.")
