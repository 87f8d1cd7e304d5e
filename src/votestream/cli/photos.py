"""`votestream learn`, `predict` and `inspect`: for people with folders of photos."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from votestream.cli.looks import Stages, Views
from votestream.common.exits import CODES, INTERRUPTED, NOTHING, PARTLY, agreed, note, stop
from votestream.common.printing import shown
from votestream.images.class_folders import some, twins
from votestream.images.urls import as_place
from votestream.photos.finding import Offer, PhotoError, offer
from votestream.photos.sidecar import journal_of, sidecar_of

# Whatever brings the network along is imported by the command that runs it: --help should not wait for it.
if TYPE_CHECKING:
    from votestream.photos.learning import Lesson

app = typer.Typer()

Model = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda.", show_default="auto")]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Skip larger photos; JPEGs may have 3 times as many.", show_default="70000000"),
]
LearnerName = Annotated[
    str | None, typer.Option(help="What learns; only for a new model.", show_default="gaussian_voting")
]
Budget = Annotated[
    int | None,
    typer.Option(min=1, help="Exemplars kept, by learners that keep any; only for a new model.", show_default="2000"),
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]


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
    model: Annotated[Path, typer.Option(help="The model file; it is made, or goes on learning.")],
    backbone: Annotated[
        str | None,
        typer.Option(help="What looks at the photos; only for a new model.", show_default="by the photos' size"),
    ] = None,
    views: Views = None,
    stages: Stages = None,
    learner: LearnerName = None,
    budget: Budget = None,
    task: Annotated[
        str | None, typer.Option(help="A name for the task that this run's new classes form.", show_default="run N")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Order of the photos, and what a new model draws.")] = 0,
    device: Device = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the classes and what would be learned; write nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask: the folder's own folders are the classes.")
    ] = False,
    max_pixels: MaxPixels = None,
    journal: Annotated[
        int,
        typer.Option(
            min=0, help="Newest photos whose features are kept beside the model, for `undo` and moved photos; 0: none."
        ),
    ] = 1000,
    on: Annotated[
        str, typer.Option(help="Who reads and learns: here, processes, ray, or a Ray cluster, ray://HOST:10001.")
    ] = "here",
    workers: Annotated[int | None, typer.Option(min=1, help="With --on: how many.", show_default="one a core")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --on: a folder, or URL, that all workers reach, where parts are kept so that a run that was "
            "stopped goes on.",
        ),
    ] = None,
    follow_redirects: Annotated[
        bool, typer.Option("--follow-redirects", help="With an https:// URL: follow redirects to other hosts too.")
    ] = False,
) -> None:
    """Learn the photos below a folder, one folder a class. Run it again when there are new ones, and it goes on.

    No photo is kept, and none is learned twice: MODEL.learned holds digests, MODEL.journal the newest features.
    A photo moved to another class folder is corrected as far back as the journal reaches.
    Stop it whenever you like: the same command goes on where it was. With --on, the model is saved once, at the end.
    """
    if on == "here" and (workers, store) != (None, None):
        option = "--workers" if workers is not None else "--store"
        raise typer.BadParameter("is for --on processes and --on ray", param_hint=option)
    found = offer(as_place(photos, follow_redirects), ignore=(model, sidecar_of(model), journal_of(model)))
    for text in found.notes:
        note(text)
    known = _known_classes(model)
    if found.doubt and not yes:
        _settle(found, model, known, dry_run)
    _settle_twins(found, model, known, dry_run or yes)
    from votestream.photos.learning import rehearse, teach

    settings = {"backbone": backbone, "views": views, "stages": stages, "learner": learner, "budget": budget}
    settings |= {"device": device, "max_pixels": max_pixels}
    if on == "here" or dry_run:
        lesson = (rehearse if dry_run else teach)(model, found, settings, task or None, seed, journal)
    else:
        from votestream.photos.many_workers import on_workers, teach_by_workers

        with on_workers(on, workers, device) as place:
            lesson = teach_by_workers(model, found, settings, task or None, seed, journal, place, store)
    for text in lesson.notes if lesson.learned or not lesson.interrupted else ():
        note(text)
    if lesson.interrupted:
        stop(_interrupted(lesson, model) + _kept_parts(on, store), INTERRUPTED)
    name_skipped(lesson.problems)
    if dry_run:
        from rich.console import Console

        from votestream.photos.report import print_trial

        print_trial(lesson, model, Console())
    elif lesson.model is None:
        stop(f"No photo could be read, so there is no model {model}.", NOTHING)
    else:
        _summarise(lesson, model)
    raise typer.Exit(PARTLY if lesson.problems else 0)


@app.command(epilog=CODES)
def predict(
    model: Model,
    files: Annotated[list[Path], typer.Argument(help="Photos, and folders of photos.", show_default=False)],
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write a table too, one row a photo.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="The so many likeliest classes of each photo.", show_default="1, and 5 with --json and --csv"
        ),
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy each photo into a folder there, named after its predicted class."),
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="With --sort-into: links in place of copies.")] = False,
    unknown: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.5,
            help="Say unknown where a photo is less like what was learned than all but this share of known photos; "
            "0: never.",
        ),
    ] = 0.05,
    device: Device = None,
    max_pixels: MaxPixels = None,
) -> None:
    """Say what is on each photo, how sure the model is, and how the vote fell; --json prints an object a line.

    --sort-into never overwrites or deletes a file: a name that is taken gets a number.
    """
    if link and sort_into is None:
        raise typer.BadParameter("links are made by --sort-into FOLDER: give one", param_hint="--link")
    check_file(csv, ".csv", "--csv")
    from votestream.photos.answering import answers, below, files_in
    from votestream.photos.opening import load_on_photos
    from votestream.photos.sorting import Sorter
    from votestream.photos.tables import predictions, write_csv

    asked, answered = load_on_photos(model, device), []
    if max_pixels is not None:
        asked.backbone_.max_pixels = max_pixels
    paths, problems = files_in(files)
    sorter = None
    if sort_into is not None:
        sorter = Sorter(sort_into, link)
        paths = [path for path in paths if not below(path, sort_into)]  # sorted by an earlier run
    for answer in answers(asked, paths, top, unknown):
        if answer.problem:
            problems.append(answer.problem)
            continue
        answered.append(answer)
        if as_json:
            typer.echo(json.dumps({"file": str(answer.path), **answer.numbers}))
        else:
            typer.echo(f"{shown(answer.path)}: {shown(answer.words)}")
        if sorter is not None:
            sorter.sort(answer)
    if csv is not None:
        write_csv(csv, predictions(answered))
    problems += sorter.problems if sorter is not None else []
    name_skipped(problems)
    if sorter is not None:
        note(sorter.summary)
    raise typer.Exit((PARTLY if answered else NOTHING) if problems else 0)


@app.command(epilog=CODES)
def inspect(model: Model, as_json: Json = False) -> None:
    """Show what a model holds: classes, tasks, counts, settings, and its memory against that of the images."""
    from rich.console import Console

    from votestream.photos.report import print_report, report

    about = report(model)
    if as_json:
        typer.echo(json.dumps(about))
    else:
        print_report(about, Console())


def _known_classes(model: Path) -> list[str]:
    """The model's classes; none where there is no model, or where opening it will say what is wrong with it."""
    if not model.exists():
        return []
    from votestream.photos.report import report

    try:
        return [str(row["label"]) for row in report(model)["classes"]]
    except PhotoError:
        return []


def _settle(found: Offer, model: Path, known: list[str], dry_run: bool) -> None:
    """Ask whether the folder's own folders are the classes, where they do not look like it."""
    if set(known) & set(found.labels):
        return  # it was asked, and agreed to, when the model met them
    again = f"votestream learn {shlex.quote(str(found.instead))} --model {shlex.quote(str(model))}"
    meant = (
        f"If the classes lie a level deeper, use `{again}`." if found.instead else "Move what is no class elsewhere."
    )
    if not dry_run and not sys.stdin.isatty():
        raise PhotoError(f"{found.doubt} {meant} To learn {some(found.labels, 3)} as classes, add --yes.")
    note(f"{found.doubt} {meant}")
    if not dry_run and not agreed(shown(f"Learn {some(found.labels, 3)} as classes all the same?")):
        stop("Nothing was learned.", NOTHING)


def _settle_twins(found: Offer, model: Path, known: list[str], tell_only: bool) -> None:
    """Ask, once, whether a new class of nearly the name of another is meant; where nobody can answer, say so."""
    alike = twins(found.labels, known)
    for new, old in alike:
        where = f"{model} knows" if old in known else "there is also"
        join = " ".join(map(shlex.quote, ("votestream", "rename", str(model), new, old)))
        note(
            f"{new} is a new class, and {where} {old}: if they are the same, give both folders one name, or join the "
            f"classes afterwards by `{join}`."
        )
    if not alike or tell_only or not sys.stdin.isatty():
        return
    if not agreed(shown(f"Learn {some([new for new, _ in alike], 5)} as classes of their own?")):
        stop("Nothing was learned.", NOTHING)


def check_file(path: Path | None, suffix: str, option: str) -> None:
    """Complain about a place for a file, before anything is worked out; a photo is not overwritten by mistake."""
    if path is None:
        return
    if path.suffix.lower() != suffix:
        raise typer.BadParameter(f"{path} must be a file whose name ends in {suffix}", param_hint=option)
    if path.is_dir() or not path.parent.is_dir():
        why = "is a folder" if path.is_dir() else f"cannot be written: there is no folder {path.parent}"
        raise typer.BadParameter(f"{path} {why}", param_hint=option)


def name_skipped(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"Skipped: {shown(problem)}", err=True)


def _interrupted(lesson: Lesson, path: Path) -> str:
    if lesson.learned:
        return f"Interrupted: {_learned(lesson)} and saved. The same command goes on from there."
    state = f"{path} is as it was" if path.exists() else "there is no model yet"
    return f"Interrupted before anything was learned: {state}."


def _kept_parts(on: str, store: str | None) -> str:
    """What becomes of the work of a run by many workers that was interrupted."""
    if on == "here":
        return ""
    if store is None:
        return " With --store FOLDER the parts that were done would have been kept."
    return f" The parts that were done are in {store}: the same command goes on from there."


def _learned(lesson: Lesson) -> str:
    from votestream.photos.report import count

    photos, classes = sum(lesson.learned.values()), len(lesson.learned)
    return f"{count(photos, 'photo')} of {count(classes, 'class', 'classes')} learned"


def _summarise(lesson: Lesson, path: Path) -> None:
    from votestream.photos.report import memory_line, moved_lines, passed_over, report

    old = [label for label in lesson.learned if label not in lesson.new]
    lines = [] if lesson.corrected else ["There was nothing new to learn."]
    if lesson.learned:
        lines = [f"{_learned(lesson)} into {path}."]
    if lesson.new:
        lines.append(f"New, as task {lesson.task}: {some(lesson.new)}.")
    if old:
        lines.append(f"Old, with new photos: {some(sorted(old))}.")
    for line in (*lines, *moved_lines(lesson), passed_over(lesson), memory_line(report(path))):
        typer.echo(shown(line))
