"""Confidence that can be believed: what calibration does to probabilities, and that decisions stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import votestream as vs
from votestream.tracking.calibration import Calibration, CalibrationSums, octave


def calibration_error(shares, right, bins=10):
    stated = shares.max(1)
    place = np.minimum((stated * bins).astype(int), bins - 1)
    return sum(abs((stated - right)[place == i].sum()) for i in range(bins)) / len(stated)


def overlapping(n, seed, stretch=3.0):
    """Six classes that overlap, with features so large that nearest class means are far too sure."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 6, n)
    return stretch * (rng.normal(size=(n, 8)) + 1.5 * np.eye(8)[y]), y


def test_overconfident_probabilities_are_put_right():
    (X, y), (X_test, y_test) = overlapping(800, 0), overlapping(3000, 1)
    tracked, plain = (vs.NearestClassMean(track=track).partial_fit(X, y) for track in (True, False))
    right = plain.predict(X_test) == y_test
    assert calibration_error(plain.predict_proba(X_test), right) > 0.18
    assert calibration_error(tracked.predict_proba(X_test), right) < 0.07


def test_probabilities_that_are_right_stay_about_right():
    (X, y), (X_test, y_test) = overlapping(800, 0, stretch=1.0), overlapping(3000, 1, stretch=1.0)
    tracked = vs.NearestClassMean(track=True).partial_fit(X, y)
    assert calibration_error(tracked.predict_proba(X_test), tracked.predict(X_test) == y_test) < 0.07


def test_records_of_young_classes_do_not_count_for_well_known_ones():
    sums, shares = CalibrationSums(fade=1.0), np.tile([0.8, 0.1, 0.1], (400, 1))
    sums.add(shares, np.zeros(400, bool), np.full(400, 2))  # always wrong while a class had two samples
    sums.add(shares, np.arange(400) % 5 > 0, np.full(400, 500))  # right as stated once it had 500
    stated = sums.now(np.full(3, 500))(shares[:1].copy()).max()
    assert stated == pytest.approx(0.8, abs=0.02)
    assert sums.now(np.full(3, 2))(shares[:1].copy()).max() < 0.5


def test_a_few_records_change_little():
    sums, shares = CalibrationSums(fade=1.0), np.array([[0.6, 0.3, 0.1]])
    sums.add(shares, np.array([True]), np.array([1]))
    assert sums.now(np.ones(3, np.int64))(shares.copy()).max() == pytest.approx(0.6, abs=0.05)
    assert np.array_equal(CalibrationSums(1.0).now(np.ones(3, np.int64))(shares.copy()), shares)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 1, exclude_min=False), min_size=2, max_size=6).filter(lambda row: sum(row) > 0),
    st.floats(1e-3, 1e4),
    st.floats(0, 1),
)
def test_the_order_of_a_rows_classes_stays(row, heat, trust):
    shares = np.array([row]) / np.sum(row)
    calibrated = Calibration(heat, trust)(shares.copy())
    assert np.isfinite(calibrated).all()
    assert calibrated.sum() == pytest.approx(1)
    assert calibrated.argmax() == shares.argmax()
    order = shares[0].argsort(kind="stable")
    assert (np.diff(calibrated[0][order]) >= -1e-12).all()


def test_counts_stand_by_powers_of_two():
    assert octave(np.array([0, 1, 2, 3, 4, 1023, 1024, 2**40])).tolist() == [0, 0, 1, 1, 2, 9, 10, 23]


def test_the_newest_records_of_a_learner_that_forgets_calibrate_nothing():
    X, y = overlapping(200, 0)
    tracked, plain = (vs.FeatureReplay(track=track, device="cpu").partial_fit(X, y) for track in (True, False))
    assert np.array_equal(tracked.predict_proba(X), plain.predict_proba(X))
