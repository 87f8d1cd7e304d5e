"""`check_learner` finds what is wrong: for every promise a learner that breaks it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import votestream as vs
from conftest import one_thread
from votestream.memory import FeatureMemory
from votestream.testing import check_learner, learner_checks
from votestream.testing.promise import CHECKS

FAULTS: dict[str, type[vs.Learner]] = {}  # by the check that has to find it


def breaks(check):
    def enter(cls):
        assert check not in FAULTS
        FAULTS[check] = cls
        return cls

    return enter


class Base(vs.NearestClassMean):
    """Has no fault; the others differ from it in one place."""

    def __init__(self, close_task_after=20, batch_size=10, seed=0, device="cpu", track=False):
        super().__init__(close_task_after, batch_size, seed, device, track)


@breaks("check_that_the_constructor_only_stores")
class Prepares(Base):
    def __init__(self, close_task_after=20, batch_size=10, seed=0, device="cpu", track=False):
        super().__init__(close_task_after, batch_size, seed, device, track)
        self.ready = True


@breaks("check_that_separated_classes_are_learned")
class AlwaysTheFirst(Base):
    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


@breaks("check_that_partial_fit_returns_the_model")
class ReturnsNothing(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        super().partial_fit(X, y, task, classes)


@breaks("check_that_any_batch_size_is_taken")
class WantsTwoRows(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        if len(X) < 2:
            raise ValueError("give me two")
        return super().partial_fit(X, y, task, classes)


@breaks("check_that_a_whole_task_equals_its_mini_batches")
class LearnsTenRowsOfACall(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        return super().partial_fit(X[:10], y[:10], task, classes)


@breaks("check_that_the_same_seed_gives_the_same_model")
class DrawsWithoutASeed(Base):
    def learn(self, X, classes, offset):
        super().learn(X + np.float32(np.random.default_rng().normal()), classes, offset)


@breaks("check_that_saving_and_loading_changes_nothing")
class ForgetsItsCounterInTheFile(Base):
    calls = 0

    def learn(self, X, classes, offset):
        self.calls = self.calls + 1
        super().learn(X * np.float32(self.calls), classes, offset)


@breaks("check_that_predicting_has_no_side_effect")
class LearnsFromItsAnswers(Base):
    def predict(self, X):
        answers = super().predict(X)
        self.partial_fit(X, answers)
        return answers


@breaks("check_that_the_callers_arrays_are_left_alone")
class CentresInPlace(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        X -= X.mean(0)
        return super().partial_fit(X, y, task, classes)


@breaks("check_that_labels_may_be_renamed")
class SortsItsLabels(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        order = np.argsort(np.asarray(y).astype(str), kind="stable")
        return super().partial_fit(X[order], np.asarray(y)[order], task, classes)


@breaks("check_that_labels_may_mix")
class AnswersInStrings(Base):
    def predict(self, X):
        return super().predict(X).astype(str)


@breaks("check_that_classes_are_sorted")
class ListsClassesAsTheyCame(Base):
    classes_ = Base.classes_seen_


@breaks("check_that_arrays_stand_as_classes_do")
class CountsInOrderOfAppearance(Base):
    @property
    def class_counts_(self):
        return np.arange(len(self.classes_))


@breaks("check_that_probabilities_are_probabilities")
class SureTwice(Base):
    def predict_proba(self, X):
        return 2 * super().predict_proba(X)


@breaks("check_that_changed_parameters_count")
class KeepsTheFirstTemperature(Base):
    def __init__(self, temperature=1.0, close_task_after=20, batch_size=10, seed=0, device="cpu", track=False):
        super().__init__(close_task_after, batch_size, seed, device, track)
        self.temperature = temperature

    def predict_proba(self, X):
        self._first = getattr(self, "_first", self.temperature)
        shares = super().predict_proba(X) ** (1 / self._first)
        return shares / shares.sum(1, keepdims=True)


@breaks("check_that_tasks_told_are_kept")
class NeverListens(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        return super().partial_fit(X, y, None, classes)


@breaks("check_that_one_class_works")
class NeedsTwoClasses(Base):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, 1:]


@breaks("check_that_memory_is_bounded")
class KeepsEverything(Base):
    def learn(self, X, classes, offset):
        self.rows = [*getattr(self, "rows", []), X.copy()]
        super().learn(X, classes, offset)


@breaks("check_that_a_budget_holds")
class OneTooMany(vs.NearestNeighbours):
    def new_memory(self, width):
        return FeatureMemory(width, self.budget + 1, self.keep, self.seed)


@breaks("check_that_bad_input_is_refused")
class AcceptsNaN(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        X = np.nan_to_num(X) if np.asarray(X).dtype.kind == "f" else X
        return super().partial_fit(X, y, task, classes)


@breaks("check_that_bad_queries_are_refused")
class AnswersNaN(Base):
    def predict_proba(self, X):
        return super().predict_proba(np.nan_to_num(X) if X.dtype.kind == "f" else X)


@breaks("check_that_bad_first_input_leaves_nothing")
class BeginsTooEarly(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        if not hasattr(self, "n_features_in_"):
            super().partial_fit(np.nan_to_num(X[:1]), y[:1], task, classes)
        return super().partial_fit(X, y, task, classes)


@breaks("check_that_asking_before_learning_is_refused")
class GuessesBeforeItKnows(Base):
    def predict(self, X):
        return super().predict(X) if hasattr(self, "n_features_in_") else np.zeros(len(X), int)


@breaks("check_that_containers_do_not_matter")
class ReadsListsOtherwise(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        return super().partial_fit(np.array(X) + 1 if isinstance(X, list) else X, y, task, classes)


@breaks("check_that_other_numbers_are_taken")
class TakesFloatsOnly(Base):
    def partial_fit(self, X, y, task=None, classes=None):
        if X.dtype.kind != "f":
            raise ValueError("floats, please")
        return super().partial_fit(X, y, task, classes)


@breaks("check_that_tracking_changes_nothing_learned")
class LearnsOtherwiseWhenTested(Base):
    def learn(self, X, classes, offset):
        super().learn(X + 1 if self.track else X, classes, offset)


@breaks("check_that_a_track_record_resumes")
class CountsLoadingAsASample(Base):
    @classmethod
    def from_file(cls, *args):
        model = super().from_file(*args)
        model.state_.tracker.skip(1)
        return model


@breaks("check_that_unknown_scores_are_scores")
class ScoresInPerCent(Base):
    def unknown_score(self, X):
        return 100 * super().unknown_score(X)


@breaks("check_that_confidence_is_a_probability")
class SurerThanPossible(Base):
    def confidence(self, X, unknown_share=0.1):
        return super().confidence(X, unknown_share) ** 0.01


def test_a_parameter_of_ones_own_counts_from_the_next_prediction_on():
    class Sharpened(NamedTuple):
        rule: Any
        power: float

        def decide(self, X):
            return self.rule.decide(X)

        def probabilities(self, X):
            shares = self.rule.probabilities(X) ** self.power
            return shares / shares.sum(1, keepdims=True)

    @vs.register("sharpened")
    class OwnParameter(Base):
        def __init__(self, power=1.0, close_task_after=20, batch_size=10, seed=0, device="cpu", track=False):
            super().__init__(close_task_after, batch_size, seed, device, track)
            self.power = power

        def new_predictor(self):
            return Sharpened(super().new_predictor(), self.power)

    model = OwnParameter().partial_fit([[0.0], [1.0]], ["a", "b"])
    before = model.predict_proba([[0.1]])
    after = model.set_params(power=2.0).predict_proba([[0.1]])
    assert np.allclose(after, before**2 / (before**2).sum())
    check_learner(OwnParameter)


def test_predict_and_predict_proba_that_disagree_between_classes_are_caught():
    @vs.register("faulty")
    class ScalesInPredictOnly(Base):
        """Agrees with its own probabilities wherever classes are far apart."""

        def predict(self, X):
            return super().predict(0.95 * X)

    with pytest.raises(AssertionError, match=r"predict has another class for \d+% of the samples between two classes"):
        CHECKS["check_that_probabilities_are_probabilities"][0](ScalesInPredictOnly)


def test_there_is_a_fault_for_every_check():
    assert FAULTS.keys() == CHECKS.keys()


@pytest.mark.parametrize("check", FAULTS)
def test_a_learner_that_breaks_a_promise_is_caught_by_its_check(check):
    faulty = vs.register("faulty")(FAULTS[check])
    with pytest.raises(AssertionError) as told:
        CHECKS[check][0](faulty)
    assert "registered" not in str(told.value)
    parent = faulty.__bases__[0]
    CHECKS[check][0](vs.register("faultless")(Base) if parent is Base else parent)


def test_a_model_changed_by_what_it_refuses_is_caught():
    @vs.register("hasty")
    class Hasty(Base):
        def partial_fit(self, X, y, task=None, classes=None):
            if hasattr(self, "n_features_in_") and len(X):
                super().partial_fit(np.ones((1, 12)), self.classes_[:1])
            return super().partial_fit(X, y, task, classes)

    with pytest.raises(AssertionError, match="lengths that differ: refused, but the file differs afterwards"):
        check_learner(Hasty, skip=CHECKS.keys() - {"check_that_bad_input_is_refused"})


def test_the_sentence_says_which_promise_broke_and_how():
    with pytest.raises(AssertionError, match=r"^probabilities sum to one and agree with predict: a row sums to 2$"):
        check_learner(vs.register("faulty")(SureTwice))


def test_a_learner_that_is_not_registered_is_told_to_be():
    with pytest.raises(AssertionError, match=r"Base is not registered, .*@votestream\.register"):
        check_learner(Base)


def test_a_broken_learner_on_images_is_caught():
    @vs.register("faulty")
    class Faulty(vs.ExperienceReplay):
        def predict(self, X):
            return self.partial_fit(X, super().predict(X)).classes_[:1].repeat(len(X))

    with one_thread(), pytest.raises(AssertionError, match="predicting has no side effect"):
        CHECKS["check_that_predicting_has_no_side_effect"][0](
            lambda **more: Faulty(backbone="tiny", device="cpu", **more)
        )


def test_checks_on_features_are_not_for_learners_on_images():
    on_images = {check.__name__ for check in learner_checks(vs.ExperienceReplay)}
    assert {name for name in CHECKS if name not in on_images} == {
        "check_that_bad_queries_are_refused",
        "check_that_bad_first_input_leaves_nothing",
        "check_that_containers_do_not_matter",
        "check_that_other_numbers_are_taken",
        "check_that_a_track_record_resumes",
        "check_that_tracking_changes_nothing_learned",
        "check_that_unknown_scores_are_scores",
        "check_that_confidence_is_a_probability",
    }


def test_a_check_to_skip_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="skip must name checks, got check_nothing"):
        check_learner(Base, skip=["check_nothing"])
    one = "check_that_the_constructor_only_stores"
    assert len(learner_checks(Base, skip=[one])) == len(CHECKS) - 1
