"""The contract: what every learner, predictor and snapshot is, and the registry that knows them by name."""

from votestream.core.exemplars import Exemplars
from votestream.core.guard import learned
from votestream.core.learner import Learner
from votestream.core.merge import merge
from votestream.core.predictor import Predictor
from votestream.core.registry import LEARNERS, create, list_learners, load, register
from votestream.core.snapshot import Snapshot
from votestream.core.state import State
from votestream.core.vote import Vote
from votestream.core.weighted import WeightedLearner

__all__ = [
    "LEARNERS",
    "Exemplars",
    "Learner",
    "Predictor",
    "Snapshot",
    "State",
    "Vote",
    "WeightedLearner",
    "create",
    "learned",
    "list_learners",
    "load",
    "merge",
    "register",
]
