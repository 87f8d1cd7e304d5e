"""`votestream data`: see which data sets are known and here, and fetch them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from votestream.common.exits import CODES, Refused
from votestream.common.printing import size

# Imported by the commands: --help should not wait for NumPy and Pillow.
if TYPE_CHECKING:
    from votestream.streams.catalogue import Source

app = typer.Typer(help="List and fetch the data sets of the field.", no_args_is_help=True)

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where data sets lie, if not in VOTESTREAM_DATA or the cache folder.")
]


@app.command("list")
def list_command(data_dir: DataDir = None) -> None:
    """Show every data set: classes, images, size, whether it is here and what it takes up, terms, citation."""
    from votestream.streams.catalogue import SOURCES, data_folder

    root = data_folder(data_dir)
    table = Table("name", "classes", "images", "to fetch", "here")
    for source in SOURCES.values():
        to_fetch = size(sum(archive.bytes for archive in source.archives))
        table.add_row(source.name, str(source.classes), source.images, to_fetch, _here(source, root))
    Console().print(table)
    typer.echo(f"Data sets are looked for in {root}. `folder:PATH` makes a stream of image folders of your own.\n")
    for source in SOURCES.values():
        typer.echo(f"{source.name}: {source.title}. Terms: {source.terms}.\n  {source.citation}")


@app.command("get", epilog=CODES)
def get_command(
    name: Annotated[str, typer.Argument(help="As `votestream data list` has it.")], data_dir: DataDir = None
) -> None:
    """Fetch a data set from its official address, check it and unpack it. Goes on where it was interrupted."""
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
