"""How good a model is: track record, calibrated probabilities, unknown scores and drift alarms."""

from votestream.tracking.report import TrackReport
from votestream.tracking.tracker import Answers, Tracker

__all__ = ["Answers", "TrackReport", "Tracker"]
