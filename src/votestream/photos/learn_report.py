"""What `votestream learn` prints at its end, and with `--dry-run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from votestream.common.printing import shown
from votestream.images.class_folders import some
from votestream.photos.report import ROWS, count, memory_line, next_step_lines, quality_lines, report, say

if TYPE_CHECKING:
    from votestream.photos.training import LearnResult, MovedPhoto


def summary_lines(result: LearnResult, path: Path) -> list[str]:
    """What was learned, how good the model is now, and what to do next."""
    old = [label for label in result.learned if label not in result.new]
    lines = [] if result.corrected else ["There was nothing new to learn."]
    if result.learned:
        lines = [f"{learned_text(result)} into {path}."]
    if result.new:
        lines.append(f"New classes, in task {result.task}: {some(result.new)}.")
    if old:
        lines.append(f"Old classes with new photos: {some(sorted(old))}.")
    about = report(path)
    return [
        *lines,
        *moved_lines(result),
        counts_line(result),
        memory_line(about),
        *quality_lines(about),
        *next_step_lines(about),
    ]


def learned_text(result: LearnResult) -> str:
    photos, classes = sum(result.learned.values()), len(result.learned)
    return f"{count(photos, 'photo')} of {count(classes, 'class', 'classes')} learned"


def interrupted_line(result: LearnResult, path: Path) -> str:
    """What was done before Ctrl-C."""
    if result.learned:
        return f"Interrupted: {learned_text(result)} and saved. Run the same command to continue."
    state = f"{path} is unchanged" if path.exists() else "there is no model yet"
    return f"Interrupted before anything was learned: {state}."


def print_preview(result: LearnResult, path: Path, console: Console) -> None:
    """Print what `learn` would do, class by class."""
    labels = sorted({*result.learned, *result.known, *result.copies})
    table = Table("class", "to learn", "already known", "copies")
    for label in labels[:ROWS]:
        name = f"{label} (new class)" if label in result.new else label
        counts = result.learned.get(label, 0), result.known[label], result.copies[label]
        table.add_row(Text(shown(name)), *(f"{number:,}" for number in counts))
    console.print(table)
    if len(labels) > ROWS:
        say(console, f"And {len(labels) - ROWS:,} more classes.")
    photos, classes = count(sum(result.learned.values()), "photo"), count(len(result.learned), "class", "classes")
    would = (
        f"{photos} of {classes} would be learned into {path}." if result.learned else "There is nothing new to learn."
    )
    say(console, would)
    for line in moved_lines(result, would=True):
        say(console, line)
    say(console, counts_line(result))
    say(console, "Nothing was written. Not checked: whether every photo can be decoded completely.")


def moved_lines(result: LearnResult, would: bool = False) -> list[str]:
    """What was done with photos that were moved to another class folder."""
    lines = []
    if result.corrected:
        number, be = count(len(result.corrected), "photo"), "would be corrected" if would else "corrected"
        lines.append(f"Moved to another class, and {be}: {number}, {_moves(result.corrected)}.")
    if result.in_both:
        number, be = count(len(result.in_both), "photo"), "would count" if would else "count"
        older = "but no longer in the journal, so that they"
        lines.append(f"Moved to another class, {older} {be} in both: {number}, {_moves(result.in_both)}.")
    return lines


def _moves(moved: list[MovedPhoto]) -> str:
    return some([f"{each.photo.path} from {each.before} to {each.photo.label}" for each in moved], 3)


def counts_line(result: LearnResult) -> str:
    """How many photos were known, copies, or skipped."""
    copies = f" Identical copies: {result.copies.total():,}." if result.copies.total() else ""
    if result.twice.total():
        copies += f" Copies that several workers learned, which count twice: {result.twice.total():,}."
    return f"Already known: {count(result.known.total(), 'photo')}.{copies} Skipped: {len(result.problems):,}."
