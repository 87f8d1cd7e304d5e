"""`votestream learn`, `predict` and `inspect`: the commands for folders of photos."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from votestream.cli.options import (
    Budget,
    Device,
    Json,
    LearnerName,
    MaxPixels,
    Model,
    PresetOption,
    Stages,
    Views,
    check_file,
    print_skipped,
)
from votestream.common.exits import CODES, INTERRUPTED, NOTHING, PARTLY, agreed, note, stop
from votestream.common.printing import shown
from votestream.images.class_folders import some, twins
from votestream.images.urls import as_place
from votestream.photos.photo_list import PhotoError, PhotoList, list_photos

# Modules that import torch are imported by the command that needs them, so that --help is fast.
app = typer.Typer()


@app.command(epilog=CODES)
def learn(
    photos: Annotated[
        str,
        typer.Argument(
            help="A folder that holds one folder of photos for each class, or its URL (s3://, hf://, https://, ...).",
            metavar="PHOTOS",
            show_default=False,
        ),
    ],
    model: Annotated[Path, typer.Option(help="The model file. It is created, or trained further.")],
    preset: PresetOption = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="The network that extracts features, for a new model.", show_default="by the photos' size"),
    ] = None,
    views: Views = None,
    stages: Stages = None,
    learner: LearnerName = None,
    budget: Budget = None,
    task: Annotated[
        str | None, typer.Option(help="A name for the task of this run's new classes.", show_default="run N")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of the photos.")] = 0,
    device: Device = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the classes and what would be learned; write nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask whether the folders in PHOTOS are the classes.")
    ] = False,
    max_pixels: MaxPixels = None,
    journal: Annotated[
        int,
        typer.Option(
            min=0,
            help="How many of the newest photos can be undone or moved to another class. Their features are kept in "
            "MODEL.journal; 0 keeps none.",
        ),
    ] = 1000,
    on: Annotated[
        str,
        typer.Option(
            help="Where to run: in this process (here), in several processes (processes), or on Ray (ray, or the "
            "address of a cluster, ray://HOST:10001)."
        ),
    ] = "here",
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --on: the number of workers.", show_default="one per core")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --on: a folder or URL that all workers can reach. Finished parts are kept there, so that a "
            "stopped run can continue.",
        ),
    ] = None,
    follow_redirects: Annotated[
        bool, typer.Option("--follow-redirects", help="With an https:// URL: follow redirects to other hosts too.")
    ] = False,
) -> None:
    """Learn the photos in a folder: each folder in it is a class. Run it again to add new photos and classes.

    No photo is stored, and none is learned twice.
    MODEL.learned lists digests of photos, MODEL.journal the newest features.
    A photo moved to another class folder is corrected if the journal has it.
    You can stop at any time: the same command continues.
    With --on, the model is saved once, at the end.

    Example: votestream learn photos --model shop.safetensors
    """
    if on == "here" and (workers, store) != (None, None):
        option = "--workers" if workers is not None else "--store"
        raise typer.BadParameter("needs --on processes or --on ray", param_hint=option)
    from votestream.model_store.paths import journal_path, sidecar_path

    found = list_photos(as_place(photos, follow_redirects), ignore=(model, sidecar_path(model), journal_path(model)))
    for text in found.notes:
        note(text)
    known = _known_classes(model)
    if found.doubt and not yes:
        _confirm_classes(found, model, known, dry_run)
    _confirm_similar_names(found, model, known, dry_run or yes)
    from votestream.backbones.presets import with_preset
    from votestream.photos.training import learn_photos, preview_photos

    views_and_stages = dict(zip(("views", "stages"), with_preset(preset, views, stages), strict=True))
    settings: dict[str, Any] = {"backbone": backbone, "preset": preset, "learner": learner, "budget": budget}
    settings |= {**views_and_stages, "device": device, "max_pixels": max_pixels}
    if on == "here" or dry_run:
        run = preview_photos if dry_run else learn_photos
        result = run(model, found, settings, task or None, seed, journal)
    else:
        from votestream.photos.parallel_training import learn_photos_in_parallel, make_executor

        with make_executor(on, workers, device) as place:
            result = learn_photos_in_parallel(model, found, settings, task or None, seed, journal, place, store)
    from votestream.photos.learn_report import interrupted_line, print_preview, summary_lines

    for text in result.notes if result.learned or not result.interrupted else ():
        note(text)
    if result.interrupted:
        stop(interrupted_line(result, model) + _kept_parts(on, store), INTERRUPTED)
    print_skipped(result.problems)
    if dry_run:
        from rich.console import Console

        print_preview(result, model, Console())
    elif result.model is None:
        stop(f"No photo could be read, so the model {model} was not created.", NOTHING)
    else:
        for line in summary_lines(result, model):
            typer.echo(shown(line))
    raise typer.Exit(PARTLY if result.problems else 0)


@app.command(epilog=CODES)
def predict(
    model: Model,
    files: Annotated[list[Path], typer.Argument(help="Photos, and folders of photos.", show_default=False)],
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Also write a table with one row for each photo.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Show the N most likely classes.", show_default="1, and 5 with --json and --csv"),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Also show the second most likely class, and what decided.")
    ] = False,
    sort_into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy each photo into a folder there, named after its predicted class."),
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="With --sort-into: make links instead of copies.")] = False,
    unknown: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.5,
            help="Share of known photos you accept being reported as unknown; 0 reports none as unknown.",
        ),
    ] = 0.05,
    device: Device = None,
    max_pixels: MaxPixels = None,
) -> None:
    """Predict the class of photos: one line for each photo, with the confidence.

    --json prints one object for each photo.
    --sort-into overwrites and deletes no file: a copy may get a number.

    Example: votestream predict shop.safetensors new_photos --why
    """
    if link and sort_into is None:
        raise typer.BadParameter("needs --sort-into FOLDER", param_hint="--link")
    check_file(csv, ".csv", "--csv")
    from votestream.model_store.model_file import load_image_model
    from votestream.photos.predictions import is_below, photo_files, predict_photos
    from votestream.photos.sorted_folders import FolderSorter
    from votestream.photos.tables import prediction_rows, write_csv

    loaded, predictions = load_image_model(model, device), []
    if max_pixels is not None:
        loaded.backbone_.max_pixels = max_pixels
    paths, problems = photo_files(files)
    sorter = None
    if sort_into is not None:
        sorter = FolderSorter(sort_into, link)
        paths = [path for path in paths if not is_below(path, sort_into)]  # copies made by an earlier run
    for prediction in predict_photos(loaded, paths, top, unknown):
        if prediction.problem:
            problems.append(prediction.problem)
            continue
        predictions.append(prediction)
        if as_json:
            typer.echo(json.dumps({"file": str(prediction.path), **prediction.numbers}))
        else:
            typer.echo(f"{shown(prediction.path)}: {shown(prediction.why if why else prediction.text)}")
        if sorter is not None:
            sorter.sort(prediction)
    if csv is not None:
        write_csv(csv, prediction_rows(predictions))
    problems += sorter.problems if sorter is not None else []
    print_skipped(problems)
    if sorter is not None:
        note(sorter.summary)
    raise typer.Exit((PARTLY if predictions else NOTHING) if problems else 0)


@app.command(epilog=CODES)
def inspect(model: Model, as_json: Json = False) -> None:
    """Show what a model contains: classes, numbers of photos, accuracy, settings and size.

    Example: votestream inspect shop.safetensors
    """
    from rich.console import Console

    from votestream.photos.report import print_report, report

    about = report(model)
    if as_json:
        typer.echo(json.dumps(about))
    else:
        print_report(about, Console())


def _known_classes(model: Path) -> list[str]:
    """The model's classes; none if there is no model, or if it cannot be read, which is reported when it is opened."""
    if not model.exists():
        return []
    from votestream.model_store.paths import ModelStoreError
    from votestream.photos.report import report

    try:
        return [str(row["label"]) for row in report(model)["classes"]]
    except ModelStoreError:
        return []


def _confirm_classes(found: PhotoList, model: Path, known: list[str], dry_run: bool) -> None:
    """Ask whether the folders in PHOTOS are the classes, if they may not be."""
    if set(known) & set(found.labels):
        return  # the user confirmed it when the model learned them
    again = f"votestream learn {shlex.quote(str(found.instead))} --model {shlex.quote(str(model))}"
    advice = (
        f"If the classes are one level deeper, use `{again}`."
        if found.instead
        else "Move folders that are not classes elsewhere."
    )
    if not dry_run and not sys.stdin.isatty():
        raise PhotoError(f"{found.doubt} {advice} To learn {some(found.labels, 3)} as classes, add --yes.")
    note(f"{found.doubt} {advice}")
    if not dry_run and not agreed(shown(f"Learn {some(found.labels, 3)} as classes anyway?")):
        stop("Nothing was learned.", NOTHING)


def _confirm_similar_names(found: PhotoList, model: Path, known: list[str], only_note: bool) -> None:
    """Ask once whether a new class is meant if its name is nearly that of another; without a terminal, print a note."""
    alike = twins(found.labels, known)
    for new, old in alike:
        where = f"{model} has a class" if old in known else "there is also"
        join = " ".join(map(shlex.quote, ("votestream", "rename", str(model), new, old)))
        note(
            f"{new} is a new class, and {where} {old}: if they are the same, give both folders one name, or join the "
            f"classes afterwards with `{join}`."
        )
    if not alike or only_note or not sys.stdin.isatty():
        return
    if not agreed(shown(f"Learn {some([new for new, _ in alike], 5)} as new classes?")):
        stop("Nothing was learned.", NOTHING)


def _kept_parts(on: str, store: str | None) -> str:
    """What was kept of an interrupted run with several workers."""
    if on == "here":
        return ""
    if store is None:
        return " With --store FOLDER, finished parts would have been kept."
    return f" Finished parts are in {store}: run the same command to continue."
