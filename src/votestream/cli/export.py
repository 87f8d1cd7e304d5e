"""`votestream export`: the command that writes a model as an ONNX file or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from votestream.cli.options import Model, check_file
from votestream.common.exits import CODES, Refused
from votestream.common.printing import shown, size

app = typer.Typer()


@app.command(epilog=CODES)
def export(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The file to write: FILE.onnx, or with --page FILE.html.")],
    page: Annotated[
        bool, typer.Option("--page", help="Write a page that predicts photos and camera images in a browser.")
    ] = False,
    float16: Annotated[
        bool, typer.Option("--float16", help="Store weights as 16-bit numbers, in half the bytes.")
    ] = False,
    exact_size: Annotated[
        bool,
        typer.Option(
            "--exact-size", help="The exported model takes images of the network's size only; it does not resize."
        ),
    ] = False,
    runtime: Annotated[
        Path | None,
        typer.Option(
            help="A folder with the npm package onnxruntime-web, for --page.", show_default="fetched once, 33 MB"
        ),
    ] = None,
) -> None:
    """Export a model for use without Python: in browsers, on phones, from other languages.

    The exported model predicts as the model does now, and cannot be trained.

    Example: votestream export shop.safetensors shop.onnx
    """
    check_file(out, ".html" if page else ".onnx", "OUT")
    if page and exact_size:
        raise typer.BadParameter("cannot be used with --page, which resizes photos", param_hint="--exact-size")
    if runtime is not None and not page:
        raise typer.BadParameter("needs --page", param_hint="--runtime")
    from votestream.export import export_onnx, export_page
    from votestream.learners import load

    try:
        learner = load(model, "cpu")
        if page:
            export_page(learner, out, float16=float16, runtime=runtime)
        else:
            export_onnx(learner, out, float16=float16, resize=not exact_size)
    except (ValueError, ImportError, FileNotFoundError) as problem:
        text = str(problem)
        raise Refused(text if text.endswith(".") else f"{text}.") from None
    known = len(learner.classes_)
    what = "open it in a browser" if page else "docs/export.md shows how to use it"
    typer.echo(shown(f"{out}: {known:,} {'class' if known == 1 else 'classes'}, {size(out.stat().st_size)}; {what}."))
