"""What learns: one file a method."""

from votestream.learners.agem import AGEM
from votestream.learners.aser import ASER
from votestream.learners.base import Learner
from votestream.learners.bic import BiC
from votestream.learners.candidates_voting import CandidatesVoting
from votestream.learners.eeil import EEIL
from votestream.learners.er import ExperienceReplay
from votestream.learners.er_features import FeatureReplay
from votestream.learners.exemplars import Exemplars
from votestream.learners.fecam import FeCAM
from votestream.learners.finetune import FineTuning
from votestream.learners.gaussian_voting import GaussianVoting
from votestream.learners.gdumb import GDumb
from votestream.learners.gss import GSS
from votestream.learners.icarl import ICaRL
from votestream.learners.image_classifier import ImageClassifier
from votestream.learners.joint import JointProbe
from votestream.learners.joint_images import JointTraining
from votestream.learners.kd import KnowledgeDistillation
from votestream.learners.knn import NearestNeighbours
from votestream.learners.lwf import LearningWithoutForgetting
from votestream.learners.mir import MIR
from votestream.learners.ncm import NearestClassMean
from votestream.learners.network import NetworkLearner
from votestream.learners.ranpac import RanPAC
from votestream.learners.registry import LEARNERS, create, list_learners, load, register
from votestream.learners.rls import StreamingRidge
from votestream.learners.slda import StreamingLDA
from votestream.learners.snapshot import Snapshot
from votestream.learners.vote import Vote
from votestream.learners.wa import WeightAligning

__all__ = [
    "AGEM",
    "ASER",
    "EEIL",
    "GSS",
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
    "ImageClassifier",
    "JointProbe",
    "JointTraining",
    "KnowledgeDistillation",
    "Learner",
    "LearningWithoutForgetting",
    "NearestClassMean",
    "NearestNeighbours",
    "NetworkLearner",
    "RanPAC",
    "Snapshot",
    "StreamingLDA",
    "StreamingRidge",
    "Vote",
    "WeightAligning",
    "create",
    "list_learners",
    "load",
    "register",
]
