"""VoteStream: learn new classes from a stream, in one pass, without forgetting the old ones."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from votestream._version import __version__

if TYPE_CHECKING:
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
        ImageClassifier,
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
    "ImageClassifier",
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

# scikit-learn and the backbones take most of a second to import: whoever uses neither does not wait for them.
_ROOMS = ("votestream.learners", "votestream.persistence", "votestream.backbones")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for room in _ROOMS:
            if name in import_module(room).__dict__:
                return getattr(import_module(room), name)
    raise AttributeError(f"module 'votestream' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
