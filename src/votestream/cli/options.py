"""Options and arguments that several commands share, and checks of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from votestream.common.printing import shown


class PresetName(StrEnum):
    """Views and stages that go together."""

    careful = "careful"
    quick = "quick"


Model = Annotated[Path, typer.Argument(help="The model file.", show_default=False)]
PresetOption = Annotated[
    PresetName | None,
    typer.Option(
        "--preset",
        help="careful: more accurate, several times slower; quick: faster. Sets --views and --stages; only for a new "
        "model.",
        show_default="by the images' size",
    ),
]
Views = Annotated[
    str | None,
    typer.Option(
        help="Sizes in which each image is read, averaged, such as 32,32m,40 (m: mirrored); or careful, quick.",
        show_default="one",
    ),
]
Stages = Annotated[
    str | None,
    typer.Option(
        help="Stages of the backbone whose features are used, such as 3:centre,4; or careful, quick.",
        show_default="the last",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="Where the backbone computes: auto, cpu or cuda.", show_default="auto")
]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Skip photos with more pixels; JPEGs may have 3 times as many.", show_default="70000000"),
]
LearnerName = Annotated[str | None, typer.Option(help="The learner of a new model.", show_default="gaussian_voting")]
Budget = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of exemplars of a new model, if its learner keeps exemplars.", show_default="2000"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def check_file(path: Path | None, suffix: str, option: str) -> None:
    """Refuse an output path before any work is done; the suffix protects photos from being overwritten by mistake."""
    if path is None:
        return
    if path.suffix.lower() != suffix:
        raise typer.BadParameter(f"{path} must be a file whose name ends in {suffix}", param_hint=option)
    if path.is_dir() or not path.parent.is_dir():
        why = "is a folder" if path.is_dir() else f"cannot be written: there is no folder {path.parent}"
        raise typer.BadParameter(f"{path} {why}", param_hint=option)


def print_skipped(problems: list[str]) -> None:
    """Name each skipped file on stderr."""
    for problem in problems:
        typer.echo(f"Skipped: {shown(problem)}", err=True)
