"""`votestream stream`: the commands that describe a stream, as text and as a plot."""

from __future__ import annotations

import importlib.util
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from votestream.cli.data import DataDir
from votestream.common.exits import CODES, Refused, check_out
from votestream.common.extras import install_extra
from votestream.images.class_folders import some

# Imported by the commands, so that --help does not wait for NumPy and Pillow.
if TYPE_CHECKING:
    from votestream.streams.tasks import Stream

app = typer.Typer(help="Show the classes of a stream, their order, and their share over time.", no_args_is_help=True)
TASKS, CLASSES = 100, 50  # lines, and names in a line: folders may have thousands of classes

STREAMS = ("core50-nc", "folder:PATH", "sample", "split-cifar10", "split-cifar100", "tiny-imagenet")
Name = Annotated[str, typer.Argument(help=f"One of {', '.join(STREAMS)}, or the name of a plug-in.")]
Tasks = Annotated[int | None, typer.Option(min=1, help="Number of tasks; by default the usual one of the data set.")]
Seed = Annotated[int, typer.Option(min=0, help="Order of classes and samples.")]
Batch = Annotated[int, typer.Option(min=1, help="Samples in a mini-batch.")]
Order = Annotated[int | None, typer.Option(help="The seed of a published class order, such as 1993.")]
Blurry = Annotated[float | None, typer.Option(help="Share of each task's samples that arrive in neighbouring tasks.")]
Repeated = Annotated[float | None, typer.Option(help="Share of each task's samples that arrive in later tasks.")]
LongTail = Annotated[float | None, typer.Option(help="How many times rarer the rarest class is.")]
OneClass = Annotated[bool, typer.Option("--one-class", help="One class at a time within each task.")]
TaskFree = Annotated[int | None, typer.Option(min=1, help="A stream without task boundaries, with this many tests.")]
Size = Annotated[int | None, typer.Option(min=1, help="Resize images to this many pixels, for folder:PATH.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not check whether the folders in PATH are the classes.")]


@app.command("show", epilog=CODES)
def show_command(
    name: Name, tasks: Tasks = None, seed: Seed = 0, batch: Batch = 10, order: Order = None, blurry: Blurry = None,
    repeated: Repeated = None, long_tail: LongTail = None, one_class: OneClass = False, task_free: TaskFree = None,
    size: Size = None, yes: Yes = False, data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Print the tasks of a stream and the order of its classes.

    Example: votestream stream show sample --tasks 5
    """
    made = _made(
        name, tasks, seed, batch, order, blurry, repeated, long_tail, one_class, task_free, size, yes, data_dir
    )  # fmt: skip
    typer.echo(str(made))
    for task in islice(made, TASKS):
        typer.echo(f"{task.number + 1}: {task.n_samples:,} samples, new classes {some(task.new_classes, CLASSES)}")
    if len(made) > TASKS:
        typer.echo(f"And {len(made) - TASKS:,} more tasks.")


@app.command("plot", epilog=CODES)
def plot_command(
    name: Name, out: Annotated[Path, typer.Option(help="The file of the plot.")] = Path("stream.png"),
    tasks: Tasks = None, seed: Seed = 0, batch: Batch = 10, order: Order = None, blurry: Blurry = None,
    repeated: Repeated = None, long_tail: LongTail = None, one_class: OneClass = False, task_free: TaskFree = None,
    size: Size = None, yes: Yes = False, data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Plot the share of each class over time.

    Example: votestream stream plot sample --blurry 0.1 --out stream.png
    """
    check_out(out)
    if importlib.util.find_spec("matplotlib") is None:
        raise Refused(f"Drawing needs matplotlib: {install_extra('plots')}.")
    made = _made(
        name, tasks, seed, batch, order, blurry, repeated, long_tail, one_class, task_free, size, yes, data_dir
    )  # fmt: skip
    from votestream.streams.plot import plot_stream

    plot_stream(made, out)
    typer.echo(f"{made}\nPlot: {out}")


def _made(
    name: str, tasks: int | None, seed: int, batch: int, order: int | None, blur: float | None, repeat: float | None,
    tail: float | None, one_class: bool, free: int | None, size: int | None, yes: bool, data_dir: Path | None,
) -> Stream:  # fmt: skip
    """Make the stream with all options, in the order in which they combine."""
    from votestream.streams import blurry, long_tail, one_class_at_a_time, repeated, stream, task_free

    if size is not None and not name.startswith("folder:"):
        raise typer.BadParameter("works with folder:PATH only", param_hint="--size")
    options: dict[str, Any] = {}
    if name.startswith("folder:"):
        options = {"size": size, "any_size": size is None, "nested": yes}
    try:
        made = stream(name, tasks=tasks, seed=seed, batch=batch, order=order, data_dir=data_dir, **options)
        made = made if tail is None else long_tail(made, tail)
        made = made if repeat is None else repeated(made, repeat)
        made = made if blur is None else blurry(made, blur)
        made = one_class_at_a_time(made) if one_class else made
        return made if free is None else task_free(made, free)
    except ValueError as error:
        raise Refused(str(error)) from error
