"""`votestream cache`: the commands that list and delete cached features."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from votestream.common.exits import NOTHING, agreed, stop
from votestream.common.printing import size

# Backbones import torch, so the commands import them: --help does not wait for it.
app = typer.Typer(help="List and delete the features cached on disk.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option(help="The cache folder, instead of VOTESTREAM_CACHE or the platform's.")]


@app.command("list")
def list_command(folder: Folder = None) -> None:
    """List the cached features: backbone, images, features, size on disk.

    Example: votestream cache list
    """
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
    backbone: Annotated[str | None, typer.Option(help="Only the features of this backbone.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    folder: Folder = None,
) -> None:
    """Delete cached features, all or those of one backbone. Features that are being computed now are kept.

    Example: votestream cache clear --backbone reduced_resnet18
    """
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
