"""VoteStream: learn new classes from a stream, in one pass, without forgetting the old ones."""

from votestream._version import __version__
from votestream.backbones import (
    Backbone,
    ImageError,
    cached_features,
    clear_cached,
    create_backbone,
    from_module,
    list_backbones,
    list_cached,
    register_backbone,
)
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
    "Backbone",
    "CandidatesVoting",
    "Exemplars",
    "ImageError",
    "Learner",
    "ModelFileError",
    "Vote",
    "__version__",
    "cached_features",
    "clear_cached",
    "create",
    "create_backbone",
    "from_module",
    "list_backbones",
    "list_cached",
    "list_learners",
    "load",
    "register",
    "register_backbone",
]
