"""`learn`: train a model with many workers, on this machine or on a cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, TypeVar

from numpy.typing import ArrayLike, NDArray

from votestream.common.parameters import whole
from votestream.common.progress import progress_bar
from votestream.common.validation import as_features, as_labels, as_task, check_column_names
from votestream.core.learner import Learner
from votestream.distributed.chunks import Chunk, FeatureExtractor, ImageExtractor, RowExtractor, chunks_in, chunks_of
from votestream.distributed.executor import Executor, executor
from votestream.distributed.job import learn_chunks
from votestream.images.convert import as_sequence
from votestream.images.files import DataWarning, ImageError
from votestream.images.labelled import brings_labels, labelled_images
from votestream.images.measure import SAMPLE
from votestream.model_store.journal import fingerprint
from votestream.pipeline import ImageClassifier

M = TypeVar("M", bound=Learner)

CHUNK, LEAST, ENOUGH = 512, 32, 64  # images of a chunk; of the smallest; chunks that keep many workers busy
NAMED = 5  # images left out that the warning names


def learn(
    X: Any,
    y: ArrayLike | None,
    model: M,
    *,
    on: str | Executor = "here",
    workers: int | None = None,
    task: str | int | None = None,
    store: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
) -> M:
    """Train a model on many images or rows with several workers; returns the model.

    Each worker decodes chunks of the list, extracts their features and trains a learner of its own; these learners are
    merged along a fixed tree and then into the model. **The model is the same, to the last bit, whatever the number of
    workers, the order in which they finish, and wherever they are.** Learners on statistics come out as with
    `partial_fit`: ncm, slda, rls, fecam and ranpac up to rounding, GaussianVoting as close as to itself on reordered
    samples. Learners that cannot be merged learn the features in the order of the list, in this process: the same model
    as with `partial_fit`, as far as the features are the same.

    Parameters
    ----------
    X, y : for an `ImageClassifier`, images and their labels, or with y=None whatever `labelled_images` takes: a folder
        of class folders, here or behind a URL, or pairs (image, label), drawn as they are needed. For a learner, rows
        (n, D) and labels. Workers open files by their names, which must lead to the files wherever a worker runs; what
        is given as pixels or rows is sent to them.
    on : "here", "processes", "ray", the address of a Ray cluster, "ray://host:10001", or an executor.
    workers : processes or Ray's workers; None is one for each core. With "processes", the program must be a file that
        calls this below `if __name__ == "__main__":`; a CannotStart says so otherwise.
    task : the task that new classes belong to. Unless given, the new classes of one call form one task, "task 1" and so
        on: the order in which workers finish says nothing about what came first.
    store : a folder or URL that all workers can reach, where parts that are done are kept. The same call goes on from
        there after it was stopped, or the machine lost. Parts hold what a learner keeps, or the features of learners
        that cannot be merged; deleting them is left to you.
    chunk : images or rows learned together; another number gives another, equally good model. None is 512, or for a
        list of fewer than 32,768 images a power of two, down to 32, so that there are 64 chunks or more.

    A call that fails or is interrupted leaves the model as it was. Image files that cannot be read are left out; a
    warning names them. With `track=True`, the model as it was when the call began predicts each sample; where it had
    learned nothing, there are no tests. Everything computes on one thread a worker, "here" too. Memory in this process,
    beside the model: two more of its size at the end, about log2(chunks) parts on the way, and what is in flight, two
    chunks a worker; of learners that cannot be merged, also the features of chunks that came before their turn.

    >>> import numpy as np, votestream as vs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1000)
    >>> X = rng.normal(size=(1000, 8)) + 3 * np.eye(8)[y]
    >>> model = vs.learn(X, y, vs.GaussianVoting(), chunk=100)
    >>> int(model.class_counts_.sum()), bool(model.score(X, y) > 0.95)
    (1000, True)
    """
    if chunk is not None:
        whole(1, 10**9).check("chunk", chunk)
    if task is not None:
        as_task(task)
    if not isinstance(model, Learner):
        raise TypeError(f"model must be a learner, got {type(model).__name__}")
    names, unit, learner = None, "images", model.current_learner() if isinstance(model, ImageClassifier) else model
    if isinstance(model, ImageClassifier):
        chunks, extract, total = _images(X, y, model, chunk)
    else:
        chunks, extract, total, names = _rows(X, y, model, chunk)
        unit = "rows"
    before = fingerprint(learner)
    cuda = isinstance(extract, ImageExtractor) and extract.backbone.device.type == "cuda"
    with nullcontext(on) if not isinstance(on, str) else executor(on, workers, cuda) as place:
        many = f"{place.workers} worker{'s' * (place.workers > 1)}"
        with progress_bar(f"Learning, {many}", total, unit=unit) as advance:
            kept = None if store is None else os.fspath(store)
            outcome = learn_chunks(learner, chunks, extract, place, task=task, store=kept, advance=advance)
    trained, left_out = outcome.learner, outcome.problems
    if trained is None:
        raise ImageError(f"None of the {outcome.images} images can be read: {left_out[0]}")
    if names is not None and not learner.fitted:
        trained.state_.feature_names = names
    with model.guard.lock:
        if fingerprint(learner) != before:
            raise RuntimeError(
                "the model has changed while the workers learned, and does not contain what they learned: run one "
                "call at a time"
            )
        learner.take_over(trained.state_)
        if isinstance(model, ImageClassifier):
            model.take_learner(learner)
    if left_out:
        reasons = " ".join(left_out[:NAMED]) + (" ..." if len(left_out) > NAMED else "")
        warnings.warn(
            f"{len(left_out)} of the {outcome.images} images were left out: {reasons}", DataWarning, stacklevel=2
        )
    return model


def chunk_for(images: int) -> int:
    """The size of chunks for so many images: extraction is slow, so that workers should share even a few images.

    >>> chunk_for(1_000_000), chunk_for(4000), chunk_for(20)
    (512, 32, 32)
    """
    size = CHUNK
    while size > LEAST and images < ENOUGH * size:
        size //= 2
    return size


def _images(
    X: Any, y: ArrayLike | None, model: ImageClassifier, size: int | None
) -> tuple[Iterator[Chunk], FeatureExtractor, int | None]:
    if y is not None and brings_labels(X):
        raise ValueError(f"X is a {type(X).__name__}, which brings its labels along: give None for y")
    if y is None:
        first, source = labelled_images(X).peek(SAMPLE)
        if not first:
            raise ValueError(f"X is empty: there is no image in {source.name}")
        backbone = model.backbone_for(as_sequence(first))
        return chunks_in(source, size or CHUNK), ImageExtractor(backbone), None
    images = as_sequence(X)
    labels = as_labels(y, len(images))
    if not len(images):
        raise ValueError("X is empty: there is no image in it")
    size = size or chunk_for(len(images))
    return chunks_of(images, labels, size), ImageExtractor(model.backbone_for(images)), len(labels)


def _rows(
    X: Any, y: ArrayLike | None, model: Learner, size: int | None
) -> tuple[Iterator[Chunk], FeatureExtractor, int, NDArray[Any] | None]:
    kind = type(model)
    if y is None:
        raise ValueError(f"y is needed: a {kind.__name__} takes rows, which bring no labels along")
    if kind.rows_of is not Learner.rows_of:
        raise ValueError(
            f"a {kind.__name__} trains its network on every image in order, which workers cannot share: use partial_fit"
        )
    fitted = model.fitted
    known = getattr(model, "feature_names_in_", None)
    names = check_column_names(known, X, kind.__name__, fitted)
    rows = as_features(X, model.n_features_in_ if fitted else None, kind.__name__)
    return chunks_of(rows, as_labels(y, len(rows)), size or CHUNK), RowExtractor(), len(rows), names
