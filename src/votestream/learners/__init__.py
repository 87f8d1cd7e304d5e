"""What learns: one file a method."""

from votestream.learners.agem import AGEM
from votestream.learners.aser import ASER
from votestream.learners.base import Learner, create, list_learners, load, register
from votestream.learners.candidates_voting import CandidatesVoting, Exemplars
from votestream.learners.er import ExperienceReplay
from votestream.learners.er_features import FeatureReplay
from votestream.learners.fecam import FeCAM
from votestream.learners.gaussian_voting import GaussianVoting
from votestream.learners.gdumb import GDumb
from votestream.learners.gss import GSS
from votestream.learners.image_classifier import ImageClassifier
from votestream.learners.joint import JointProbe
from votestream.learners.knn import NearestNeighbours
from votestream.learners.mir import MIR
from votestream.learners.ncm import NearestClassMean
from votestream.learners.ranpac import RanPAC
from votestream.learners.rls import StreamingRidge
from votestream.learners.slda import StreamingLDA
from votestream.learners.vote import Vote

__all__ = [
    "AGEM",
    "ASER",
    "GSS",
    "MIR",
    "CandidatesVoting",
    "Exemplars",
    "ExperienceReplay",
    "FeCAM",
    "FeatureReplay",
    "GDumb",
    "GaussianVoting",
    "ImageClassifier",
    "JointProbe",
    "Learner",
    "NearestClassMean",
    "NearestNeighbours",
    "RanPAC",
    "StreamingLDA",
    "StreamingRidge",
    "Vote",
    "create",
    "list_learners",
    "load",
    "register",
]
