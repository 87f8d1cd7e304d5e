"""Exemplars: the store, the rules that decide what is kept, and the rules that pick what is replayed."""

from votestream.memory.device_memory import DeviceMemory, GreedyMemory
from votestream.memory.feature_memory import FeatureMemory
from votestream.memory.image_memory import ImageMemory, ImageStore
from votestream.memory.keep import KEEP_RULES, Balanced, FirstIn, KeepRule, MeanDistance, Reservoir
from votestream.memory.pick import distinct, turns, uniform
from votestream.memory.statistics import ClassStatistics
from votestream.memory.store import ExemplarStore

__all__ = [
    "KEEP_RULES",
    "Balanced",
    "ClassStatistics",
    "DeviceMemory",
    "ExemplarStore",
    "FeatureMemory",
    "FirstIn",
    "GreedyMemory",
    "ImageMemory",
    "ImageStore",
    "KeepRule",
    "MeanDistance",
    "Reservoir",
    "distinct",
    "turns",
    "uniform",
]
