"""`votestream bench`: the commands that run benchmarks and make tables, plots and a report of the results."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from votestream.cli.bench_options import SuiteLength, backbone_digest, check_on, requested_suite, with_available_data
from votestream.cli.bench_results import (
    existing_results_folder,
    readable_rows,
    results_folder,
    suite_and_rows,
    suite_results,
)
from votestream.cli.data import DataDir
from votestream.cli.options import Stages, Views
from votestream.common.command_line import without_places
from votestream.common.exits import CODES, INTERRUPTED, PARTLY, Refused, check_out, stop
from votestream.common.extras import install_extra

# Learners and streams import torch, so the commands import them: --help does not wait for it.
if TYPE_CHECKING:
    pass

app = typer.Typer(
    help="Run benchmarks of methods on streams, and make tables, plots and a report.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="SUITE", help="A name from `votestream bench list`.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--results",
        help="The folder of the results, one CSV file for each suite. If there is none here, results "
        "are read from the checkout.",
        show_default="results",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", help="Show this metric (such as AAA, WC-Acc, BWT) instead of the suite's; may be repeated."
    ),
]
Validate = Annotated[bool, typer.Option("--validate", help="Test on a fifth of the training data, to choose settings.")]


class Format(StrEnum):
    md = "md"
    tex = "tex"
    csv = "csv"


@app.command("list")
def list_command(folder: Folder = None) -> None:
    """List the suites, their streams and methods, and how many rows of results there are.

    Example: votestream bench list
    """
    from votestream.bench.results import folder_here
    from votestream.bench.suites import all_suites

    table = Table("suite", "what", "streams", "methods", "rows")
    where = results_folder(folder) or folder_here()
    known = all_suites()
    read = {suite.name: readable_rows(suite.name, where) for suite in known}
    for suite in known:
        rows = read[suite.name]
        streams = "; ".join(stream.title for stream in suite.streams)
        there = "?" if rows is None else str(len(rows))
        methods = len({(method.label, method.Q) for method in suite.methods})
        table.add_row(suite.name, suite.title, streams, str(methods), there)
    Console().print(table)
    raise typer.Exit(PARTLY if None in read.values() else 0)


@app.command("run", epilog=CODES)
def run_command(
    name: Name,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; by default that of the suite.")] = None,
    first_seed: Annotated[int | None, typer.Option(min=0, help="The first seed; by default 0.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of runs at the same time; by default one per core.")
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            help="Where to run: on this machine (here), or on Ray (ray uses RAY_ADDRESS or this machine; or "
            "ray://HOST:10001)."
        ),
    ] = "here",
    device: Annotated[
        str,
        typer.Option(
            help="cpu, cuda, or auto: the GPU, if there is one, for methods that train a network; the CPU for others."
        ),
    ] = "auto",
    method: Annotated[
        list[str] | None,
        typer.Option(help="Only methods with this name or learner; * matches anything; may be repeated."),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these streams of the suite (* matches anything), or another one: module:function, or "
            "the name of a plug-in."
        ),
    ] = None,
    budget: Annotated[
        list[int] | None, typer.Option(min=1, help="Only this budget, of methods that have budgets; may be repeated.")
    ] = None,
    preset: Annotated[
        SuiteLength | None,
        typer.Option(help="short: methods that train on each task many times do a fifth of their passes."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Train on at most this many samples of each class; tests use all.")
    ] = None,
    anytime: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Also test after every N samples, for AAA, WC-Acc and prequential accuracy."
        ),
    ] = None,
    learner: Annotated[
        list[str] | None, typer.Option(help="An additional learner: module:Class, or a name for `votestream.create`.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of --learner; may be repeated.")
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="A backbone, instead of the suite's.")] = None,
    views: Views = None,
    stages: Stages = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed runs again.")] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Run all runs again, for example after you changed a learner; the new rows replace the old ones.",
        ),
    ] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(help="Also record runs and plot in mlflow, tensorboard or wandb; may be repeated."),
    ] = None,
    validate: Validate = False,
    folder: Folder = None,
    data_dir: DataDir = None,
) -> None:
    """Run the benchmarks that are not in the results yet. The same command continues a stopped one.

    Example: votestream bench run smoke
    """
    from votestream.bench.finding import looking
    from votestream.bench.logs import Logs
    from votestream.bench.results import folder_here
    from votestream.bench.runner import clock, run_all
    from votestream.bench.runs import key_of
    from votestream.common.validation import as_device
    from votestream.distributed.ray_cluster import ClusterError

    folder = folder or folder_here()
    try:
        check_on(on)
        if on == "here" or device != "cuda":  # a cluster may have the GPU that is not here
            as_device(device)
        suite = requested_suite(name, method, stream, budget, learner, settings, backbone, preset, limit, validate)
        suite = suite if anytime is None else replace(suite, anytime=anytime)
        suite = looking(suite, views, stages)
        asked_streams = len(suite.streams)
        suite = with_available_data(suite, data_dir)
        first = suite.first_seed if first_seed is None else first_seed
        if suite.chooses and first < suite.first_seed:
            raise ValueError(f"{name} chooses settings, on seeds from {suite.first_seed} on: tables have the others.")
        runs = list(suite.runs(backbone_digest(suite.backbone), range(first, first + (seeds or suite.seeds))))
        results = suite_results(name, folder, validate)
        results.rows()  # reports a file that cannot be continued before anything is run
        folder.mkdir(parents=True, exist_ok=True)
        logs = Logs(suite, log or [])
    except (ValueError, ImportError) as error:  # also a backbone whose package is missing
        raise Refused(str(error)) from error
    command = without_places("votestream", sys.argv[1:])
    where = None if data_dir is None else str(data_dir)
    try:
        how: dict[str, Any] = {"on": on, "jobs": jobs, "device": device, "data_dir": where}
        progress = run_all(runs, results, retry=retry, again=again, command=command, log=logs.add, **how)
        logs.finish(results.rows())
    except (ImportError, ClusterError) as error:
        raise Refused(str(error)) from error
    except KeyboardInterrupt:
        ended = f"What has ended is in {results.path}" if results.path.exists() else "No run had ended yet"
        stop(f"Interrupted. {ended}; run the same command to continue.", INTERRUPTED)
    there = f"{progress.done_before} of {progress.total} runs were done before, " if progress.done_before else ""
    typer.echo(f"{there}{progress.done} done in {clock(progress.seconds)}: {results.path}")
    if progress.elsewhere:
        typer.echo(f"{progress.elsewhere} more were done, or are running, in another process.")
    asked = {run.key for run in runs}
    failed = [row for row in results.rows() if row["error"] and key_of(row) in asked]
    if failed:
        typer.echo(f"{len(failed)} of them failed; `--retry` runs them again.", err=True)
    if failed or len(suite.streams) < asked_streams:
        raise typer.Exit(PARTLY)


@app.command("show", epilog=CODES)
def show_command(name: Name, metric: Metrics = None, validate: Validate = False, folder: Folder = None) -> None:
    """Print the tables of a suite in the terminal.

    Example: votestream bench show smoke
    """
    from votestream.bench.tables import blocks, body, failures, header, note

    suite, rows = suite_and_rows(name, existing_results_folder(folder), validate, metric)
    console = Console()
    for block in blocks(suite, rows):
        first, *others = header(block)
        console.print(f"{suite.title}: {block.stream}", style="italic", markup=False, highlight=False)
        table = Table(box=SIMPLE_HEAD, padding=0)
        table.add_column(first, overflow="fold", min_width=10)
        for column in others:
            table.add_column(column.replace("difference", "differs"), justify="right")
        for line in body(block):
            table.add_row(*map(Text, line))
        console.print(table)
    typer.echo(note(suite))
    versions = sorted({row["version"] for row in rows if row["version"]})
    if len(versions) > 1:
        typer.echo(f"Rows of versions {', '.join(versions)} are together here; `run --again` makes new ones.")
    for failure in failures(suite, rows):
        typer.echo(f"Failed: {failure}")


@app.command("table", epilog=CODES)
def table_command(
    name: Name,
    format: Annotated[Format, typer.Option(help="md, tex (booktabs) or csv (one line for each cell).")] = Format.md,
    metric: Metrics = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; by default the table is printed.")] = None,
    validate: Validate = False,
    folder: Folder = None,
) -> None:
    """Write the tables of a suite: our results with intervals, the paper's results, and the difference.

    Example: votestream bench table online --format tex --out online.tex
    """
    from votestream.bench.tables import FORMATS

    suite, rows = suite_and_rows(name, existing_results_folder(folder), validate, metric)
    _write(FORMATS[format.value](suite, rows), out)


@app.command("plot", epilog=CODES)
def plot_command(
    names: Annotated[list[str], typer.Argument(metavar="SUITE...", help="One or more suites, drawn in one figure.")],
    kind: Annotated[
        str | None, typer.Option(help="The kind of plot, instead of the suite's: curves, bytes, rates, paper, ...")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file of the plot; by default SUITE.png, named after the first suite.")
    ] = None,
    validate: Validate = False,
    folder: Folder = None,
) -> None:
    """Plot the results of a suite. --kind paper shows the paper's results beside ours.

    Example: votestream bench plot online --out online.png
    """
    import importlib.util

    where = existing_results_folder(folder)
    found = [suite_and_rows(name, where, validate) for name in names]
    found = [(suite if kind is None else replace(suite, plot=kind), rows) for suite, rows in found]
    out = out or Path(f"{names[0]}.png")
    check_out(out)
    out = out if out.suffix else out.with_suffix(".png")
    if importlib.util.find_spec("matplotlib") is None:
        raise Refused(f"Drawing needs matplotlib: {install_extra('plots')}.")
    from votestream.bench.plot import plot_suites

    try:
        plot_suites(found, out)
    except ValueError as error:
        raise Refused(str(error)) from error
    typer.echo(f"Plot: {out}")


@app.command("report", epilog=CODES)
def report_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SUITE]...", help="By default all suites that have results.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file of the page.")] = Path("report.html"),
    folder: Folder = None,
) -> None:
    """Write a page with all tables and plots, in a single file.

    Example: votestream bench report --out report.html
    """
    from votestream.bench.report import page
    from votestream.bench.suites import all_suites

    check_out(out)
    where, left_out = existing_results_folder(folder), False
    if names:
        found = [suite_and_rows(name, where, False) for name in names]
    else:
        read = [(suite, readable_rows(suite.name, where)) for suite in all_suites()]
        found = [(suite, rows) for suite, rows in read if rows]
        left_out = any(rows is None for _, rows in read)
    if not found:
        raise Refused(f"There are no results in {where}: `votestream bench run smoke` makes some.")
    _write(page(found), out)
    typer.echo(f"Report: {out}")
    raise typer.Exit(PARTLY if left_out else 0)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    check_out(out)
    out.write_text(text, encoding="utf-8")
