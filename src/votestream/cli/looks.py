"""How a backbone looks, as options of the commands that name one."""

from __future__ import annotations

from typing import Annotated

import typer

Views = Annotated[
    str | None,
    typer.Option(help="Looks at each image, averaged: 32,32m (mirrored),40; or careful, quick.", show_default="one"),
]
Stages = Annotated[
    str | None,
    typer.Option(help="Stages of the backbone side by side: 3:centre,4; or careful, quick.", show_default="the last"),
]
