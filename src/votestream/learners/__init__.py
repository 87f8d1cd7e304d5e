"""What learns: one file a method."""

from votestream.learners.agem import AGEM
from votestream.learners.aser import ASER
from votestream.learners.base import Learner, create, list_learners, load, register
from votestream.learners.candidates_voting import CandidatesVoting, Exemplars, Vote
from votestream.learners.er import ExperienceReplay
from votestream.learners.gdumb import GDumb
from votestream.learners.gss import GSS
from votestream.learners.image_classifier import ImageClassifier
from votestream.learners.mir import MIR

__all__ = [
    "AGEM",
    "ASER",
    "GSS",
    "MIR",
    "CandidatesVoting",
    "Exemplars",
    "ExperienceReplay",
    "GDumb",
    "ImageClassifier",
    "Learner",
    "Vote",
    "create",
    "list_learners",
    "load",
    "register",
]
