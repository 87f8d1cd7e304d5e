"""What learns: one file a method."""

import warnings
from typing import Any

from votestream.core.exemplars import Exemplars
from votestream.core.learner import Learner
from votestream.core.merge import merge
from votestream.core.registry import LEARNERS, create, list_learners, load, register
from votestream.core.snapshot import Snapshot
from votestream.core.vote import Vote
from votestream.learners.exemplars.er_features import FeatureReplay
from votestream.learners.exemplars.joint_probe import JointProbe
from votestream.learners.exemplars.knn import NearestNeighbours
from votestream.learners.network.agem import AGEM
from votestream.learners.network.aser import ASER
from votestream.learners.network.er import ExperienceReplay
from votestream.learners.network.gdumb import GDumb
from votestream.learners.network.gss import GSS
from votestream.learners.network.mir import MIR
from votestream.learners.network.network_learner import NetworkLearner
from votestream.learners.offline.bic import BiC
from votestream.learners.offline.eeil import EEIL
from votestream.learners.offline.finetune import FineTuning
from votestream.learners.offline.icarl import ICaRL
from votestream.learners.offline.joint_training import JointTraining
from votestream.learners.offline.kd import KnowledgeDistillation
from votestream.learners.offline.lwf import LearningWithoutForgetting
from votestream.learners.offline.wa import WeightAligning
from votestream.learners.ours.candidates_voting import CandidatesVoting
from votestream.learners.ours.gaussian_voting import GaussianVoting
from votestream.learners.statistics.fecam import FeCAM
from votestream.learners.statistics.foal import FOAL
from votestream.learners.statistics.klda import KLDA
from votestream.learners.statistics.ncm import NearestClassMean
from votestream.learners.statistics.randumb import RanDumb
from votestream.learners.statistics.ranpac import RanPAC
from votestream.learners.statistics.rls import StreamingRidge
from votestream.learners.statistics.slda import StreamingLDA
from votestream.learners.statistics.srda import StreamingRDA

__all__ = [
    "AGEM",
    "ASER",
    "EEIL",
    "FOAL",
    "GSS",
    "KLDA",
    "LEARNERS",
    "MIR",
    "BiC",
    "CandidatesVoting",
    "Exemplars",
    "ExperienceReplay",
    "FeCAM",
    "FeatureReplay",
    "FineTuning",
    "GDumb",
    "GaussianVoting",
    "ICaRL",
    "JointProbe",
    "JointTraining",
    "KnowledgeDistillation",
    "Learner",
    "LearningWithoutForgetting",
    "NearestClassMean",
    "NearestNeighbours",
    "NetworkLearner",
    "RanDumb",
    "RanPAC",
    "Snapshot",
    "StreamingLDA",
    "StreamingRDA",
    "StreamingRidge",
    "Vote",
    "WeightAligning",
    "create",
    "list_learners",
    "load",
    "merge",
    "register",
]


def __getattr__(name: str) -> Any:
    if name == "ImageClassifier":
        from importlib import import_module

        warnings.warn(
            "votestream.learners.ImageClassifier is now votestream.ImageClassifier", DeprecationWarning, stacklevel=2
        )
        return import_module("votestream.pipeline").ImageClassifier
    raise AttributeError(f"module 'votestream.learners' has no attribute {name!r}")
