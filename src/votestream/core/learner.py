"""The contract every learner keeps, and what they share: input checks, labels, tasks, predicting, saving."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from votestream.common.parameters import SWITCH, Ranges, shown, whole
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
from votestream.core import files
from votestream.core.guard import Guard, learned
from votestream.core.old_hooks import adopt_old_hooks
from votestream.core.predictor import Predictor, Prepared
from votestream.core.settings import argument_names, check_settings, frozen_of, ranges_of, settings_of
from votestream.core.snapshot import RowCheck, Snapshot, snapshot_of
from votestream.core.state import Label, M, State
from votestream.core.tasks import TaskLedger
from votestream.core.tracked import learn_tested, report_of, tracker_for
from votestream.core.weights import refuse_weights, repeated
from votestream.memory import Forgets, Joins, Merges
from votestream.memory.held_bytes import held_bytes
from votestream.tracking import TrackReport
from votestream.tracking.unknowns import UNKNOWN_SHARE


class Learner(ClassifierMixin, BaseEstimator, Generic[M]):  # type: ignore[misc]
    """Learns from a stream of labelled rows, one pass, and classifies among every class it has seen.

    A method is a subclass: it stores its constructor's arguments and writes `new_memory` (what it keeps), and
    `new_predictor` (how it predicts from that). One that does more with rows than to keep them writes `learn`. Classes
    are numbers there, counted in order of first appearance; labels, tasks, input checks, files, merging and corrections
    are done here, once. docs/extending.md lists every method that a subclass may write, and what calls it.

    Threads: any number may predict while one learns. Each prediction is that of the model after some whole call of
    `partial_fit`; one made while a call is under way may be that from before it. Calls that learn wait for each other.
    """

    name = ""  # by which it is registered
    input = "features"  # what X holds: "features", or "images" for a learner with a network of its own
    bounded = True  # with all classes seen, what is kept grows no more; False for a learner that keeps the data
    # What constructor arguments may be, for callers and for model files; subclasses add theirs.
    parameter_ranges: ClassVar[Ranges] = {
        "batch_size": whole(1, 10**6),
        "close_task_after": whole(1, 10**9),
        "track": SWITCH,
    }
    fixed_parameters: tuple[str, ...] = ()  # constructor arguments that cannot change once learning has begun
    derived: tuple[str, ...] = ()  # attributes that can be made again, which `memory_bytes` does not count
    why_not = "it is trained step by step on one stream; teach a new model"  # it cannot forget, or be merged
    calibration_fade: float | None = 1.0  # how fast test records lose weight as classes come; None: do not calibrate
    test_growth = 1.0  # with `track`, a learner that is slow to prepare is tested whenever the stream has grown by this
    # Constructor arguments that every learner has.
    seed: int
    device: str
    batch_size: int
    close_task_after: int = 20
    _state: State[M] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        adopt_old_hooks(cls)

    # ---- what a method writes -------------------------------------------------------------------

    def new_memory(self, width: int) -> M:
        """An empty memory for rows of so many features, by the constructor's arguments."""
        raise NotImplementedError

    def learn(self, X: NDArray[Any], classes: NDArray[np.int64], offset: int) -> None:
        """Learn rows of one task; mini-batches end where they do in the call, `offset` rows into one."""
        self.memory_.add(X, classes)

    def new_predictor(self) -> Predictor:
        """How to predict, from what was learned. Called under the lock."""
        raise NotImplementedError

    def check_params(self) -> None:
        """Raise a ValueError for constructor arguments that are wrong; those of `parameter_ranges` are checked here."""
        as_device(self.device)
        check_seed(self.seed)
        for name, allowed in ranges_of(self).items():
            allowed.check(name, getattr(self, name))

    def check_growth(self, known: int, soon: int, width: int) -> None:
        """Warn or raise where there are about to be too many classes; nothing has been learned of the call yet."""

    def rows_of(self, X: ArrayLike, width: int | None) -> NDArray[Any]:
        """X as rows that `learn` and predictors take, of the width that is expected if it is known."""
        unit = 1.0 if self._state is None else self._state.unit
        return in_units(as_features(X, width, type(self).__name__), unit)

    def part_params(self) -> dict[str, Any]:
        """Arguments that learners of parts of a stream have instead, as what they drop is lost to the whole."""
        return {}

    def params_changed(self) -> None:
        """Tell the memory of arguments that were set after learning began."""

    # ---- learning -------------------------------------------------------------------------------

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: str | int | None = None,
        classes: ArrayLike | None = None,
        **refused: Any,
    ) -> Self:
        """Learn the rows in their order, in mini-batches of `batch_size`.

        X: features (n, D), a NumPy array, a data frame or a torch tensor. y: n labels, strings or integers; unseen
        ones become new classes. task: the task that new classes belong to; left out, it is found. classes:
        scikit-learn's list of all classes to come, which is not needed; where given, y may hold no others.
        """
        refuse_weights(self, refused)
        with self.guard.lock:
            self._partial_fit(X, y, task, classes)
        return self

    def _partial_fit(self, X: ArrayLike, y: ArrayLike, task: Any, classes: Any, sample_weight: Any = None) -> None:
        state = self._state
        if self.guard.torn or (state is not None and state.broken):
            self.check_fitted()
        check_settings(self)
        rows, unit = self.rows_to_learn(X)
        known = None if state is None else state.feature_names
        names = check_column_names(known, X, type(self).__name__, state is not None)
        labels = as_labels(y, len(rows))
        if sample_weight is not None:
            rows, labels = repeated(rows, labels, sample_weight)
        named = None if task is None else as_task(task)
        numbers: dict[Label, int] = {} if state is None else state.numbers
        new = check_known_labels(labels, numbers, () if state is None else state.naming.seen, classes)
        self.check_growth(len(numbers), len(numbers) + len(new), rows.shape[1])
        before = self.prepared if state is not None else None
        if state is None:
            state = self.begin(rows, unit, names)
        try:
            if named is not None:
                state.tasks.begin(named)
            learn = partial(self._learn_rows, state, named is not None)
            if state.tracker is None:
                learn(rows, labels)
            else:
                learn_tested(state, rows, labels, self.batch_size, self.test_growth, before, self._prepared, learn)
        except BaseException:  # Ctrl-C, or no memory left: rows are half applied, and must not pass for learned
            state.broken = True
            raise
        finally:
            self.guard.learned(state.numbers, labels)

    def begin(self, rows: NDArray[Any], unit: float, names: NDArray[Any] | None = None, like: Any = None) -> State[M]:
        """Get ready to learn; `rows` are the first ones, `like` a memory that this one is merged with later."""
        memory, width = self.new_memory(rows.shape[1]), rows.shape[1]
        tracker, tasks = tracker_for(self, width), TaskLedger(int(self.close_task_after))
        state = State(memory, tasks, width, unit=unit, feature_names=names, tracker=tracker, frozen=frozen_of(self))
        if like is None:
            memory.begin(rows[: self.batch_size], unit)
        else:
            memory.begin_like(like)
        self._state = state
        return state

    def _learn_rows(self, state: State[M], named: bool, rows: NDArray[Any], labels: list[Label]) -> NDArray[np.int64]:
        """Learn the rows; returns their classes' numbers."""
        numbers = state.number_classes(labels)
        for start, end in state.tasks.cut(numbers.tolist(), named=named):
            self.learn(rows[start:end], numbers[start:end], start % self.batch_size)
        return numbers

    def rows_to_learn(self, X: ArrayLike) -> tuple[NDArray[Any], float]:
        """The rows as they are learned, none out of all proportion to the first ones; and the unit they are in."""
        state = self._state
        if state is not None and state.unit == 1 and type(self).rows_of is Learner.rows_of:  # each number is read once
            return as_features(X, state.n_features, type(self).__name__, OUTLYING), 1.0
        rows, unit = self.rows_of(X, None if state is None else state.n_features), 1.0
        if rows.dtype == np.float32:  # features, not images
            if state is None:
                unit = scale_unit(rows[: self.batch_size])
                rows = in_units(rows, unit)
            else:
                unit = state.unit
            check_reach(rows, unit)
        return rows, unit

    def fit(self, X: ArrayLike, y: ArrayLike, **refused: Any) -> Self:
        """Forget everything, then learn the rows; a call that is refused leaves the model as it was."""
        refuse_weights(self, refused)
        return self._fit(X, y)

    def _fit(self, X: ArrayLike, y: ArrayLike, **weights: Any) -> Self:
        fresh = type(self)(**self.get_params(deep=False))
        fresh.partial_fit(X, y, **weights)
        return self.take_over(fresh.state_)

    def take_over(self, state: State[M]) -> Self:
        """Have learned what another learner has, and nothing else; that one is not to be used any more."""
        with self.guard.lock:
            self._state = state
            self.guard.forget()
        return self

    # ---- predicting -----------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of each row, (n,)."""
        rows, now = self.query(X), self.prepared()
        if not now.live:
            return now.labels(rows)
        with self.guard.lock:
            return self.prepared().labels(rows)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class, (n, C); rows sum to 1, columns stand as in `classes_`."""
        rows, now = self.query(X), self.prepared()
        if not now.live:
            return now.probabilities(rows)
        with self.guard.lock:
            return self.prepared().probabilities(rows)

    def prepared(self) -> Prepared:
        """What predicts, made anew where learning has gone on since, or parameters were set."""
        guard, now = self.guard, self.guard.now
        settings = settings_of(self)
        if now is None or now.settings != settings:
            with guard.lock:
                if guard.now is not None and guard.now.settings == settings:
                    return guard.now  # another thread was quicker
                self.check_fitted()
                check_settings(self)
                now = guard.now = self._prepared(guard.before, guard.changed)
                guard.before, guard.changed = None, set()
        return now

    def _prepared(self, before: Prepared | None, changed: set[int]) -> Prepared:
        """What predicts, from what did before these classes were learned; under the lock."""
        settings, predictor = settings_of(self), None
        if before is not None and before.settings == settings:
            update: Callable[..., Any] | None = getattr(before.predictor, "updated", None)
            predictor = update and update(self.state_, changed)
        return Prepared.of(self.state_, predictor or self.new_predictor(), settings, before)

    def query(self, X: ArrayLike) -> NDArray[Any]:
        """X as rows that the predictor takes, checked."""
        state = self.state_
        check_column_names(state.feature_names, X, type(self).__name__, fitted=True)
        return self.rows_of(X, state.n_features)

    def snapshot(self) -> Snapshot:
        """A model that predicts as this one does now, whatever is learned later; it never changes.

        It holds what predicting prepared, and no copy of it. A network that goes on being trained is copied for it.
        """
        with self.guard.lock:
            state = self.state_
            check: Any = RowCheck(type(self).__name__, state.n_features, state.unit, state.feature_names)
            if type(self).rows_of is not Learner.rows_of:  # images, or a subclass with checks of its own
                check = None
            return snapshot_of(self, self.prepared(), check)

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
        with self.guard.lock:
            return report_of(self.state_)

    def unknown_score(self, X: ArrayLike) -> NDArray[np.float64]:
        """How unlike everything learned each row is, (n,) in [0, 1). Needs `track=True`.

        About a share p of samples of known classes score above 1 - p, by the track record. Rows are compared by their
        direction, whatever their length.
        """
        rows, now = self.query(X), self.prepared()
        return now.unknown_scores(rows)

    def confidence(self, X: ArrayLike, unknown_share: float = UNKNOWN_SHARE) -> NDArray[np.float64]:
        """The probability that each row is of a known class and `predict` names the right one. Needs `track=True`.

        `predict_proba` is about known classes alone. Here unknown ones count: `unknown_share` is the share of rows of
        classes never learned among those that are asked about. nan where the model cannot know yet: with one class, or
        one sample of each.

        >>> import numpy as np, votestream as vs
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(300) % 3
        >>> model = vs.GaussianVoting(track=True).partial_fit(rng.normal(size=(300, 8)) + 5 * np.eye(8)[y], y)
        >>> known, unknown = 5 * np.eye(8)[[0, 7]]
        >>> model.confidence([known, unknown]).round(1).tolist()
        [1.0, 0.1]
        """
        rows, now = self.query(X), self.prepared()
        if not now.live:
            return now.confidence(rows, unknown_share)
        with self.guard.lock:
            return self.prepared().confidence(rows, unknown_share)

    # ---- correcting -----------------------------------------------------------------------------

    def forget(self, label: Label) -> Self:
        """Take a class out of the model: what is kept of it, its label, and its task if that has no other class.

        docs/life.md says how exact that is for each learner.

        >>> import votestream as vs
        >>> model = vs.NearestClassMean().partial_fit([[0.0], [1.0], [9.0]], ["a", "b", "c"])
        >>> model.forget("b").classes_.tolist()
        ['a', 'c']
        """
        with self.guard.lock:
            number, memory = self._number_of(label), self.memory_
            if not isinstance(memory, Forgets):
                raise ValueError(f"a {type(self).__name__} cannot forget a class: {self.why_not}")
            if len(self.state_.numbers) == 1:
                raise ValueError(f"{shown(label)} is the only class that the model knows; start a new model instead")
            self._correct("forget", number)
        return self

    def rename(self, old: Label, new: Label) -> Self:
        """Give a class another label. Where that label is a class already, the two become one, in the other's place.

        >>> import votestream as vs
        >>> model = vs.NearestClassMean().partial_fit([[0.0], [1.0], [9.0]], ["cat", "kat", "dog"])
        >>> model.rename("kat", "cat").class_means_.tolist()
        [[0.5], [9.0]]
        """
        with self.guard.lock:
            number, state = self._number_of(old), self.state_
            (label,) = as_labels([new], 1)
            check_known_labels([label], state.numbers, list(state.numbers), None)
            into = state.numbers.get(label)
            if into is None:
                state.rename(list(state.numbers)[number], label)
                self.guard.forget()
            elif into != number:
                if not isinstance(state.memory, Joins):
                    raise ValueError(f"a {type(self).__name__} cannot make one class of two: {self.why_not}")
                self._correct("join", number, into)
        return self

    def _correct(self, change: str, *numbers: int) -> None:
        """Have the memory and the track record forget a class, or join it to another."""
        state = self.state_
        try:
            getattr(state.memory, change)(*numbers)
            if state.tracker is not None:
                getattr(state.tracker, change)(*numbers)
            state.drop_class(numbers[0])
        except ValueError:  # the memory refuses, and has changed nothing
            raise
        except BaseException:  # as in partial_fit
            state.broken = True
            raise
        finally:
            self.guard.forget()

    def _number_of(self, label: Label) -> int:
        numbers = self.state_.numbers
        (known,) = as_labels([label], 1)
        if known not in numbers:
            raise ValueError(f"the model knows no class {shown(label)}")
        return numbers[known]

    def merge_in(self, other: Learner[M]) -> None:
        """Learn all that the other knows; `votestream.merge` does so with a copy."""
        from votestream.core.merge import merge_into  # which imports this file

        merge_into(self, other)

    # ---- what was learned -----------------------------------------------------------------------

    @property
    def guard(self) -> Guard:
        """The lock, and what was prepared to predict with."""
        found: Guard | None = self.__dict__.get("_own_guard")
        return found or self.__dict__.setdefault("_own_guard", Guard())

    @property
    def state_(self) -> State[M]:
        """Everything learned, with labels and tasks; for methods and tools, not to be changed from outside."""
        self.check_fitted()
        return self._state  # type: ignore[return-value]

    @property
    def memory_(self) -> M:
        """What the method keeps of the stream."""
        return self.state_.memory

    def check_fitted(self) -> None:
        """Raise where nothing was learned, or learning was interrupted."""
        if self._state is not None and self._state.broken:
            raise RuntimeError("learning was interrupted in the middle of a call; go on from the last saved model")
        if self.guard.torn:
            raise RuntimeError(
                f"this process was forked while another thread used this {type(self).__name__}, which may be half "
                "changed here: load it from a file, hand a snapshot() over, or fork while nobody uses it"
            )
        if self._state is None:
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet; call partial_fit first")

    @property
    def fitted(self) -> bool:
        """Whether it has learned anything."""
        return self._state is not None

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted

    @property
    def mergeable(self) -> bool:
        """Whether `votestream.merge` takes it."""
        return isinstance(self.new_memory(1) if self._state is None else self._state.memory, Merges)

    @property
    def n_features_in_(self) -> int:
        """The width of the rows."""
        return self.state_.n_features

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, where the first rows came as a data frame."""
        names = self.state_.feature_names
        if names is None:
            raise AttributeError("the first rows came without column names")
        return names

    @learned
    def classes_(self) -> NDArray[Any]:
        """Every label seen, sorted; numbers before strings where they mix."""
        return self.state_.naming.sorted

    @learned
    def classes_seen_(self) -> NDArray[Any]:
        """Every label seen, in order of first appearance."""
        return self.state_.naming.seen.copy()

    @learned
    def task_of_class_(self) -> NDArray[np.int64]:
        """The task of each class, counted from 0, as `classes_`."""
        return self.by_class(self.state_.task_numbers())

    @learned
    def tasks_(self) -> list[str | int | None]:
        """The name of each task; None where it was found by itself."""
        return list(self.state_.tasks.names)

    def by_class(self, table: NDArray[Any]) -> NDArray[Any]:
        """A copy of an array that has a row for each class number, with rows as in `classes_`."""
        return table[self.state_.naming.order]

    def memory_bytes(self, working: bool = False) -> int:
        """What is kept of the stream, in bytes: arrays and random state.

        Asking a model makes working copies, which the next samples throw away; `working` counts them too.
        """
        with self.guard.lock:
            if working:
                return held_bytes(vars(self))
            cls: Any = type(self)
            aside = {*argument_names(cls), *self.derived, "_own_guard", "_state"}
            kept = [value for name, value in vars(self).items() if name not in aside]
            state = self._state
            if state is not None:
                kept += [state.feature_names, state.tracker]
            return held_bytes(kept) + (0 if state is None else state.memory.nbytes)

    # ---- saving ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one safetensors file, whole or not at all; `votestream.load` reads it."""
        files.save(self, path)

    def header(self) -> dict[str, Any]:
        """All there is to save that is not an array, fit for JSON."""
        return files.header_of(self)

    @classmethod
    def from_file(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], device: str | None, backbone: Any
    ) -> Self:
        """The model that a file's header and arrays describe; whatever they cannot hold raises a ValueError."""
        model: Self = files.from_file(cls, header, arrays, device)
        return model
