"""The command `votestream`, with all its commands."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from votestream._version import __version__
from votestream.cli.bench import app as bench_app
from votestream.cli.cache import app as cache_app
from votestream.cli.corrections import app as corrections_app
from votestream.cli.data import app as data_app
from votestream.cli.evaluation import app as evaluation_app
from votestream.cli.export import app as export_app
from votestream.cli.labelstudio import app as labelstudio_app
from votestream.cli.photos import app as photos_app
from votestream.cli.serve import app as serve_app
from votestream.cli.stream import app as stream_app
from votestream.common.cores import wait_in_peace
from votestream.common.exits import Commands, check_out

app = typer.Typer(
    cls=Commands,
    help="Learn new classes from labelled photos at any time. Old classes keep working, and no photos are stored.",
    invoke_without_command=True,
    pretty_exceptions_show_locals=False,
)

app.add_typer(photos_app)
app.add_typer(evaluation_app)
app.add_typer(corrections_app)
app.add_typer(serve_app)
app.add_typer(export_app)
app.add_typer(labelstudio_app, name="label-studio")
app.add_typer(data_app, name="data")
app.add_typer(stream_app, name="stream")
app.add_typer(bench_app, name="bench")
app.add_typer(cache_app, name="cache")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"votestream {__version__}")
        raise typer.Exit


OVERVIEW = """\
VoteStream learns new classes from labelled photos. Add classes at any time; no photos are stored.

  votestream demo                                   show it in seconds, without a download
  votestream learn PHOTOS --model shop.safetensors  learn photos: PHOTOS holds one folder for each class
  votestream predict shop.safetensors NEW_PHOTOS    predict the class of new photos
  votestream evaluate shop.safetensors TEST_PHOTOS  test the model on other labelled photos
  votestream serve shop.safetensors                 learn and predict on a page in the browser

`votestream --help` lists all commands, `votestream learn --help` explains one."""


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn new classes from labelled photos at any time. Old classes keep working, and no photos are stored."""
    if context.invoked_subcommand is None:
        typer.echo(OVERVIEW)
    wait_in_peace()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The file of the plot.")] = Path("votestream-demo.png"),
    budget: Annotated[int, typer.Option(min=10, help="Number of feature vectors that CandidatesVoting keeps.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of classes and images.")] = 0,
) -> None:
    """Show how ten classes of real images are learned, two at a time (takes seconds, without a download).

    Example: votestream demo
    """
    from votestream.cli import demo as show  # imports torch

    console = Console()
    check_out(out)
    console.print(
        "Ten classes of CIFAR-10 arrive two at a time; each image is seen once.\n"
        f"CandidatesVoting stores at most {budget} feature vectors, GaussianVoting none. Neither stores images.\n"
    )
    outcome = show.run(console, seed, budget)
    show.report_memory(console, outcome)
    show.show_photos(console)
    if importlib.util.find_spec("matplotlib") is None:
        console.print("No plot was drawn: it needs matplotlib, pip install 'votestream\\[plots]'.")
        return
    show.plot(outcome, out)
    console.print(f"Curves and confusion matrices: [bold]{out}[/bold]")


if __name__ == "__main__":
    app()
