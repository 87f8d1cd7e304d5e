"""Drift: classes that change are named, with the sample since when; others are left in peace."""

from __future__ import annotations

import numpy as np

import votestream as vs
from votestream.tracking.drift import DriftWatch


def stream(n=700, changed_at=None, seed=0):
    """Five classes; from a place on, class 2 looks as a sixth does."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(6, 10)) * 2
    y = rng.integers(0, 5, n)
    look = y.copy()
    if changed_at is not None:
        look[(np.arange(n) >= changed_at) & (y == 2)] = 5
    return centres[look] + rng.normal(size=(n, 10)), y


def test_a_class_that_changes_is_named_with_about_when():
    X, y = stream(changed_at=450)
    drift = vs.GaussianVoting(track=True, device="cpu").partial_fit(X, y).track_record().drift
    assert {change.label for change in drift} == {2}
    assert all(440 <= change.since <= 480 for change in drift)


def test_a_stream_that_stays_as_it_is_raises_no_alarm():
    for seed in range(2):
        X, y = stream(seed=seed)
        assert vs.NearestClassMean(track=True).partial_fit(X, y).track_record().drift == ()


def test_the_text_of_the_record_says_so():
    X, y = stream(changed_at=450)
    record = vs.NearestClassMean(track=True).partial_fit(X, y).track_record()
    assert "2 has changed (distance) since sample 4" in str(record)


def test_a_change_does_not_become_the_norm_while_it_lasts_and_ends_when_it_does():
    watch, rng = DriftWatch(), np.random.default_rng(0)
    watch.grow(1)

    def met(n, shift, place):
        for i in range(n):
            watch.add(0, False, shift + rng.normal(), place + i)

    met(200, 0.0, 0)
    assert watch.alarms() == []
    met(300, 3.0, 200)
    ((number, sign, since, until),) = watch.alarms()
    assert (number, sign, until) == (0, "distance", None)
    assert 195 <= since <= 205
    met(100, 0.0, 500)
    assert [alarm[:3] for alarm in watch.alarms()] == [(0, "distance", since)]
    assert 500 <= watch.alarms()[0][3] < 600


def test_samples_that_are_all_the_same_are_no_alarm():
    watch = DriftWatch()
    watch.grow(1)
    for place in range(100):
        watch.add(0, False, 1.0, place)
    assert watch.alarms() == []
