"""What learns: one file a method."""

from votestream.learners.base import Learner, create, list_learners, load, register
from votestream.learners.candidates_voting import CandidatesVoting, Exemplars
from votestream.learners.er_features import FeatureReplay
from votestream.learners.fecam import FeCAM
from votestream.learners.gaussian_voting import GaussianVoting
from votestream.learners.image_classifier import ImageClassifier
from votestream.learners.joint import JointProbe
from votestream.learners.knn import NearestNeighbours
from votestream.learners.ncm import NearestClassMean
from votestream.learners.ranpac import RanPAC
from votestream.learners.rls import StreamingRidge
from votestream.learners.slda import StreamingLDA
from votestream.learners.vote import Vote

__all__ = [
    "CandidatesVoting",
    "Exemplars",
    "FeCAM",
    "FeatureReplay",
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
