"""ImageClassifier: images in, labels out; a backbone extracts features, a learner learns them, no image is kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from operator import attrgetter, eq
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from votestream.backbones import Backbone, create_backbone
from votestream.backbones.default_backbone import choose_backbone
from votestream.backbones.labelled_features import labelled_features
from votestream.backbones.reference import describe, find_again
from votestream.common.parameters import shown
from votestream.common.validation import as_labels, as_task
from votestream.core.learner import Learner
from votestream.core.registry import LEARNERS, register
from votestream.core.snapshot import Snapshot
from votestream.images.convert import as_sequence
from votestream.images.labelled import brings_labels, labelled_images
from votestream.images.measure import SAMPLE
from votestream.io.array_checks import demand
from votestream.io.file_header import learner_in
from votestream.learners.ours.gaussian_voting import GaussianVoting

C = TypeVar("C", bound="type[ImageClassifier]")


def forwards(images: tuple[str, ...], calls: tuple[str, ...], reads: tuple[str, ...]) -> Callable[[C], C]:
    """Class decorator: what a model of images leaves to its learner on features.

    images: methods of X, which get the features of the images. calls: methods that are passed on as they are. reads:
    properties.
    """

    def declare(cls: C) -> C:
        for name in images:
            setattr(cls, name, _of_features(name))
        for name in calls:
            setattr(cls, name, _passed_on(name))
        for name in reads:
            setattr(cls, name, property(attrgetter(f"learner_.{name}"), doc=_doc(name)))
        return cls

    return declare


def _of_features(name: str) -> Callable[[ImageClassifier, Any], Any]:
    def method(self: ImageClassifier, X: Any) -> Any:
        return getattr(self.learner_, name)(self.backbone_(X))

    return _named(method, name)


def _passed_on(name: str) -> Callable[..., Any]:
    @wraps(getattr(Learner, name))
    def method(self: ImageClassifier, *args: Any, **options: Any) -> Any:
        learner = self.learner_
        found = getattr(learner, name)(*args, **options)
        if found is not learner:
            return found
        self.take_learner(learner)
        return self

    return _named(method, name)


def _named(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__, method.__qualname__, method.__doc__ = name, f"ImageClassifier.{name}", _doc(name)
    return method


def _doc(name: str) -> str:
    kind = "CandidatesVoting" if name in ("vote", "exemplars_", "class_counts_", "class_means_") else "Learner"
    return f"See `{kind}.{name}`."


@register("image_classifier")
@forwards(
    images=("confidence", "predict", "predict_proba", "query", "unknown_score", "vote"),
    calls=("forget", "memory_bytes", "prepared", "rename", "track_record"),
    reads=(
        "class_counts_",
        "class_means_",
        "classes_",
        "classes_seen_",
        "exemplars_",
        "memory_",
        "state_",
        "task_of_class_",
        "tasks_",
    ),
)
class ImageClassifier(Learner[Any]):
    """A learner on images: arrays, tensors, PIL images and paths go through the backbone, features to the learner.

    Parameters
    ----------
    backbone : a name that `create_backbone` knows, or a backbone. "auto" is the built-in `reduced_resnet18` where the
        first images have at most 64 pixels on their shorter side, else `efficientnet_lite0`, for GaussianVoting with
        its "quick" stages; `chosen_` tells which, and why. The model stays with it.
    learner : the learner on its features; `GaussianVoting()` unless given. One that has learned goes on.

    Every image of a call is read before any is learned, so that a broken one leaves the model as it was. A data set
    that brings its labels along (`labelled_images`) is learned as it is read: broken files are left out and named.
    A saved model holds the learner and the backbone's name and digest: no image, and no weights of the
    backbone. Loading it with another backbone is refused.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> night, day = rng.integers(0, 60, (20, 32, 32, 3)), rng.integers(180, 256, (20, 32, 32, 3))
    >>> model = vs.ImageClassifier("reduced_resnet18")
    >>> model = model.partial_fit(np.concatenate([night, day]).astype(np.uint8), ["night"] * 20 + ["day"] * 20)
    >>> model.predict(day[:1].astype(np.uint8))
    array(['day'], dtype='<U5')
    """

    input = "images"
    _made: Backbone
    _made_from: str | Backbone
    _fitted: Learner[Any]

    def __init__(self, backbone: str | Backbone = "auto", learner: Learner | None = None) -> None:
        self.backbone = backbone
        self.learner = learner

    def partial_fit(  # type: ignore[override]
        self, X: Any, y: ArrayLike | None = None, task: str | int | None = None, classes: ArrayLike | None = None
    ) -> Self:
        """Learn images in their order. See `Learner.partial_fit`.

        X: images, and y their labels; or without y a data set that brings its labels along, whatever `labelled_images`
        takes: `model.partial_fit(dataset)`, `model.partial_fit("train-*.parquet")`.
        """
        if y is None or brings_labels(X):
            return self._learn_all(X, y, task, classes)
        images = as_sequence(X)
        as_labels(y, len(images))
        if task is not None:
            as_task(task)
        if not len(images):
            raise ValueError("X is empty: there is no image in it")
        return self.partial_fit_features(self.backbone_for(images)(images), y, task, classes)

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:  # type: ignore[override]
        """Forget everything, then learn. See `partial_fit` and `Learner.fit`."""
        learner = None if self.learner is None else clone(self.learner)
        fresh = ImageClassifier(self.backbone, learner).partial_fit(X, y)
        with self.guard.lock:
            arguments = self.get_params(deep=False).keys() | {"_own_guard"}
            self.__dict__.update({name: value for name, value in vars(fresh).items() if name not in arguments})
        return self

    def _learn_all(self, X: Any, y: ArrayLike | None, task: str | int | None, classes: ArrayLike | None) -> Self:
        """Learn a data set in whole mini-batches, so that it is as if it were learned in one call."""
        if y is not None:
            raise ValueError(f"X is a {type(X).__name__}, which brings its labels along: leave y out")
        if task is not None:
            as_task(task)
        first, source = labelled_images(X).peek(SAMPLE)
        if not first:
            raise ValueError(f"X is empty: there is no image in {source.name}")
        backbone, rows = self.backbone_for(as_sequence(first)), self.current_learner().batch_size
        del first  # large photos take much memory
        size = max(1, backbone.batch_size // rows) * rows
        for features, labels in labelled_features(backbone, source, size, stacklevel=3):
            self.partial_fit_features(features, labels, task, classes)
        return self

    def partial_fit_features(
        self, X: ArrayLike, y: ArrayLike, task: str | int | None = None, classes: ArrayLike | None = None
    ) -> Self:
        """Learn the features, (n, D), of images that the backbone has seen already; `partial_fit` ends here too.

        >>> import numpy as np, votestream as vs
        >>> backbone, images = vs.create_backbone("reduced_resnet18"), np.zeros((2, 32, 32, 3), np.uint8)
        >>> model = vs.ImageClassifier(backbone).partial_fit_features(backbone(images), ["night", "night"])
        >>> model.predict(images)
        array(['night', 'night'], dtype='<U5')
        """
        with self.guard.lock:
            learner = self.current_learner()
            learner.partial_fit(X, y, task=task, classes=classes)
            self._fitted = learner
        return self

    def backbone_for(self, images: np.ndarray | list[Any]) -> Backbone:
        """The backbone; "auto" chooses it by the images, as long as nothing is learned."""
        with self.guard.lock:
            if isinstance(self.backbone, str) and self.backbone == "auto" and not hasattr(self, "_fitted"):
                self.chosen_ = choose_backbone(images)
                if not hasattr(self, "_made") or self._made.name != self.chosen_.name:
                    stages = self.chosen_.stages if isinstance(self.current_learner(), GaussianVoting) else None
                    self._made, self._made_from = create_backbone(self.chosen_.name, stages=stages), self.backbone
            return self.backbone_

    @property
    def backbone_(self) -> Backbone:
        """The backbone itself, made when it is first needed."""
        with self.guard.lock:
            if getattr(self, "_made_from", None) != self.backbone:
                if hasattr(self, "_made") and self.fitted:
                    raise ValueError(
                        f"this model was taught through the backbone {self._made.name!r}, and another one's features "
                        "mean something else: set backbone back, or teach a clone"
                    )
                if isinstance(self.backbone, str) and self.backbone == "auto":
                    raise ValueError("backbone='auto' is chosen by the first images: call partial_fit, or name one")
                self._made = create_backbone(self.backbone) if isinstance(self.backbone, str) else self.backbone
                self._made_from = self.backbone
            return self._made

    def current_learner(self) -> Learner[Any]:
        """The learner on features, whether it has learned or not."""
        if hasattr(self, "_fitted"):
            return self._fitted
        given = self._given_learner()
        if given is None:
            return GaussianVoting()
        fresh: Learner[Any] = given if given.fitted else clone(given)
        return fresh

    def take_learner(self, learner: Learner[Any]) -> None:
        """Go on with a learner that has learned features of this model's backbone."""
        with self.guard.lock:
            self._fitted = learner

    def _given_learner(self) -> Learner[Any] | None:
        if not (self.learner is None or isinstance(self.learner, Learner)):
            raise TypeError(f"learner must be one on features, such as GaussianVoting(), got {shown(self.learner)}")
        return self.learner

    @property
    def learner_(self) -> Learner[Any]:
        """The learner that has learned."""
        self.check_fitted()
        return self.current_learner()

    @property
    def fitted(self) -> bool:
        """Whether its learner has learned anything."""
        if hasattr(self, "_fitted"):
            return True
        given = self._given_learner()
        return given is not None and given.fitted

    def check_fitted(self) -> None:
        """Raise where nothing was learned, or learning was interrupted."""
        if self.fitted:
            self.current_learner().check_fitted()
        else:
            super().check_fitted()

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the learner's memory stops growing once all classes are seen."""
        return self.current_learner().bounded

    @property
    def mergeable(self) -> bool:
        """Whether `votestream.merge` takes its learner."""
        return self.current_learner().mergeable

    def check_params(self) -> None:
        """The learner checks its own."""

    # ---- predicting -----------------------------------------------------------------------------

    def predict_features(self, X: ArrayLike) -> NDArray[Any]:
        """The labels, (n,), of images that the backbone has seen already, by their features (n, D)."""
        return self.learner_.predict(X)

    def predict_proba_features(self, X: ArrayLike) -> NDArray[np.float64]:
        """The same as `predict_proba` for features (n, D) of images that the backbone has seen already."""
        return self.learner_.predict_proba(X)

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """The share of images whose label is predicted; without y of a data set that brings its labels along."""
        if y is not None:
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight is for images that come with y: a data set is read as it comes")
        right = seen = 0
        backbone = self.backbone_
        for features, labels in labelled_features(backbone, labelled_images(X), backbone.batch_size):
            truth = as_labels(labels, len(labels))
            right += sum(map(eq, self.predict_features(features).tolist(), truth))
            seen += len(truth)
        if not seen:
            raise ValueError("X is empty: there is no image in it")
        return right / seen

    def snapshot(self) -> Snapshot:
        """A model that predicts as this one does now, whatever is learned later; it shares the backbone."""
        return self.learner_.snapshot().behind(self.backbone_)

    # ---- merging, copying, saving ---------------------------------------------------------------

    def merge_in(self, other: Learner[Any]) -> None:
        """Learn all that the other knows; `votestream.merge` does so with a copy."""
        if not isinstance(other, ImageClassifier):
            raise ValueError(f"an ImageClassifier and a {type(other).__name__} cannot be merged")
        ours, theirs = self.backbone_, other.backbone_
        if ours.digest != theirs.digest:
            raise ValueError(
                f"the models were taught through different backbones: {ours.name!r} (digest {ours.digest[:12]}) and "
                f"{theirs.name!r} (digest {theirs.digest[:12]}), whose features mean something else"
            )
        self.learner_.merge_in(other.learner_)

    def __deepcopy__(self, memo: dict[int, Any]) -> ImageClassifier:
        """A copy that shares the backbone, which never changes."""
        twin = ImageClassifier(self.backbone, copy.deepcopy(self.learner, memo))
        for name in {"_made", "_made_from", "chosen_"} & vars(self).keys():
            setattr(twin, name, getattr(self, name))
        if hasattr(self, "_fitted"):
            twin._fitted = copy.deepcopy(self._fitted, memo)
        return twin

    def header(self) -> dict[str, Any]:
        return {"learner": self.name, "backbone": describe(self.backbone_), "inner": self.learner_.header()}

    @classmethod
    def from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Self:
        inner = header["inner"]
        learner = learner_in(inner, LEARNERS)
        demand(
            learner.input == "features", f"the learner behind the backbone is {learner.__name__}, which takes images"
        )
        made, given = find_again(header["backbone"], backbone, device)
        model = cls(given)
        model._made, model._made_from = made, given
        model._fitted = learner.from_file(inner, arrays, device, None)
        width = model._fitted.n_features_in_
        demand(width == made.feature_dim, f"the learner takes {width} features, the backbone gives {made.feature_dim}")
        return model
