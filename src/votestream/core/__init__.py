"""The contract: what every learner, predictor and snapshot is, and the registry that knows them by name."""

from votestream.core.exemplars import Exemplars
from votestream.core.guard import Predictor, learned
from votestream.core.learner import Learner
from votestream.core.merge import merge
from votestream.core.registry import LEARNERS, create, list_learners, load, register
from votestream.core.snapshot import Snapshot
from votestream.core.vote import Vote

__all__ = [
    "LEARNERS",
    "Exemplars",
    "Learner",
    "Predictor",
    "Snapshot",
    "Vote",
    "create",
    "learned",
    "list_learners",
    "load",
    "merge",
    "register",
]
