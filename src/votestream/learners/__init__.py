"""What learns: one file a method."""

from votestream.learners.base import Learner, create, list_learners, load, register
from votestream.learners.candidates_voting import CandidatesVoting, Exemplars, Vote
from votestream.learners.image_classifier import ImageClassifier
from votestream.learners.ncm import NearestClassMean
from votestream.learners.slda import StreamingLDA

__all__ = [
    "CandidatesVoting",
    "Exemplars",
    "ImageClassifier",
    "Learner",
    "NearestClassMean",
    "StreamingLDA",
    "Vote",
    "create",
    "list_learners",
    "load",
    "register",
]
