"""VoteStream: learn new classes from a stream, in one pass, without forgetting the old ones."""

from votestream._version import __version__
from votestream.learners import (
    CandidatesVoting,
    Exemplars,
    Learner,
    Vote,
    create,
    list_learners,
    load,
    register,
)
from votestream.persistence import ModelFileError

__all__ = [
    "CandidatesVoting",
    "Exemplars",
    "Learner",
    "ModelFileError",
    "Vote",
    "__version__",
    "create",
    "list_learners",
    "load",
    "register",
]
