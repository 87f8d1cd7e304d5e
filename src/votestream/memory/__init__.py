"""What is remembered: exemplars, with the rules that keep and pick them, and statistics of the classes."""

from votestream.memory.device_memory import DeviceMemory, GreedyMemory
from votestream.memory.feature_memory import FeatureMemory
from votestream.memory.gaussian_memory import GaussianMemory
from votestream.memory.gaussians import ClassGaussians
from votestream.memory.gram import ClassGramSums, GramSums
from votestream.memory.image_memory import ImageMemory, ImageStore
from votestream.memory.keep import (
    KEEP_RULES,
    Balanced,
    FirstIn,
    KeepRule,
    Reservoir,
    list_keep_rules,
    register_keep,
)
from votestream.memory.mean_distance import MeanDistance
from votestream.memory.memory import Forgets, Joins, Memory, Merges
from votestream.memory.moments import ClassMoments, Moments
from votestream.memory.pending import Pending
from votestream.memory.pick import distinct, turns, uniform
from votestream.memory.scatter import SharedScatter
from votestream.memory.statistics import ClassStatistics
from votestream.memory.store import ExemplarStore

__all__ = [
    "KEEP_RULES",
    "Balanced",
    "ClassGaussians",
    "ClassGramSums",
    "ClassMoments",
    "ClassStatistics",
    "DeviceMemory",
    "ExemplarStore",
    "FeatureMemory",
    "FirstIn",
    "Forgets",
    "GaussianMemory",
    "GramSums",
    "GreedyMemory",
    "ImageMemory",
    "ImageStore",
    "Joins",
    "KeepRule",
    "MeanDistance",
    "Memory",
    "Merges",
    "Moments",
    "Pending",
    "Reservoir",
    "SharedScatter",
    "distinct",
    "list_keep_rules",
    "register_keep",
    "turns",
    "uniform",
]
