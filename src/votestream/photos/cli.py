"""`votestream learn`, `predict` and `inspect`: for people with folders of photos."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from votestream.photos.finding import PhotoError, offer
from votestream.photos.sidecar import sidecar_of
from votestream.printing import shown

# Whatever brings the network along is imported by the command that runs it: --help should not wait for it.
if TYPE_CHECKING:
    from votestream.photos.learning import Lesson

app = typer.Typer()
SKIPPED, REFUSED, INTERRUPTED = 1, 2, 130
CODES = "Exit code: 0 all went well, 1 something was skipped (it is named), 2 nothing could be done, 130 Ctrl-C."

Model = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda.", show_default="auto")]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Skip larger photos; JPEGs may have 3 times as many.", show_default="70000000"),
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command(epilog=CODES)
def learn(
    photos: Annotated[Path, typer.Argument(help="A folder that holds one folder of photos for each class.")],
    model: Annotated[Path, typer.Option(help="The model file; it is made, or goes on learning.")],
    backbone: Annotated[
        str | None,
        typer.Option(help="What looks at the photos; only for a new model.", show_default="reduced_resnet18"),
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="What learns; only for a new model.", show_default="gaussian_voting")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="Exemplars kept, by learners that keep any; only for a new model.", show_default="2000"
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="A name for the task that this run's new classes form.", show_default="run N")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Order of the photos, and what a new model draws.")] = 0,
    device: Device = None,
    max_pixels: MaxPixels = None,
) -> None:
    """Learn the photos below a folder, one folder a class. Run it again when there are new ones, and it goes on.

    No photo is kept, and none is learned twice: MODEL.learned holds digests.
    Stop it whenever you like: the same command goes on where it was.
    """
    with _plain_words("learn"):
        found = offer(photos, ignore=(model, sidecar_of(model)))
        from votestream.photos.learning import teach

        settings = {"backbone": backbone, "learner": learner, "budget": budget, "device": device}
        settings["max_pixels"] = max_pixels
        lesson = teach(model, found, settings, task or None, seed)
    if lesson.interrupted:
        _stop(f"Interrupted: {_learned(lesson)} and saved. The same command goes on from there.", INTERRUPTED)
    _name_skipped(lesson.problems)
    if lesson.model is None:
        _stop(f"No photo could be read, so there is no model {shown(model)}.", REFUSED)
    _summarise(lesson, model)
    raise typer.Exit(SKIPPED if lesson.problems else 0)


@app.command(epilog=CODES)
def predict(
    model: Model,
    files: Annotated[list[Path], typer.Argument(help="Photos, and folders of photos.", show_default=False)],
    as_json: Json = False,
    device: Device = None,
    max_pixels: MaxPixels = None,
) -> None:
    """Say what is on each photo, how sure the model is, and how the vote fell; --json prints an object a line."""
    with _plain_words("predict"):
        from votestream.photos.answering import answers, files_in
        from votestream.photos.opening import load_on_photos

        asked = load_on_photos(model, device)
        if max_pixels is not None:
            asked.backbone_.max_pixels = max_pixels
        paths, problems = files_in(files)
        for answer in answers(asked, paths):
            if answer.problem:
                problems.append(answer.problem)
            elif as_json:
                typer.echo(json.dumps({"file": str(answer.path), **(answer.numbers or {})}))
            else:
                typer.echo(f"{shown(answer.path)}: {shown(answer.words)}")
    _name_skipped(problems)
    raise typer.Exit(SKIPPED if problems else 0)


@app.command()
def inspect(model: Model, as_json: Json = False) -> None:
    """Show what a model holds: classes, tasks, counts, settings, and its memory against that of the images."""
    with _plain_words("inspect"):
        from rich.console import Console

        from votestream.photos.report import print_report, report

        about = report(model)
    if as_json:
        typer.echo(json.dumps(about))
    else:
        print_report(about, Console())


@contextmanager
def _plain_words(command: str) -> Iterator[None]:
    """What stops a command becomes one sentence and an exit code, whatever state it was in."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without the letters of a file's name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of decoders, about oddities in files that they read nonetheless
            yield
    except PhotoError as problem:
        _stop(f"votestream {command}: {shown(problem)}", REFUSED)
    except KeyboardInterrupt:
        _stop("Interrupted.", INTERRUPTED)


def _stop(sentence: str, code: int) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def _name_skipped(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"Skipped: {shown(problem)}", err=True)


def _learned(lesson: Lesson) -> str:
    from votestream.photos.report import count

    photos, classes = sum(lesson.learned.values()), len(lesson.learned)
    return f"{count(photos, 'photo')} of {count(classes, 'class', 'classes')} learned"


def _summarise(lesson: Lesson, path: Path) -> None:
    from votestream.photos.report import count, memory_line, report

    old = [label for label in lesson.learned if label not in lesson.new]
    lines = [f"{_learned(lesson)} into {path}." if lesson.learned else "There was nothing new to learn."]
    if lesson.new:
        lines.append(f"New, as task {lesson.task}: {', '.join(lesson.new)}.")
    if old:
        lines.append(f"Old, with new photos: {', '.join(sorted(old))}.")
    lines.append(f"Already known: {count(lesson.known, 'photo')}. Skipped: {len(lesson.problems)}.")
    about: dict[str, Any] = report(path)
    kept, budget = about["exemplars"], about["settings"].get("budget")
    if kept is not None and budget is not None and len(about["classes"]) > budget:
        lines.append(f"There are more classes than the budget of {budget} exemplars: later classes go without.")
    lines.append(memory_line(about))
    for line in lines:
        typer.echo(shown(line))
