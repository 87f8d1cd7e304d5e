"""Reports on a model file, read without its backbone: classes, tasks, accuracy, memory and settings."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from votestream.common.printing import shown, size
from votestream.core.registry import from_parts
from votestream.images.class_folders import some
from votestream.io.model_files import read
from votestream.model_store.journal import journal_length
from votestream.model_store.paths import ModelStoreError, as_sentence, journal_path
from votestream.pipeline.prediction_details import task_name
from votestream.tracking.report import Score

ROWS = 40  # classes in a table; there may be thousands
# The advice at the end of `learn` names classes with fewer photos than FEW_PHOTOS, or else the class with the lowest
# accuracy below GOOD_ACCURACY among those that were tested MIN_TESTED times.
FEW_PHOTOS, GOOD_ACCURACY, MIN_TESTED = 10, 0.9, 10


def report(path: Path) -> dict[str, Any]:
    """What `votestream inspect --json` prints about a model file."""
    try:
        header, arrays = read(path)
        inner = header.get("inner", header)  # of an ImageClassifier: the learner behind the backbone
        learner = from_parts(path, inner, arrays, device="cpu")
    except (ValueError, OSError) as problem:
        raise ModelStoreError(as_sentence(problem)) from None
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
        "journal": journal_length(journal_path(path)),
        "track_record": learner.track_record().to_dict() if getattr(learner, "track", False) else None,
        "memory_bytes": learner.memory_bytes(),
        "images_bytes": learned * side * side * 3 if learned and side else None,
    }


def print_report(about: dict[str, Any], console: Console) -> None:
    """Print what `votestream inspect` shows."""
    rows, tasks = about["classes"], about["tasks"]
    what = "photos" if about["backbone"] else "samples"
    headings = {"learned": what, "exemplars": "exemplars", "directions": "directions"}
    headings = {key: heading for key, heading in headings.items() if rows[0][key] is not None}
    table = Table("class", "task", *headings.values())
    for row in rows[:ROWS]:
        # Text, because rich reads brackets in a string as a style.
        names = Text(shown(row["label"])), Text(shown(task_name(tasks, row["task"])))
        table.add_row(*names, *(str(row[key]) for key in headings))
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
    options = "".join(f", {key} {','.join(backbone[key])}" for key in ("views", "stages") if backbone.get(key))
    return f"Backbone: {backbone['name']}{options}, digest {backbone['digest'][:12]}"


def track_lines(record: dict[str, Any] | None) -> list[str]:
    """The accuracy of a model, from tests on each sample before it was learned."""
    if record is None:
        return []
    so_far, newest = (Score(**record[name]) for name in ("so_far", "lately"))
    lines = [f"Accuracy, each tested before it was learned: {so_far}; the newest: {newest}"]
    for each in record["confusions"][:3]:
        lines.append(f"  {each['label']} was predicted as {each['taken_for']}: {count(each['times'], 'time')}")
    for each in record["drift"]:
        lines.append(f"  {each['label']} has changed ({each['sign']}) since sample {each['since']:,}")
    return lines


def quality_lines(about: dict[str, Any]) -> list[str]:
    """How good a model is now, and its most frequent mistakes, as `votestream learn` prints them at its end."""
    record = about["track_record"]
    if record is None:
        return []
    newest, so_far = Score(**record["lately"]), Score(**record["so_far"])
    # After a merge the newest are unknown.
    when, which, score = ("now", "the newest ", newest) if newest.tested else ("so far", "", so_far)
    if score.accuracy is None or score.low is None or score.high is None:
        return []
    share, low, high = (f"{100 * value:.0f}" for value in (score.accuracy, score.low, score.high))
    lines = [
        f"Accuracy {when}: {share} % (95 % interval {low} to {high} %), measured on {which}"
        f"{count(score.tested, 'photo')}, each before it was learned."
    ]
    mistakes = [f"{each['label']} as {each['taken_for']} ({each['times']:,})" for each in record["confusions"][:3]]
    return [*lines, f"Most frequent mistakes: {', '.join(mistakes)}."] if mistakes else lines


def next_step_lines(about: dict[str, Any]) -> list[str]:
    """What to do next with a model that has just been trained, as `votestream learn` prints it at its end."""
    name, classes = shlex.quote(about["file"]), about["classes"]
    few = [str(row["label"]) for row in classes if row["learned"] is not None and row["learned"] < FEW_PHOTOS]
    weakest = _weakest_class(about["track_record"])
    lines = ["Next:"]
    if len(classes) < 2:
        lines.append("  add a folder with photos of a second class, and run the same command again")
    elif few:
        lines.append(f"  add photos of {some(few, 3)}: fewer than {FEW_PHOTOS} were learned")
    elif weakest is not None:
        label, accuracy = weakest
        lines.append(f"  add photos of {label}, the class with the lowest accuracy ({100 * accuracy:.0f} %)")
    predict, evaluate = f"votestream predict {name} PHOTO", f"votestream evaluate {name} FOLDER"
    return [
        *lines,
        f"  {predict:<{len(evaluate)}}  predicts a photo",
        f"  {evaluate}  tests the model on photos that it has not learned",
    ]


def _weakest_class(record: dict[str, Any] | None) -> tuple[str, float] | None:
    """The class with the lowest accuracy and this accuracy; None if all are good or too few were tested."""
    tested = [each for each in (record or {}).get("classes", ()) if each["score"]["tested"] >= MIN_TESTED]
    scores = [(each["score"]["accuracy"], str(each["label"])) for each in tested]
    accuracy, label = min(scores, default=(1.0, ""))
    return (label, accuracy) if accuracy < GOOD_ACCURACY else None


def kept_line(about: dict[str, Any]) -> str:
    """Whether the file contains features of single samples."""
    one = "photo" if about["backbone"] else "sample"
    if about["holds_all"]:
        return f"Kept: the features of every single {one}."
    if about["exemplars"]:
        exemplars = count(about["exemplars"], "exemplar")
        return f"Kept: statistics of the classes, and {exemplars}, each the {about['exemplars_are']} of one {one}."
    if about["waiting"]:
        return (
            f"Kept: statistics of the classes, and the features of {count(about['waiting'], one)} that will be added "
            "to them."
        )
    line = f"Kept: statistics of the classes; no {one}, and no single {one}'s features"
    few = [str(row["label"]) for row in about["classes"] if (row["learned"] or 3) <= 2]
    if few:
        line += f", except of classes with one or two {one}s, where the statistics contain them: {some(few)}"
    return f"{line}."


def journal_line(about: dict[str, Any]) -> str:
    """What the journal beside the model contains, and how to delete it."""
    if about["journal"] is None:
        return "Journal: none."
    name, photos = journal_path(Path(about["file"])).name, count(about["journal"], "photo")
    return (
        f"Journal: the features of the newest {photos}, in {name}, and the model before them; `votestream undo` undoes "
        "photos, `votestream learn --journal 0` keeps no journal."
    )


def memory_line(about: dict[str, Any]) -> str:
    """The size of the model beside the size of the images."""
    line = f"Memory: {size(about['file_bytes'])} as a file, {size(about['memory_bytes'])} in use"
    if about["images_bytes"] is None:
        return f"{line}."
    side = about["backbone"]["input_size"]
    return (
        f"{line}; the {about['learned']:,} photos would take {size(about['images_bytes'])}, uncompressed at the "
        f"{side} x {side} pixels that the backbone reads."
    )


def count(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun.

    >>> count(1, "photo"), count(3, "class", "classes")
    ('1 photo', '3 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def say(console: Console, line: str) -> None:
    """Print a line as it is, without rich's markup."""
    console.print(Text(shown(line)), soft_wrap=True)
