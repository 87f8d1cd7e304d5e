"""A model's life: its track record, confidence calibrated by it, what it does not know, and drift."""

from votestream.life.report import TrackReport
from votestream.life.tracker import Answers, Tracker

__all__ = ["Answers", "TrackReport", "Tracker"]
