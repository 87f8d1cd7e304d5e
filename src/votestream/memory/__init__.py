"""What is remembered: exemplars, with the rules that keep and pick them, and statistics of the classes."""

from votestream.memory.feature_memory import FeatureMemory
from votestream.memory.gaussians import ClassGaussians
from votestream.memory.gram import GramSums
from votestream.memory.keep import KEEP_RULES, Balanced, FirstIn, KeepRule, MeanDistance, Reservoir
from votestream.memory.moments import ClassMoments
from votestream.memory.pending import Pending
from votestream.memory.pick import uniform
from votestream.memory.statistics import ClassStatistics
from votestream.memory.store import ExemplarStore

__all__ = [
    "KEEP_RULES",
    "Balanced",
    "ClassGaussians",
    "ClassMoments",
    "ClassStatistics",
    "ExemplarStore",
    "FeatureMemory",
    "FirstIn",
    "GramSums",
    "KeepRule",
    "MeanDistance",
    "Pending",
    "Reservoir",
    "uniform",
]
