"""What an exported file says of itself, as text: labels, tasks, preprocessing, where it comes from."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from votestream._version import __version__
from votestream.backbones import Backbone
from votestream.backbones.reference import describe
from votestream.core import Learner, Snapshot

UNKNOWN_ABOVE = 0.95  # unknown scores that `track_record` counts as unknown, too


def about(learner: Learner, snapshot: Snapshot) -> dict[str, str]:
    """Of what was learned; `labels` stand in the order of the probabilities."""
    said = {
        "votestream": __version__,
        "learner": learner.name or type(learner).__name__,
        "labels": json.dumps(snapshot.classes_.tolist(), ensure_ascii=False),
        "tasks": json.dumps(learner.tasks_, ensure_ascii=False),
        "task_of_class": json.dumps(snapshot.task_of_class_.tolist()),
    }
    counts = getattr(learner, "class_counts_", None)
    if counts is not None:
        said["samples_learned"] = str(int(counts.sum()))
    if getattr(learner, "track", False):
        said["unknown_above"] = str(UNKNOWN_ABOVE)
    return said


def about_images(backbone: Backbone, sizes: list[int], any_size: bool) -> dict[str, str]:
    """Of how images become what the network reads."""
    how = backbone.preprocessing
    settings: dict[str, Any] = {**asdict(how), "shorter_side": how.shorter_side or how.input_size}
    sides = " and ".join(f"{size} x {size}" for size in sizes)
    if any_size:
        words = f"Give RGB images of any size, uint8 (n, height, width, 3); the graph itself makes them {sides} pixels."
    else:
        words = (
            f"Give RGB images of {sides} pixels, uint8 (n, height, width, 3), one input a size. To make them: "
            f"{_in_words(settings)}."
        )
    return {
        "backbone": json.dumps(describe(backbone)),
        "preprocessing": json.dumps({**settings, "sizes": sizes, "in_graph": any_size}),
        "preprocessing_in_words": f"{words} Pixels are normalised in the graph.",
    }


def _in_words(settings: dict[str, Any]) -> str:
    short, size = settings["shorter_side"], settings["input_size"]
    scale = "both sides" if settings["resize"] == "squash" else "the shorter side"
    cut = "" if settings["resize"] == "squash" and short == size else ", then cut out the middle"
    share = "the size" if short == size else f"{short / size:.4g} times the size"
    return f"scale {scale} to {share} by a {settings['interpolation']} filter that averages over what it shrinks{cut}"
