"""The results that `votestream bench` reads and writes: the folder, a suite's file and its rows."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from votestream.common.exits import Refused, note

# Learners and streams import torch, so the functions import them: --help does not wait for it.
if TYPE_CHECKING:
    from votestream.bench.results import Results
    from votestream.bench.runs import Suite


def suite_results(name: str, folder: Path, validate: bool) -> Results:
    """The results file of a suite."""
    from votestream.bench.results import Results

    return Results(folder / f"{name}{'_validation' if validate else ''}.csv")


def results_folder(folder: Path | None) -> Path | None:
    """The folder of results to read: the given one, `results` here, or the checkout's; None if there is none."""
    from votestream.bench.results import checkout_results, folder_here

    if folder is not None or folder_here().is_dir():
        return folder or folder_here()
    found = checkout_results()
    if found is not None:
        note(f"results are read from {found}: there are none in this folder.")
    return found


def existing_results_folder(folder: Path | None) -> Path:
    """The folder of results to read; raises Refused if there is none."""
    found = results_folder(folder)
    if found is None:
        raise Refused(
            "There is no folder `results` here, and votestream is not installed from a checkout, which has one: go to "
            "the folder that holds it, name it by --results, or make results by `votestream bench run smoke`."
        )
    return found


def readable_rows(name: str, folder: Path) -> list[dict[str, str]] | None:
    """The rows of a suite; prints the reason and returns None if the file cannot be read."""
    try:
        return suite_results(name, folder, False).rows()
    except (ValueError, OSError) as error:
        typer.echo(f"Left out: {error}", err=True)
        return None


def suite_and_rows(
    name: str, folder: Path, validate: bool, metrics: list[str] | None = None
) -> tuple[Suite, list[dict[str, str]]]:
    """A suite and its rows; raises Refused, with the command that makes them, if there are none."""
    from votestream.bench.metrics import find_metric
    from votestream.bench.results import checkout_results, folder_here
    from votestream.bench.suites import find_suite

    try:
        suite, results = find_suite(name), suite_results(name, folder, validate)
        for metric in metrics or suite.metrics:
            find_metric(metric)
        rows = results.rows()
    except ValueError as error:
        raise Refused(str(error)) from error
    if not rows:
        where = "" if folder == folder_here() else f" --results {shlex.quote(str(folder))}"
        command = f"votestream bench run {name}{' --validate' if validate else ''}{where}"
        theirs = checkout_results()
        others = f" The checkout's are in {theirs}: name it by --results." if theirs and folder == folder_here() else ""
        raise Refused(f"There are no rows in {results.path}: `{command}` makes them.{others}")
    return replace(suite, held_out=validate, metrics=tuple(metrics or suite.metrics)), rows
