"""The evaluation of a model on a folder of labelled photos, without training on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from votestream.common.progress import progress_bar
from votestream.images.class_folders import composed, layout_of, some
from votestream.photos.decode import DecodedPhoto, decode_photos
from votestream.photos.photo_list import PhotoError, PhotoList, list_photos
from votestream.pipeline import ImageClassifier
from votestream.tracking.report import Score

MOST_MISTAKES = 24  # photos listed


class EvaluatedPhoto(NamedTuple):
    """A photo with its label and the prediction on it."""

    path: Path
    label: Any
    predicted: Any
    confidence: float

    @property
    def right(self) -> bool:
        return bool(self.label == self.predicted)


@dataclass
class Evaluation:
    """The predictions on photos of the model's classes; photos of other classes are only counted."""

    photos: list[EvaluatedPhoto] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # photos of classes that the model does not have
    untested: list[Any] = field(default_factory=list)  # classes of the model without a photo
    problems: list[str] = field(default_factory=list)

    @cached_property
    def score(self) -> Score:
        return Score.of(len(self.photos), sum(photo.right for photo in self.photos))

    @cached_property
    def by_class(self) -> dict[Any, Score]:
        """The score of each class, the lowest accuracy first."""
        photos = Counter(photo.label for photo in self.photos)
        right = Counter(photo.label for photo in self.photos if photo.right)
        labels = sorted(photos, key=lambda label: (right[label] / photos[label], str(label)))
        return {label: Score.of(photos[label], right[label]) for label in labels}

    @cached_property
    def confusions(self) -> list[tuple[Any, Any, int]]:
        """Class, predicted class and number of photos of each kind of mistake, the most frequent first."""
        pairs = Counter((photo.label, photo.predicted) for photo in self.photos if not photo.right)
        return [(*pair, times) for pair, times in sorted(pairs.items(), key=lambda item: (-item[1], str(item[0])))]

    @cached_property
    def worst(self) -> list[EvaluatedPhoto]:
        """Mistakes, the most confident first."""
        mistakes = (photo for photo in self.photos if not photo.right)
        return sorted(mistakes, key=lambda photo: -photo.confidence)[:MOST_MISTAKES]

    def numbers(self) -> dict[str, Any]:
        """What `evaluate --json` prints."""
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


def list_test_photos(folder: Path) -> PhotoList:
    """The labelled photos below a folder; if it is divided into parts, those of its test part."""
    part = layout_of(folder).held_out[:1] if folder.is_dir() else ()
    if not part:
        return list_photos(folder)
    found = list_photos(part[0])
    found.notes.insert(0, f"{folder} is divided into parts: {part[0].name} is evaluated.")
    return found


def evaluate(model: ImageClassifier, path: Path, found: PhotoList) -> Evaluation:
    """Predict every photo of the model's classes; the model is not changed."""
    classes = model.classes_.tolist()
    own = {composed(str(label)): label for label in classes} | {str(label): label for label in classes}
    evaluation = Evaluation(problems=list(found.problems))
    evaluation.left_out.update(photo.label for photo in found.photos if photo.label not in own)
    photos = [photo for photo in found.photos if photo.label in own]
    if not photos:
        instead = f" {found.doubt} Perhaps you mean {found.instead}." if found.instead else ""
        raise PhotoError(
            f"{path} has none of the classes {some(found.labels, 5)}, only {some(classes, 5)}: there is nothing to "
            f"evaluate.{instead}"
        )
    with progress_bar("Evaluating", len(photos)) as advance:
        batch: list[DecodedPhoto] = []
        for photo in decode_photos(photos, model.backbone_):
            advance(1)
            if photo.problem:
                evaluation.problems.append(photo.problem)
                continue
            batch.append(photo)
            if len(batch) == model.backbone_.batch_size:
                evaluation.photos += _evaluate_batch(model, batch, own)
                batch = []
        evaluation.photos += _evaluate_batch(model, batch, own)
    tested = {each.label for each in evaluation.photos}
    evaluation.untested = [label for label in classes if label not in tested]
    return evaluation


def _evaluate_batch(model: ImageClassifier, batch: list[DecodedPhoto], own: dict[str, Any]) -> list[EvaluatedPhoto]:
    pixels = [photo.pixels for photo in batch if photo.pixels is not None]
    if not pixels:
        return []
    shares = model.learner_.predict_proba(model.backbone_.of_prepared(np.stack(pixels)))
    predicted = model.classes_[shares.argmax(1)].tolist()
    found = zip(batch, predicted, shares.max(1).tolist(), strict=True)
    return [
        EvaluatedPhoto(Path(each.photo.path), own[each.photo.label], label, round(p, 6)) for each, label, p in found
    ]
