"""`votestream data`: the commands that list and download data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from votestream.common.exits import CODES, Refused
from votestream.common.printing import size

# Imported by the commands, so that --help does not wait for NumPy and Pillow.
if TYPE_CHECKING:
    from votestream.streams.catalogue import Source

app = typer.Typer(help="List and download the public data sets of the benchmarks.", no_args_is_help=True)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="The folder of data sets, instead of VOTESTREAM_DATA or the cache folder."),
]


@app.command("list")
def list_command(data_dir: DataDir = None) -> None:
    """List the data sets: classes, images, download size, size on disk, terms and citation.

    Example: votestream data list
    """
    from votestream.streams.catalogue import SOURCES, data_folder

    root = data_folder(data_dir)
    table = Table("name", "classes", "images", "to fetch", "here")
    for source in SOURCES.values():
        to_fetch = size(sum(archive.bytes for archive in source.archives))
        table.add_row(source.name, str(source.classes), source.images, to_fetch, _here(source, root))
    Console().print(table)
    typer.echo(f"Data sets are read from {root}. `folder:PATH` makes a stream of your own image folders.\n")
    for source in SOURCES.values():
        typer.echo(f"{source.name}: {source.title}. Terms: {source.terms}.\n  {source.citation}")


@app.command("get", epilog=CODES)
def get_command(
    name: Annotated[str, typer.Argument(help="A name from `votestream data list`.")], data_dir: DataDir = None
) -> None:
    """Download a data set from its official address, check it and unpack it. The same command continues a stopped one.

    Example: votestream data get cifar100
    """
    from votestream.streams.catalogue import data_folder, find_source, how_to_get
    from votestream.streams.data_set import DataError
    from votestream.streams.get import get_data

    root = data_folder(data_dir)
    try:
        source = find_source(name)
        typer.echo(f"{source.title}. Terms: {source.terms}.")
        new = get_data(name, root)
    except DataError as error:
        raise Refused(f"{error} By hand: {how_to_get(source, root).partition('or ')[2]}.") from error
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error
    typer.echo("\n".join(f"{folder} is ready." for folder in new) or f"{name} is in {root} already.")


def _here(source: Source, root: Path) -> str:
    from votestream.streams.catalogue import missing

    absent = missing(source, root)
    if not absent:
        folders = (root / archive.folder for archive in source.archives)
        return f"yes, {size(sum(path.stat().st_size for folder in folders for path in folder.rglob('*')))}"
    parts = [root / f"{archive.file}.part" for archive in absent]
    begun = sum(part.stat().st_size for part in parts if part.exists())
    if begun:
        return f"{size(begun)} of {size(sum(archive.bytes for archive in absent))} fetched"
    return "no" if len(absent) == len(source.archives) else f"without {absent[0].folder}"
