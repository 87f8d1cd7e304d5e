"""What a model file holds, told without its backbone: classes, tasks, counts, memory, settings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from votestream.common.printing import shown, size
from votestream.core.registry import from_parts
from votestream.images.class_folders import some
from votestream.io.model_files import read
from votestream.model_store.journal import lessons_in
from votestream.photos.finding import PhotoError
from votestream.photos.opening import as_sentence
from votestream.photos.sidecar import journal_of
from votestream.tracking.report import Score

if TYPE_CHECKING:
    from votestream.photos.learning import Lesson, Moved

ROWS = 40  # classes in a table; there may be thousands


def report(path: Path) -> dict[str, Any]:
    """Everything worth knowing about a model file, fit for JSON."""
    try:
        header, arrays = read(path)
        inner = header.get("inner", header)  # of an ImageClassifier: the learner behind the backbone
        learner = from_parts(path, inner, arrays, device="cpu")
    except (ValueError, OSError) as problem:
        raise PhotoError(as_sentence(problem)) from None
    classes, tasks = learner.classes_.tolist(), learner.task_of_class_.tolist()
    counts = learner.class_counts_.tolist() if hasattr(learner, "class_counts_") else [None] * len(classes)
    exemplars = getattr(learner, "exemplars_", None)
    kept = None if exemplars is None else Counter(exemplars.labels.tolist())
    ranks = learner.ranks_.tolist() if hasattr(learner, "ranks_") else [None] * len(classes)
    learned = None if None in counts else sum(counts)
    backbone = header.get("backbone")
    side = (backbone or {}).get("input_size")
    return {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        "version": header.get("version"),
        "learner": inner["learner"],
        "settings": inner.get("params", {}),
        "backbone": backbone,
        "n_features": learner.n_features_in_,
        "tasks": learner.tasks_,
        "classes": [
            {
                "label": label,
                "task": task,
                "learned": count,
                "exemplars": None if kept is None else kept[label],
                "directions": rank,
            }
            for label, task, count, rank in zip(classes, tasks, counts, ranks, strict=True)
        ],
        "learned": learned,
        "exemplars": None if kept is None else kept.total(),
        "exemplars_are": None if exemplars is None else "features" if exemplars.features.ndim == 2 else "pixels",
        "waiting": len(arrays.get("pending.rows", ())),
        "holds_all": not learner.bounded,
        "journal": lessons_in(journal_of(path)),
        "track_record": learner.track_record().to_dict() if getattr(learner, "track", False) else None,
        "memory_bytes": learner.memory_bytes(),
        "images_bytes": learned * side * side * 3 if learned and side else None,
    }


def print_report(about: dict[str, Any], console: Console) -> None:
    rows, tasks = about["classes"], about["tasks"]
    what = "photos" if about["backbone"] else "samples"
    told = {"learned": what, "exemplars": "exemplars", "directions": "directions"}
    told = {key: heading for key, heading in told.items() if rows[0][key] is not None}
    table = Table("class", "task", *told.values())
    for row in rows[:ROWS]:
        # Text, because a name in brackets would be taken for a style.
        names = Text(shown(row["label"])), Text(shown(task_name(tasks, row["task"])))
        table.add_row(*names, *(str(row[key]) for key in told))
    held = f"{count(len(rows), 'class', 'classes')} in {count(len(tasks), 'task')}"
    if about["learned"] is not None:
        held += f", {about['learned']:,} {what} learned"
    say(console, f"{about['file']}: {held}")
    console.print(table)
    if len(rows) > ROWS:
        say(console, f"And {len(rows) - ROWS:,} more classes: --json lists them all.")
    if about["backbone"]:
        say(console, backbone_line(about["backbone"]))
    say(console, f"Learner: {about['learner']} on {about['n_features']} features, by VoteStream {about['version']}")
    say(console, f"Settings: {', '.join(f'{name}={value}' for name, value in about['settings'].items())}")
    for line in track_lines(about["track_record"]):
        say(console, line)
    say(console, kept_line(about))
    if about["backbone"]:
        say(console, journal_line(about))
    say(console, memory_line(about))


def backbone_line(backbone: dict[str, Any]) -> str:
    looks = "".join(f", {key} {','.join(backbone[key])}" for key in ("views", "stages") if backbone.get(key))
    return f"Backbone: {backbone['name']}{looks}, digest {backbone['digest'][:12]}"


def track_lines(record: dict[str, Any] | None) -> list[str]:
    """How good the model is, by tests on each sample before it was learned."""
    if record is None:
        return []
    so_far, lately = (Score(**record[name]) for name in ("so_far", "lately"))
    lines = [f"Accuracy, each tested before it was learned: {so_far}; the newest: {lately}"]
    for each in record["confusions"][:3]:
        lines.append(f"  {each['label']} was taken for {each['taken_for']}: {count(each['times'], 'time')}")
    for each in record["drift"]:
        lines.append(f"  {each['label']} has changed ({each['sign']}) since sample {each['since']:,}")
    return lines


def kept_line(about: dict[str, Any]) -> str:
    """Whether features of single samples can be found in the file."""
    one = "photo" if about["backbone"] else "sample"
    if about["holds_all"]:
        return f"Kept: the features of every single {one}."
    if about["exemplars"]:
        exemplars = count(about["exemplars"], "exemplar")
        return f"Kept: statistics of the classes, and {exemplars}, each the {about['exemplars_are']} of one {one}."
    if about["waiting"]:
        return (
            f"Kept: statistics of the classes, and the features of {count(about['waiting'], one)} waiting to join them."
        )
    line = f"Kept: statistics of the classes; no {one}, and no single {one}'s features"
    few = [str(row["label"]) for row in about["classes"] if (row["learned"] or 3) <= 2]
    if few:
        line += f", though classes of one or two {one}s give them away: {some(few)}"
    return f"{line}."


def journal_line(about: dict[str, Any]) -> str:
    """What lies beside the model, and how to be rid of it."""
    if about["journal"] is None:
        return "Journal: none."
    name, photos = journal_of(Path(about["file"])).name, count(about["journal"], "photo")
    return (
        f"Journal: the features of the newest {photos}, in {name}, and the model before them; `votestream undo` takes "
        "photos back, `votestream learn --journal 0` keeps none."
    )


def print_trial(lesson: Lesson, path: Path, console: Console) -> None:
    """What `learn` would do, class by class."""
    labels = sorted({*lesson.learned, *lesson.known, *lesson.copies})
    table = Table("class", "to learn", "already known", "copies")
    for label in labels[:ROWS]:
        name = f"{label} (new class)" if label in lesson.new else label
        counts = lesson.learned.get(label, 0), lesson.known[label], lesson.copies[label]
        table.add_row(Text(shown(name)), *(f"{number:,}" for number in counts))
    console.print(table)
    if len(labels) > ROWS:
        say(console, f"And {len(labels) - ROWS:,} more classes.")
    photos, classes = count(sum(lesson.learned.values()), "photo"), count(len(lesson.learned), "class", "classes")
    would = (
        f"{photos} of {classes} would be learned into {path}." if lesson.learned else "There is nothing new to learn."
    )
    say(console, would)
    for line in moved_lines(lesson, would=True):
        say(console, line)
    say(console, passed_over(lesson))
    say(console, "Nothing was written. Not checked: whether every photo can be decoded to its end.")


def moved_lines(lesson: Lesson, would: bool = False) -> list[str]:
    """What became of photos that were moved to another class folder."""
    lines = []
    if lesson.corrected:
        number, be = count(len(lesson.corrected), "photo"), "would be corrected" if would else "corrected"
        lines.append(f"Moved to another class, and {be}: {number}, {_moves(lesson.corrected)}.")
    if lesson.in_both:
        number, be = count(len(lesson.in_both), "photo"), "would count" if would else "count"
        beyond = "longer ago than the journal reaches, so that they"
        lines.append(f"Moved to another class {beyond} {be} in both: {number}, {_moves(lesson.in_both)}.")
    return lines


def _moves(moved: list[Moved]) -> str:
    return some([f"{each.photo.path} from {each.before} to {each.photo.label}" for each in moved], 3)


def passed_over(lesson: Lesson) -> str:
    copies = f" Identical copies: {lesson.copies.total():,}." if lesson.copies.total() else ""
    if lesson.twice.total():
        copies += f" Copies that other workers had, and that count twice: {lesson.twice.total():,}."
    return f"Already known: {count(lesson.known.total(), 'photo')}.{copies} Skipped: {len(lesson.problems):,}."


def memory_line(about: dict[str, Any]) -> str:
    """What is kept against what keeping the images would take."""
    line = f"Memory: {size(about['file_bytes'])} as a file, {size(about['memory_bytes'])} in use"
    if about["images_bytes"] is None:
        return f"{line}."
    side = about["backbone"]["input_size"]
    return (
        f"{line}; the {about['learned']:,} photos would take {size(about['images_bytes'])}, uncompressed at the "
        f"{side} x {side} pixels that the backbone reads."
    )


def task_name(tasks: list[Any], number: int) -> str:
    """A task's own name; one that was found by itself has none and is counted."""
    return f"task {number + 1}" if tasks[number] is None else str(tasks[number])


def count(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun.

    >>> count(1, "photo"), count(3, "class", "classes")
    ('1 photo', '3 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def say(console: Console, line: str) -> None:
    console.print(Text(shown(line)), soft_wrap=True)
