"""A progress bar that tells images a second, where somebody is watching."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Speed(ProgressColumn):
    """Images (or whatever is counted) a second, without what an earlier run had done already."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} {self._unit}/s" if task.speed else "")


@contextmanager
def progress_bar(
    what: str, total: int | None, done: int = 0, show: bool | None = None, unit: str = "images"
) -> Iterator[Callable[[int], None]]:
    """Yield a function to be told of each so many images that are finished; `total` is None where nobody knows it.

    Example:
        >>> with progress_bar("reduced_resnet18", total=3, show=False) as advance:
        ...     advance(3)
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Speed(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not _shown(console, show)) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda count: bar.advance(task, count)


def note(text: str, show: bool | None = None) -> None:
    """Tell the person at the terminal, if there is one."""
    console = Console(stderr=True)
    if _shown(console, show):
        console.print(text, markup=False)  # brackets in a name or an address are meant


def _shown(console: Console, show: bool | None) -> bool:
    return console.is_terminal if show is None else show
