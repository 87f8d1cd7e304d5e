"""Probabilities that say how often they are right, by what the track record has of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from votestream.io.array_checks import MANY, check_below, take

HEATS = np.exp(np.linspace(math.log(1e-3), math.log(1e4), 64))  # of which one is chosen, or what lies between two
OCTAVES = 24  # counts of samples by powers of two
NEAR = 16.0  # a record counts so many times less for every power of two between its class's count and those of now
DOUBT = 10.0  # records' worth of belief that probabilities are right as they come
FEW = 10.0  # records after which they are corrected half as far
TINY = 1e-300
LEAST_GAP = 1e-6


class Calibration(NamedTuple):
    """Immutable. Divides a row's log probabilities by its own temperature, (heat sqrt(gap)) ^ trust.

    `gap` is how far the other classes are behind the leading one, on average over them. One temperature for all rows
    leaves errors that rows of a wide gap have one way and rows of a narrow gap the other. The order of a row's classes
    stays, and with it every decision.
    """

    heat: float = 1.0
    trust: float = 0.0

    def __call__(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities (n, C) calibrated; of an array that is not used again."""
        if not self.trust or shares.shape[1] == 1:
            return shares
        first = shares.argmax(1)[:, None]
        log, gap = log_gaps(shares)
        calm = np.exp(log / (self.heat * np.sqrt(gap))[:, None] ** self.trust)
        lead = np.take_along_axis(calm, first, 1)
        behind = calm >= lead  # rounding has made them equal
        np.put_along_axis(behind, first, False, 1)
        calm[behind] = (lead * (1 - 8 * np.finfo(np.float64).eps)).repeat(calm.shape[1], 1)[behind]
        return calm / calm.sum(1, keepdims=True)


def log_gaps(shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log probabilities less the leading one's, (n, C), and how far behind they are on average, (n,)."""
    log = np.log(np.maximum(shares, TINY))
    log -= log.max(1, keepdims=True)
    return log, np.maximum(-log.sum(1) / max(1, shares.shape[1] - 1), LEAST_GAP)


class CalibrationSums:
    """What confidence would have been stated at each heat, and how often it was right, by samples of the class.

    Test-then-train records are mostly of the newest, least known classes, so one number for all would be wrong for
    the classes as they stand now. Each record is kept with the number of samples that its class had, and counts by
    how near that is to what the classes have now. As classes come, earlier records lose weight, by
    (before / now) ^ fade.
    """

    def __init__(self, fade: float) -> None:
        self._fade = fade
        self._stated = np.zeros((OCTAVES, len(HEATS)))
        self._seen = np.zeros((OCTAVES, 3))  # records, right ones, confidence as it came

    @staticmethod
    def nbytes() -> int:
        return 8 * OCTAVES * (len(HEATS) + 3)

    def grow(self, before: int, now: int) -> None:
        """Classes have come."""
        if before:
            self._stated *= (before / now) ** self._fade
            self._seen *= (before / now) ** self._fade

    def add(self, shares: NDArray[np.float64], right: NDArray[np.bool_], counts: NDArray[np.int64]) -> None:
        """Rows of known classes, which had so many samples; probabilities as they come."""
        log, gap = log_gaps(shares)
        heated = log[:, None] / (HEATS * np.sqrt(gap)[:, None])[:, :, None]
        stated = 1 / np.exp(heated).sum(2)
        octaves = octave(counts)
        np.add.at(self._stated, octaves, stated)
        np.add.at(self._seen, octaves, np.stack((np.ones(len(right)), right, shares.max(1)), axis=1))

    def merge(self, other: CalibrationSums) -> None:
        self._stated += other._stated
        self._seen += other._seen

    def now(self, counts: NDArray[np.int64]) -> Calibration:
        """For classes of so many samples: the heat at which as much is stated as was right."""
        held = np.bincount(octave(counts), minlength=OCTAVES) / len(counts)
        apart = np.abs(np.arange(OCTAVES)[:, None] - np.arange(OCTAVES))
        weights = NEAR**-apart @ held
        records, right, raw = (float(number) for number in weights @ self._seen)
        if not records:
            return Calibration()
        doubt = DOUBT / records
        too_much = (weights @ self._stated) * (1 + doubt) - (right + doubt * raw)  # falls as heat rises
        enough = float(np.sqrt(weights) @ self._seen[:, 0])  # what is known of counts not far away is known, too
        return Calibration(_crossing(too_much), enough / (enough + FEW))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"stated": self._stated, "seen": self._seen}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._seen = take(state, "seen", np.float64, (OCTAVES, 3), 0, MANY)
        self._stated = take(state, "stated", np.float64, (OCTAVES, len(HEATS)), 0, MANY)
        most = self._seen[:, :1] * (1 + 1e-6) + 1e-6
        check_below("seen", self._seen[:, 1:], most)
        check_below("stated", self._stated, most)


def octave(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The power of two at or below each count; of 0, that of 1."""
    return np.minimum(np.frexp(np.maximum(counts, 1).astype(np.float64))[1] - 1, OCTAVES - 1)


def _crossing(falling: NDArray[np.float64]) -> float:
    """The heat at which it is zero, between two in proportion; an end where it is not."""
    if falling[0] <= 0:
        return float(HEATS[0])
    if falling[-1] >= 0:
        return float(HEATS[-1])
    i = int((falling > 0).sum())
    part = falling[i - 1] / (falling[i - 1] - falling[i])
    return float(HEATS[i - 1] * (HEATS[i] / HEATS[i - 1]) ** part)
