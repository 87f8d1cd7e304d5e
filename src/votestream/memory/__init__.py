"""Exemplars: the store, the rules that decide what is kept, and the rules that pick what is replayed."""

from votestream.memory.feature_memory import FeatureMemory
from votestream.memory.image_memory import ImageMemory, ImageStore
from votestream.memory.keep import KEEP_RULES, Balanced, FirstIn, KeepRule, MeanDistance, Reservoir
from votestream.memory.pick import distinct, uniform
from votestream.memory.statistics import ClassStatistics
from votestream.memory.store import ExemplarStore

__all__ = [
    "KEEP_RULES",
    "Balanced",
    "ClassStatistics",
    "ExemplarStore",
    "FeatureMemory",
    "FirstIn",
    "ImageMemory",
    "ImageStore",
    "KeepRule",
    "MeanDistance",
    "Reservoir",
    "distinct",
    "uniform",
]
