"""`votestream cache`: see what the feature cache holds, and empty it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from votestream.common.exits import NOTHING, agreed, stop
from votestream.common.printing import size

# Backbones bring torch along, so they are imported by the commands: --help should not wait for it.
app = typer.Typer(help="List and clear the features kept on disk.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option(help="Another cache than VOTESTREAM_CACHE or the platform's.")]


@app.command("list")
def list_command(folder: Folder = None) -> None:
    """Show every entry: backbone, images, features, size on disk."""
    from votestream.backbones.cached_entries import list_cached
    from votestream.common.cache_folder import cache_folder

    entries = list_cached(folder)
    if not entries:
        typer.echo(f"Nothing is cached in {cache_folder(folder)}.")
        return
    table = Table("entry", "backbone", "images", "features", "size", "made")
    for entry in entries:
        part = "" if entry.done == entry.images else f"{entry.done} of "
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.created))
        table.add_row(
            entry.key[:12],
            entry.backbone,
            f"{part}{entry.images}",
            str(entry.feature_dim),
            size(entry.bytes),
            made,
        )
    Console().print(table)
    typer.echo(f"{size(sum(entry.bytes for entry in entries))} in {cache_folder(folder)}")


@app.command("clear")
def clear_command(
    backbone: Annotated[str | None, typer.Option(help="Only what this backbone made.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    folder: Folder = None,
) -> None:
    """Delete entries, all of them or one backbone's. What is being computed just now stays."""
    from votestream.backbones.cached_entries import clear_cached, list_cached
    from votestream.common.cache_folder import cache_folder

    chosen = [entry for entry in list_cached(folder) if backbone in (None, entry.backbone)]
    if not chosen:
        typer.echo(f"Nothing to clear in {cache_folder(folder)}.")
        return
    if not yes:
        total = size(sum(entry.bytes for entry in chosen))
        if not agreed(f"Delete {len(chosen)} entries, {total}, from {cache_folder(folder)}?"):
            stop("Nothing was deleted.", NOTHING)
    gone = clear_cached(backbone, folder)
    typer.echo(f"Deleted {len(gone)} entries, {size(sum(entry.bytes for entry in gone))}.")
