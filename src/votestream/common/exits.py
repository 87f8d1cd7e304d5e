"""How every command ends: one table of exit codes, and sentences in place of tracebacks and Python's warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from votestream.common.printing import shown

PARTLY, NOTHING, INTERRUPTED = 1, 2, 130  # 0 where all went well
CODES = (
    "Exit code: 0 all went well, 1 something was skipped, left out or failed (it is named), 2 nothing could be done, "
    "130 Ctrl-C."
)
# The file that is being read here: a library's warning about it does not name it.
READING: ContextVar[str] = ContextVar("READING", default="")


class Refused(Exception):
    """A sentence for the person at the terminal: why nothing could be done."""


class Commands(TyperGroup):
    """Commands that end as the table says, whatever stops them."""

    def invoke(self, ctx: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without the letters of a file's name
        try:
            with notes() as told:
                result = super().invoke(ctx)
        except Refused as problem:
            stop(f"votestream {ctx.invoked_subcommand}: {problem}", NOTHING)
        except BrokenPipeError:  # whoever was reading has gone: `votestream ... | head`
            raise
        except OSError as problem:
            stop(f"votestream {ctx.invoked_subcommand}: {_of_system(problem)}", NOTHING)
        except KeyboardInterrupt:
            stop("Interrupted.", INTERRUPTED)
        if told.left_out:
            raise typer.Exit(PARTLY)
        return result


@dataclass
class Told:
    """What the notes of a command have said."""

    texts: set[str] = field(default_factory=set)
    left_out: bool = False


@contextmanager
def notes() -> Iterator[Told]:
    """Warnings become lines on stderr, each once, without the file names and source lines that Python prints."""
    told = Told()

    def tell(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        told.left_out |= getattr(category, "left_out", False)
        text = " ".join(str(message).split())
        if (file := READING.get()) and file not in text:
            text = f"{file}: {text}"
        if text not in told.texts:
            told.texts.add(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for for_programmers in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", for_programmers)
        # A plot too large is skipped with a sentence of ours; Pillow warns of it besides.
        warnings.filterwarnings("ignore", "Image size .* exceeds limit")
        warnings.showwarning = tell
        yield told


def note(text: object) -> None:
    """Something to know, on stderr; nothing went wrong."""
    typer.echo(f"note: {shown(text)}", err=True)


def stop(sentence: object, code: int) -> NoReturn:
    typer.echo(shown(sentence), err=True)
    raise typer.Exit(code)


def agreed(question: str) -> bool:
    """A question answered by y or n; whoever presses Ctrl-C, or has nothing to say, has not agreed."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)
        return False


def check_out(out: Path) -> None:
    """Complain about a place that no file can be written to, before anything is worked out."""
    if not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}", param_hint="--out")
    if out.is_dir():
        raise typer.BadParameter(f"{out} is a folder: give the file a name", param_hint="--out")


def _of_system(problem: OSError) -> str:
    """What the system says, as a sentence.

    >>> _of_system(PermissionError(13, "Permission denied", "stream.png"))
    'stream.png: Permission denied.'
    """
    reason = (problem.strerror or str(problem)).rstrip(".")
    return f"{problem.filename}: {reason}." if problem.filename else f"{reason}."
