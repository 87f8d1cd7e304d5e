"""How good a model is on a folder of labelled photos that it does not learn."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from votestream.common.progress import progress_bar
from votestream.images.class_folders import composed, layout_of, some
from votestream.photos.finding import Offer, PhotoError, offer
from votestream.photos.reading import Reading, readings
from votestream.pipeline import ImageClassifier
from votestream.tracking.report import Score

WORST = 24  # photos named


class Judged(NamedTuple):
    """What the model says of one photo, and what it shows."""

    path: Path
    label: Any
    predicted: Any
    confidence: float

    @property
    def right(self) -> bool:
        return bool(self.label == self.predicted)


@dataclass
class Evaluation:
    """Photos of classes that the model knows, judged; those of other classes are only counted."""

    judged: list[Judged] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # photos of classes that the model does not know
    untested: list[Any] = field(default_factory=list)  # classes of the model without a photo
    problems: list[str] = field(default_factory=list)

    @cached_property
    def score(self) -> Score:
        return Score.of(len(self.judged), sum(photo.right for photo in self.judged))

    @cached_property
    def by_class(self) -> dict[Any, Score]:
        """The lowest accuracy first."""
        photos = Counter(photo.label for photo in self.judged)
        right = Counter(photo.label for photo in self.judged if photo.right)
        labels = sorted(photos, key=lambda label: (right[label] / photos[label], str(label)))
        return {label: Score.of(photos[label], right[label]) for label in labels}

    @cached_property
    def confusions(self) -> list[tuple[Any, Any, int]]:
        """Class, what it was taken for, and how often; the most frequent first."""
        pairs = Counter((photo.label, photo.predicted) for photo in self.judged if not photo.right)
        return [(*pair, times) for pair, times in sorted(pairs.items(), key=lambda item: (-item[1], str(item[0])))]

    @cached_property
    def worst(self) -> list[Judged]:
        """Mistakes, the most confident first."""
        return sorted((photo for photo in self.judged if not photo.right), key=lambda photo: -photo.confidence)[:WORST]

    def numbers(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {
            **_numbers(self.score),
            "classes": [{"label": label, **_numbers(score)} for label, score in self.by_class.items()],
            "confusions": [{"label": a, "predicted": b, "photos": times} for a, b, times in self.confusions],
            "worst": [{**photo._asdict(), "path": str(photo.path)} for photo in self.worst],
            "not_known": dict(self.left_out),
            "not_tested": self.untested,
        }


def _numbers(score: Score) -> dict[str, Any]:
    rounded = {name: round(value or 0, 6) for name, value in score._asdict().items()}
    return {"photos": rounded.pop("tested"), **rounded}


def to_evaluate(folder: Path) -> Offer:
    """The labelled photos below a folder; of one that is divided, those of its test part."""
    part = layout_of(folder).held_out[:1] if folder.is_dir() else ()
    if not part:
        return offer(folder)
    found = offer(part[0])
    found.notes.insert(0, f"{folder} is divided into parts: {part[0].name} is evaluated.")
    return found


def evaluate(model: ImageClassifier, path: Path, found: Offer) -> Evaluation:
    """Predict every photo whose class the model knows; nothing is learned."""
    classes = model.classes_.tolist()
    own = {composed(str(label)): label for label in classes} | {str(label): label for label in classes}
    made = Evaluation(problems=list(found.problems))
    made.left_out.update(photo.label for photo in found.photos if photo.label not in own)
    photos = [photo for photo in found.photos if photo.label in own]
    if not photos:
        instead = f" {found.doubt} Perhaps {found.instead} is meant." if found.instead else ""
        raise PhotoError(
            f"{path} knows none of the classes {some(found.labels, 5)}, only {some(classes, 5)}: there is nothing to "
            f"compare.{instead}"
        )
    with progress_bar("Evaluating", len(photos)) as advance:
        batch: list[Reading] = []
        for reading in readings(photos, model.backbone_):
            advance(1)
            if reading.problem:
                made.problems.append(reading.problem)
                continue
            batch.append(reading)
            if len(batch) == model.backbone_.batch_size:
                made.judged += _judge(model, batch, own)
                batch = []
        made.judged += _judge(model, batch, own)
    tested = {photo.label for photo in made.judged}
    made.untested = [label for label in classes if label not in tested]
    return made


def _judge(model: ImageClassifier, batch: list[Reading], own: dict[str, Any]) -> list[Judged]:
    pixels = [reading.pixels for reading in batch if reading.pixels is not None]
    if not pixels:
        return []
    shares = model.learner_.predict_proba(model.backbone_.of_prepared(np.stack(pixels)))
    answers = model.classes_[shares.argmax(1)].tolist()
    found = zip(batch, answers, shares.max(1).tolist(), strict=True)
    return [Judged(Path(each.photo.path), own[each.photo.label], answer, round(p, 6)) for each, answer, p in found]
