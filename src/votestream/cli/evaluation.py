"""`votestream evaluate`: the command that tests a model on labelled photos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from votestream.cli.options import Device, Json, MaxPixels, Model, check_file, print_skipped
from votestream.common.exits import CODES, NOTHING, PARTLY, note, stop
from votestream.common.printing import shown
from votestream.images.class_folders import some

if TYPE_CHECKING:
    from rich.console import Console

    from votestream.photos.evaluation import Evaluation
    from votestream.tracking.report import Score

MOST_PRINTED = 5  # confusions and mistakes

app = typer.Typer()


@app.command(epilog=CODES)
def evaluate(
    model: Model,
    folder: Annotated[
        Path, typer.Argument(help="A folder that holds one folder of photos for each class.", show_default=False)
    ],
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Also write a table with one row for each photo.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="PAGE.html",
            help="Also write a page with the confusion matrix and thumbnails of the worst mistakes. Only that page "
            "stores the thumbnails.",
        ),
    ] = None,
    device: Device = None,
    max_pixels: MaxPixels = None,
) -> None:
    """Test a model on labelled photos that it has not learned. The model is not changed.

    Prints the accuracy with its 95 % interval (Wilson), in all and by class,
    the most frequent confusions and the most confident mistakes.
    Classes that the model does not have are named and left out.

    Example: votestream evaluate shop.safetensors test_photos --html page.html
    """
    check_file(csv, ".csv", "--csv")
    check_file(html, ".html", "--html")
    from votestream.model_store.model_file import load_image_model
    from votestream.photos.evaluation import evaluate as evaluate_photos
    from votestream.photos.evaluation import list_test_photos
    from votestream.photos.tables import evaluation_rows, write_csv, write_text

    found, loaded = list_test_photos(folder), load_image_model(model, device)
    if max_pixels is not None:
        loaded.backbone_.max_pixels = max_pixels
    for text in found.notes:
        note(text)
    made = evaluate_photos(loaded, model, found)
    print_skipped(made.problems)
    if not made.photos:
        stop("No photo could be read, so the model was not tested.", NOTHING)
    if csv is not None:
        write_csv(csv, evaluation_rows(made.photos))
    if html is not None:
        from votestream.photos.evaluation_page import page

        write_text(html, page(made, model, folder, loaded.backbone_.max_pixels))
    if as_json:
        typer.echo(json.dumps({"model": str(model), "folder": str(folder), **made.numbers()}))
    else:
        _print(made, model, folder)
    if made.left_out:
        names = some([f"{label} ({photos:,})" for label, photos in made.left_out.items()])
        typer.echo(shown(f"Left out, because the model does not have these classes: {names}."), err=True)
    raise typer.Exit(PARTLY if made.problems or made.left_out else 0)


def _print(made: Evaluation, model: Path, folder: Path) -> None:
    from rich.console import Console

    from votestream.photos.report import say

    console = Console()
    say(console, f"{model} on {folder}: {made.score} photos right.")
    _print_classes(made.by_class, console)
    if made.untested:
        say(console, f"Classes without a photo here: {some(made.untested)}.")
    confused = [f"{label} as {other} {times:,}" for label, other, times in made.confusions]
    if confused:
        say(console, f"Most frequent confusions: {some(confused, MOST_PRINTED)}.")
        say(console, "Most confident mistakes:")
    for photo in made.worst[:MOST_PRINTED]:
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
