"""ImageClassifier: images in, labels out; a backbone looks, a learner learns, no image is kept."""

from __future__ import annotations

from operator import eq
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from votestream.backbones import Backbone, create_backbone
from votestream.backbones.choosing import choose_backbone
from votestream.backbones.labelled_features import labelled_features
from votestream.backbones.reference import describe, find_again
from votestream.common.parameters import shown
from votestream.common.validation import as_labels, as_task
from votestream.core.exemplars import Exemplars
from votestream.core.learner import Learner
from votestream.core.registry import LEARNERS, register
from votestream.core.snapshot import Snapshot
from votestream.core.vote import Vote
from votestream.images.convert import ImagesLike, as_sequence
from votestream.images.labelled import brings_labels, labelled_images
from votestream.images.measure import SAMPLE
from votestream.io.array_checks import demand
from votestream.io.file_header import learner_in
from votestream.learners.ours.gaussian_voting import GaussianVoting
from votestream.tracking import TrackReport


@register("image_classifier")
class ImageClassifier(Learner):
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

    def __init__(self, backbone: str | Backbone = "auto", learner: Learner | None = None) -> None:
        self.backbone = backbone
        self.learner = learner

    def partial_fit(  # type: ignore[override]
        self, X: Any, y: ArrayLike | None = None, task: str | int | None = None, classes: ArrayLike | None = None
    ) -> ImageClassifier:
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
        return self.partial_fit_features(self._backbone_for(images)(images), y, task, classes)

    def fit(self, X: Any, y: ArrayLike | None = None) -> ImageClassifier:  # type: ignore[override]
        """Forget everything, then learn. See `partial_fit` and `Learner.fit`."""
        super().fit(X, y)  # type: ignore[arg-type]  # None where X brings its labels
        return self

    def _learn_all(
        self, X: Any, y: ArrayLike | None, task: str | int | None, classes: ArrayLike | None
    ) -> ImageClassifier:
        """Learn a data set in whole mini-batches, so that it is as if it were learned in one call."""
        if y is not None:
            raise ValueError(f"X is a {type(X).__name__}, which brings its labels along: leave y out")
        if task is not None:
            as_task(task)
        first, source = labelled_images(X).peek(SAMPLE)
        if not first:
            raise ValueError(f"X is empty: there is no image in {source.name}")
        backbone, rows = self._backbone_for(as_sequence(first)), self._learner().batch_size
        del first  # large photos take much memory
        size = max(1, backbone.batch_size // rows) * rows
        for features, labels in labelled_features(backbone, source, size, stacklevel=3):
            self.partial_fit_features(features, labels, task, classes)
        return self

    def partial_fit_features(
        self, X: ArrayLike, y: ArrayLike, task: str | int | None = None, classes: ArrayLike | None = None
    ) -> ImageClassifier:
        """Learn the features, (n, D), of images that the backbone has seen already; `partial_fit` ends here too.

        >>> import numpy as np, votestream as vs
        >>> backbone, images = vs.create_backbone("reduced_resnet18"), np.zeros((2, 32, 32, 3), np.uint8)
        >>> model = vs.ImageClassifier(backbone).partial_fit_features(backbone(images), ["night", "night"])
        >>> model.predict(images)
        array(['night', 'night'], dtype='<U5')
        """
        with self._guard.lock:
            learner = self._learner()
            learner.partial_fit(X, y, task=task, classes=classes)
            self._fitted = learner
        return self

    def _backbone_for(self, images: np.ndarray | list[Any]) -> Backbone:
        """The backbone; "auto" chooses it by the images, as long as nothing is learned."""
        with self._guard.lock:
            if isinstance(self.backbone, str) and self.backbone == "auto" and not hasattr(self, "_fitted"):
                self.chosen_ = choose_backbone(images)
                if not hasattr(self, "_made") or self._made.name != self.chosen_.name:
                    stages = self.chosen_.stages if isinstance(self._learner(), GaussianVoting) else None
                    self._made, self._made_from = create_backbone(self.chosen_.name, stages=stages), self.backbone
            return self.backbone_

    def _afresh(self) -> ImageClassifier:
        return ImageClassifier(self.backbone, None if self.learner is None else clone(self.learner))

    @property
    def backbone_(self) -> Backbone:
        """The backbone itself, made when it is first needed."""
        with self._guard.lock:
            if getattr(self, "_made_from", None) != self.backbone:
                if hasattr(self, "_made") and self._is_fitted():
                    raise ValueError(
                        f"this model was taught through the backbone {self._made.name!r}, and another one's features "
                        "mean something else: set backbone back, or teach a clone"
                    )
                if isinstance(self.backbone, str) and self.backbone == "auto":
                    raise ValueError("backbone='auto' is chosen by the first images: call partial_fit, or name one")
                self._made = create_backbone(self.backbone) if isinstance(self.backbone, str) else self.backbone
                self._made_from = self.backbone
            return self._made

    def _learner(self) -> Learner:
        if hasattr(self, "_fitted"):
            return self._fitted
        given = self._given_learner()
        if given is None:
            return GaussianVoting()
        return given if given._is_fitted() else clone(given)

    def _given_learner(self) -> Learner | None:
        if not (self.learner is None or isinstance(self.learner, Learner)):
            raise TypeError(f"learner must be one on features, such as GaussianVoting(), got {shown(self.learner)}")
        return self.learner

    @property
    def learner_(self) -> Learner:
        """The learner that has learned."""
        self._check_fitted()
        return self._learner()

    def _is_fitted(self) -> bool:
        if hasattr(self, "_fitted"):
            return True
        given = self._given_learner()
        return given is not None and given._is_fitted()

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the learner's memory stops growing once all classes are met."""
        return self._learner().bounded

    # ---- deciding -------------------------------------------------------------------------------

    def predict(self, X: ImagesLike) -> NDArray[Any]:  # type: ignore[override]
        """The label of each image, (n,)."""
        return self.learner_.predict(self.backbone_(X))

    def predict_proba(self, X: ImagesLike) -> NDArray[np.float64]:  # type: ignore[override]
        """The probability of each class, (n, C), columns as `classes_`."""
        return self.learner_.predict_proba(self.backbone_(X))

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

    def unknown_score(self, X: ImagesLike) -> NDArray[np.float64]:  # type: ignore[override]
        """How unlike everything learned each picture is, (n,) in [0, 1), where the learner has `track=True`."""
        return self.learner_.unknown_score(self.backbone_(X))

    def track_record(self) -> TrackReport:
        """How good this model is, where the learner has `track=True`."""
        return self.learner_.track_record()

    def vote(self, X: ImagesLike) -> Vote:
        """How each decision fell, for learners that vote."""
        return self.learner_.vote(self.backbone_(X))

    # ---- corrections: the learner's own ---------------------------------------------------------

    def forget(self, label: str | int) -> ImageClassifier:
        """Take a class out of the model. See `Learner.forget`."""
        with self._guard.lock:
            self._fitted = self.learner_.forget(label)
        return self

    def rename(self, old: str | int, new: str | int) -> ImageClassifier:
        """Give a class another label, or make it part of another. See `Learner.rename`."""
        with self._guard.lock:
            self._fitted = self.learner_.rename(old, new)
        return self

    @property
    def mergeable(self) -> bool:  # type: ignore[override]
        return self._learner().mergeable

    def _copied(self) -> ImageClassifier:
        twin = ImageClassifier(self.backbone)
        twin._made, twin._made_from, twin._fitted = self.backbone_, self.backbone, self.learner_._copied()
        return twin

    def _take_in_model(self, other: ImageClassifier) -> None:
        if type(other) is not ImageClassifier:
            raise ValueError(f"an ImageClassifier and a {type(other).__name__} cannot be merged")
        ours, theirs = self.backbone_, other.backbone_
        if ours.digest != theirs.digest:
            raise ValueError(
                f"the models were taught through different backbones: {ours.name!r} (digest {ours.digest[:12]}) and "
                f"{theirs.name!r} (digest {theirs.digest[:12]}), whose features mean something else"
            )
        self.learner_._take_in_model(other.learner_)

    def snapshot(self) -> Snapshot:
        """A model that answers as this one does now, whatever is learned later; it shares the backbone."""
        backbone, inner = self.backbone_, self.learner_.snapshot()
        return Snapshot(inner._prepared, lambda X: inner._rows(backbone(X)), inner.task_of_class_, inner.tasks_)

    # ---- what was learned: the learner's own ----------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        return self.learner_.classes_

    @property
    def classes_seen_(self) -> NDArray[Any]:
        return self.learner_.classes_seen_

    @property
    def task_of_class_(self) -> NDArray[np.int64]:
        return self.learner_.task_of_class_

    @property
    def tasks_(self) -> list[str | int | None]:
        return self.learner_.tasks_

    @property
    def class_counts_(self) -> NDArray[np.int64]:
        return self.learner_.class_counts_

    @property
    def class_means_(self) -> NDArray[np.float64]:
        return self.learner_.class_means_

    @property
    def exemplars_(self) -> Exemplars:
        return self.learner_.exemplars_

    def memory_bytes(self, working: bool = False) -> int:
        """What the learner keeps; the backbone, the same for every model, is not counted."""
        return self.learner_.memory_bytes(working)

    # ---- saving ---------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """The learner checks its own."""

    def _header(self) -> dict[str, Any]:
        return {"learner": self.name, "backbone": describe(self.backbone_), "inner": self.learner_._header()}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return self.learner_._saved_arrays()

    @classmethod
    def _from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Learner:
        inner = header["inner"]
        learner = learner_in(inner, LEARNERS)
        demand(
            learner.input == "features", f"the learner behind the backbone is {learner.__name__}, which takes images"
        )
        made, given = find_again(header["backbone"], backbone, device)
        model = cls(given)
        model._made, model._made_from = made, given
        model._fitted = learner._from_file(inner, arrays, device, None)
        width = model._fitted.n_features_in_
        demand(width == made.feature_dim, f"the learner takes {width} features, the backbone gives {made.feature_dim}")
        return model
