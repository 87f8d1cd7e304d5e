"""What learns: one file a method."""

from votestream.learners.base import Learner, create, list_learners, load, register
from votestream.learners.candidates_voting import CandidatesVoting, Exemplars, Vote
from votestream.learners.er import ExperienceReplay
from votestream.learners.image_classifier import ImageClassifier

__all__ = [
    "CandidatesVoting",
    "Exemplars",
    "ExperienceReplay",
    "ImageClassifier",
    "Learner",
    "Vote",
    "create",
    "list_learners",
    "load",
    "register",
]
