"""`check_learner`: what docs/contract.md promises, run on a learner of yours through its public interface."""

from __future__ import annotations

from collections.abc import Collection

from votestream.testing import checks, input_checks, track_checks  # noqa: F401 - which enter themselves
from votestream.testing.promise import CHECKS, Check, Make, takes_images

__all__ = ["check_learner", "learner_checks"]


def check_learner(learner: Make, *, skip: Collection[str] = ()) -> None:
    """Run every check that applies; the first promise that is not kept is an AssertionError that says which.

    Args:
        learner: A registered class, or a function that makes one, `lambda **params: Mine(**{"lr": 1.0, **params})`,
            with settings that suit a stream of 180 samples in six classes. A learner with an argument `backbone` is
            given images, tiny ones; others are given 12 features.
        skip: Names of checks to leave out.

    >>> import votestream as vs
    >>> check_learner(vs.NearestClassMean)
    >>> @vs.register("vain")
    ... class Vain(vs.NearestClassMean):
    ...     def predict_proba(self, X):
    ...         return 2 * super().predict_proba(X)
    >>> check_learner(Vain)
    Traceback (most recent call last):
    ...
    AssertionError: probabilities sum to one and agree with predict: a row sums to 2
    """
    for check in learner_checks(learner, skip=skip):
        check(learner)


def learner_checks(learner: Make, *, skip: Collection[str] = ()) -> list[Check]:
    """The checks that apply to a learner, functions to be called with it; for `pytest.mark.parametrize`.

    >>> import votestream as vs
    >>> [check.__name__ for check in learner_checks(vs.NearestClassMean)][:2]
    ['check_that_the_constructor_only_stores', 'check_that_separated_classes_are_learned']
    """
    unknown = sorted(set(skip) - set(CHECKS))
    if unknown:
        raise ValueError(f"skip must name checks, got {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    images = takes_images(learner)
    return [check for name, (check, on_features) in CHECKS.items() if name not in skip and not (images and on_features)]
