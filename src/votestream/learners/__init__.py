"""What learns: one file a method."""

from votestream.learners.base import Learner, create, list_learners, load, register
from votestream.learners.candidates_voting import CandidatesVoting, Exemplars, Vote

__all__ = ["CandidatesVoting", "Exemplars", "Learner", "Vote", "create", "list_learners", "load", "register"]
