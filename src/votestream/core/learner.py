"""The contract every learner keeps, and what they share: input checks, labels, tasks, saving."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import nn

from votestream.common.parameters import SWITCH, Ranges, whole
from votestream.common.validation import (
    OUTLYING,
    as_device,
    as_features,
    as_labels,
    as_task,
    check_column_names,
    check_known_labels,
    check_reach,
    check_seed,
    in_units,
    scale_unit,
)
from votestream.core import saved
from votestream.core.corrections import Corrections
from votestream.core.guard import Predictor, Prepared
from votestream.core.held_bytes import held_bytes
from votestream.core.labelled import Labelled
from votestream.core.mergeable import take_in, take_over
from votestream.core.renamed import taking_old_names, with_new_names
from votestream.core.settings import check_settings, ranges_of, settings_of
from votestream.core.snapshot import RowCheck, Snapshot, snapshot_of
from votestream.core.tasks import TaskLedger
from votestream.core.tracked import report_of, tested_lessons, tracker_of
from votestream.core.weights import refuse_weights, repeated
from votestream.tracking import Tracker, TrackReport


class Learner(Labelled, Corrections, ClassifierMixin, BaseEstimator):
    """Learns from a stream of labelled rows, one pass, and classifies among every class it has met.

    A subclass stores its constructor's arguments and writes these methods: `_begin` (allocate, for the
    first samples), `_learn` (rows of one task), `_predictor` (an immutable way to answer) and
    `_arrays` / `_set_arrays` (everything it would need to go on). Classes are numbers there, counted in
    order of first appearance; the labels users give stay in this file, and so does the order of `classes_`. A subclass
    whose answers come straight from what it learns with writes `_decide` and `_probabilities` instead of `_predictor`:
    its answers then wait while another thread learns.

    Threads: any number may predict while one learns. Each answer is that of the model after some whole call of
    `partial_fit`; one asked for while a call is under way may be that from before it. Calls that learn wait for
    each other.
    """

    name = ""
    bounded = True  # with all classes met, what is kept grows no more; False for a learner that keeps the data
    n_features_in_: int
    feature_names_in_: NDArray[Any]  # where the first rows came as a data frame
    _index: dict[str | int, int]
    _broken = False
    # A power of two: what rows are multiplied by where features are so large or small, as 1e-30, that float32
    # products would overflow or vanish. It changes no digit.
    _unit = 1.0
    _working: tuple[str, ...] = ()  # attributes that can be made again from the others
    _fixed: tuple[str, ...] = ()  # constructor arguments that learning begins with and cannot change later
    mergeable = False  # `votestream.merge` takes it: it writes `_merge`
    _merged_alike: tuple[str, ...] = ("_unit",)  # what must be the same in models that are merged, beside arguments
    _tracker: Tracker | None = None  # with `track=True`, which a learner's constructor may offer
    _record_fade: float | None = 1.0  # how fast records lose weight as classes come; None: they calibrate nothing
    _test_growth = 1.0  # a learner that is slow to prepare is tested whenever the stream is so many times as long
    # What constructor arguments may be, for callers and for model files; subclasses add theirs.
    parameter_ranges: ClassVar[Ranges] = {
        "batch_size": whole(1, 10**6),
        "close_task_after": whole(1, 10**9),
        "track": SWITCH,
    }
    input = "features"  # what X holds: "features", or "images" for a learner with a network of its own
    # Constructor arguments that every learner has.
    seed: int
    device: str
    batch_size: int
    close_task_after: int = 20

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = taking_old_names(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Learner:
        """Set constructor arguments by name. See scikit-learn's `BaseEstimator.set_params`."""
        known = self._get_param_names()
        super().set_params(**(params if params.keys() <= set(known) else with_new_names(params)))
        return self

    # ---- learning -------------------------------------------------------------------------------

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: str | int | None = None,
        classes: ArrayLike | None = None,
        **refused: Any,
    ) -> Learner:
        """Learn the rows in their order, in mini-batches of `batch_size`.

        X: features (n, D), a NumPy array, a data frame or a torch tensor. y: n labels, strings or integers; unseen
        ones become new classes. task: the task that new classes belong to; left out, it is found. classes:
        scikit-learn's list of all classes to come, which is not needed; where given, y may hold no others.
        """
        refuse_weights(self, refused)
        with self._guard.lock:
            self._partial_fit(X, y, task, classes)
        return self

    def _partial_fit(self, X: ArrayLike, y: ArrayLike, task: Any, classes: Any, sample_weight: Any = None) -> None:
        fitted = self._is_fitted()
        if self._broken or self._guard.torn:
            self._check_fitted()
        self._check_settings()
        rows, unit = self._rows_to_learn(X, fitted)
        known = getattr(self, "feature_names_in_", None)
        names = check_column_names(known, X, type(self).__name__, fitted)
        labels = as_labels(y, len(rows))
        if sample_weight is not None:
            rows, labels = repeated(rows, labels, sample_weight)
        named = None if task is None else as_task(task)
        index: dict[str | int, int] = self._index if fitted else {}
        new = check_known_labels(labels, index, self._naming().seen if fitted else (), classes)
        self._check_growth(len(index), len(index) + len(new), rows.shape[1])
        if not fitted:
            self._start(rows, unit, names)
            index = self._index
        try:
            if named is not None:
                self._tasks.begin(named)
            if self._tracker is None:
                self._lesson(rows, labels, named is not None)
            else:
                tested_lessons(self, rows, labels, named is not None, fitted)
        except BaseException:  # Ctrl-C, or no memory left: rows are half applied, and must not pass for learned
            self._broken = True
            raise
        finally:
            self._guard.learned(index, labels)

    def _start(self, rows: NDArray[Any], unit: float, names: NDArray[Any] | None) -> None:
        """Before the first rows are learned."""
        self._unit = unit
        self._begin(rows[: self.batch_size])
        self._tracker = tracker_of(self, rows.shape[1])
        self._began = {name: getattr(self, name) for name in self._never_changed()}
        self._index, self._tasks = {}, TaskLedger(int(self.close_task_after))
        if names is not None:
            self.feature_names_in_ = names
        self.n_features_in_ = rows.shape[1]

    def _lesson(self, rows: NDArray[Any], labels: list[str | int], named: bool) -> NDArray[np.int64]:
        """Learn the rows; returns their classes' numbers."""
        index = self._index
        numbers = np.array([index.setdefault(label, len(index)) for label in labels])
        for start, end in self._tasks.cut(numbers.tolist(), named=named):
            self._learn(rows[start:end], numbers[start:end], start % self.batch_size)
        return numbers

    def _rows_to_learn(self, X: ArrayLike, fitted: bool) -> tuple[NDArray[Any], float]:
        """The rows as they are learned, none out of all proportion to the first ones; and the unit they are in."""
        if fitted and self._unit == 1 and type(self)._check_X is Learner._check_X:  # one look at each number
            return as_features(X, self.n_features_in_, type(self).__name__, OUTLYING), 1.0
        rows, unit = self._check_X(X, self.n_features_in_ if fitted else None), self._unit
        if rows.dtype == np.float32:  # features, not images
            if not fitted:
                unit = scale_unit(rows[: self.batch_size])
                rows = in_units(rows, unit)
            check_reach(rows, unit)
        return rows, unit

    def fit(self, X: ArrayLike, y: ArrayLike, **refused: Any) -> Learner:
        """Forget everything, then learn the rows; a call that is refused leaves the model as it was."""
        refuse_weights(self, refused)
        return self._fit_anew(X, y, {})

    def _fit_anew(self, X: ArrayLike, y: ArrayLike, weights: dict[str, Any]) -> Learner:
        fresh = self._afresh()
        fresh.partial_fit(X, y, **weights)
        take_over(self, fresh)
        return self

    def _afresh(self) -> Learner:
        """One with the same settings that has learned nothing."""
        return type(self)(**self.get_params(deep=False))

    def _next_task(self) -> str:
        """A name for a task that is given without one: "task 1" and so on."""
        names = self.tasks_ if self._is_fitted() else []
        return next(name for n in range(len(names) + 1) if (name := f"task {len(names) + 1 + n}") not in names)

    # ---- deciding -------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each row, (n,)."""
        rows, now = self._query(X), self._now()
        if now.predictor is None:
            with self._guard.lock:
                now, chosen = self._now(), self._decide(rows)
        else:
            chosen = now.predictor.decide(rows)
        return now.naming.seen[chosen]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class, (n, C); rows sum to 1, columns stand as in `classes_`."""
        rows, now = self._query(X), self._now()
        if now.predictor is None:
            with self._guard.lock:
                now = self._now()
                return now.in_order(self._probabilities(rows))
        return now.probabilities(rows)

    def _now(self) -> Prepared:
        """What answers, made anew where learning has gone on since."""
        guard, now = self._guard, self._guard.now
        settings = settings_of(self)
        if now is None or now.settings != settings:
            with guard.lock:
                if guard.now is not None and guard.now.settings == settings:
                    return guard.now  # another thread was quicker
                self._check_fitted()
                self._check_settings()
                now = guard.now = self._prepared(guard.before, guard.changed)
                guard.before, guard.changed = None, set()
        return now

    def _prepared(self, before: Prepared | None, changed: set[int]) -> Prepared:
        """What answers, from one that did before these classes were learned; under the lock."""
        settings = settings_of(self)
        if before is not None and before.settings == settings and before.predictor is not None:
            predictor = self._updated(before.predictor, changed)
        else:
            predictor = self._predictor()
        answers = None if self._tracker is None else self._tracker.answers(before and before.answers)
        return Prepared(self._naming(), predictor, settings, answers)

    def _query(self, X: ArrayLike) -> NDArray[Any]:
        self._check_fitted()
        check_column_names(getattr(self, "feature_names_in_", None), X, type(self).__name__, fitted=True)
        return self._check_X(X, self.n_features_in_)

    def snapshot(self) -> Snapshot:
        """A model that answers as this one does now, whatever is learned later; it never changes.

        It holds what answering prepared, and no copy of it. A learner that trains a network is copied for it.
        """
        with self._guard.lock:
            self._check_fitted()
            names = getattr(self, "feature_names_in_", None)
            rows: Any = RowCheck(type(self).__name__, self.n_features_in_, self._unit, names)
            if type(self)._check_X is not Learner._check_X:  # images, or a subclass with checks of its own
                rows = None
            return snapshot_of(self, self._now(), rows)

    # ---- how good it is -------------------------------------------------------------------------

    def track_record(self) -> TrackReport:
        """How good this model is: each sample was predicted just before it was learned. Needs `track=True`.

        >>> import numpy as np, votestream as vs
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 600)
        >>> X = rng.normal(size=(600, 8)) + 2 * np.eye(8)[y]
        >>> record = vs.GaussianVoting(track=True).partial_fit(X, y).track_record()
        >>> record.unknown.met, record.so_far.tested
        (10, 590)
        """
        with self._guard.lock:
            self._check_fitted()
            return report_of(self)

    def unknown_score(self, X: ArrayLike) -> NDArray[np.float64]:
        """How unlike everything learned each row is, (n,) in [0, 1). Needs `track=True`.

        About a share p of samples of known classes score above 1 - p, by the track record. Rows are compared by their
        direction, whatever their length.
        """
        rows, now = self._query(X), self._now()
        return now.unknown_scores(rows)

    # ---- what was learned -----------------------------------------------------------------------

    def memory_bytes(self, working: bool = False) -> int:
        """What is kept of the stream, in bytes: arrays and random state.

        Asking a model makes working copies, which the next samples throw away; `working` counts them too.
        """
        made = () if working else (*self._working, "_own_guard")
        with self._guard.lock:
            kept = {name: value for name, value in vars(self).items() if name not in made}
            return held_bytes(kept)

    # ---- saving ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file, whole or not at all; `votestream.load` reads it."""
        saved.save(self, path)

    def _header(self) -> dict[str, Any]:
        return saved.header_of(self)

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        return saved.arrays_of(self)

    @classmethod
    def _from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Learner:
        model: Learner = saved.from_file(cls, header, arrays, device)
        return model

    def _copied(self) -> Any:
        return saved.copied(self)

    def _take_in_model(self, other: Any) -> None:
        take_in(self, other)

    # ---- for subclasses -------------------------------------------------------------------------

    def _begin_like(self, other: Any) -> None:
        """Take over from another, after `_begin`, whatever models that are merged must have in common."""
        for name in self._merged_alike:
            setattr(self, name, getattr(other, name))

    def _part_settings(self) -> dict[str, Any]:
        """Arguments that learners of parts of the stream have instead, as what they drop is lost to the whole."""
        return {}

    def _settle(self) -> None:
        """No row waits any more to be taken into what is kept."""

    def _merge(self, other: Any, numbers: NDArray[np.int64]) -> None:
        """Add what the other has learned; its class i is class numbers[i] here."""
        raise NotImplementedError

    def _check_X(self, X: ArrayLike, width: int | None) -> NDArray[Any]:
        """The rows, float32, in the units that this model learns in."""
        return in_units(as_features(X, width, type(self).__name__), self._unit)

    def _check_settings(self) -> None:
        """Complain about constructor arguments, given or set since; those checked last are not checked again."""
        check_settings(self)

    def _never_changed(self) -> tuple[str, ...]:
        return (*self._fixed, "track") if hasattr(self, "track") else self._fixed

    def _check_params(self) -> None:
        """Complain about constructor arguments."""
        as_device(self.device)
        check_seed(self.seed)
        for name, allowed in ranges_of(self).items():
            allowed.check(name, getattr(self, name))

    def _begin(self, X: NDArray[Any]) -> None:
        raise NotImplementedError

    def _learn(self, X: NDArray[Any], classes: NDArray[np.int64], offset: int) -> None:
        """Learn rows of one task; mini-batches end where they do in the call, `offset` rows into one."""
        raise NotImplementedError

    def _predictor(self) -> Predictor | None:
        """Made from what was learned, waiting rows too, under the lock. None: `_decide` and `_probabilities` answer."""
        return None

    def _updated(self, predictor: Any, changed: set[int]) -> Predictor | None:
        """The same as `_predictor`, from one that was right before these classes were learned."""
        return self._predictor()

    def _decide(self, X: NDArray[Any]) -> NDArray[np.int64]:
        raise NotImplementedError

    def _probabilities(self, X: NDArray[Any]) -> NDArray[np.float64]:
        raise NotImplementedError

    def _as_module(self) -> nn.Module:
        """As a predictor's `as_module`, for one that answers from what it learns with."""
        raise ValueError(f"a {type(self).__name__} cannot be exported: it has no _as_module()")

    def _arrays(self) -> dict[str, NDArray[Any]]:
        raise NotImplementedError

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        raise NotImplementedError

    def _is_fitted(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def _check_growth(self, known: int, soon: int, width: int) -> None:
        """The place to warn or complain about the number of classes: nothing has been learned of the call yet."""

    def _check_fitted(self) -> None:
        if self._broken:
            raise RuntimeError("learning was interrupted in the middle of a call; go on from the last saved model")
        if self._guard.torn:
            raise RuntimeError(
                f"this process was forked while another thread used this {type(self).__name__}, which may be half "
                "changed here: load it from a file, hand a snapshot() over, or fork while nobody uses it"
            )
        if not self._is_fitted():
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet; call partial_fit first")
