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
        AGEM,
        ASER,
        EEIL,
        GSS,
        MIR,
        BiC,
        CandidatesVoting,
        Exemplars,
        ExperienceReplay,
        FeatureReplay,
        FeCAM,
        FineTuning,
        GaussianVoting,
        GDumb,
        ICaRL,
        ImageClassifier,
        JointProbe,
        JointTraining,
        KnowledgeDistillation,
        Learner,
        LearningWithoutForgetting,
        NearestClassMean,
        NearestNeighbours,
        RanPAC,
        Snapshot,
        StreamingLDA,
        StreamingRidge,
        Vote,
        WeightAligning,
        create,
        list_learners,
        load,
        register,
    )
    from votestream.persistence import ModelFileError
    from votestream.streams import (
        DataError,
        DataSet,
        DataWarning,
        Stream,
        Task,
        blurry,
        get_data,
        list_streams,
        load_data,
        long_tail,
        one_class_at_a_time,
        repeated,
        stream,
        stream_from,
        task_free,
    )

__all__ = [
    "AGEM",
    "ASER",
    "EEIL",
    "GSS",
    "MIR",
    "Backbone",
    "BiC",
    "CandidatesVoting",
    "DataError",
    "DataSet",
    "DataWarning",
    "Exemplars",
    "ExperienceReplay",
    "FeCAM",
    "FeatureReplay",
    "FineTuning",
    "GDumb",
    "GaussianVoting",
    "ICaRL",
    "ImageClassifier",
    "ImageError",
    "JointProbe",
    "JointTraining",
    "KnowledgeDistillation",
    "Learner",
    "LearningWithoutForgetting",
    "ModelFileError",
    "NearestClassMean",
    "NearestNeighbours",
    "RanPAC",
    "Snapshot",
    "Stream",
    "StreamingLDA",
    "StreamingRidge",
    "Task",
    "Vote",
    "WeightAligning",
    "__version__",
    "blurry",
    "cached_features",
    "clear_cached",
    "create",
    "create_backbone",
    "from_module",
    "get_data",
    "list_backbones",
    "list_cached",
    "list_learners",
    "list_streams",
    "load",
    "load_data",
    "long_tail",
    "one_class_at_a_time",
    "register",
    "register_backbone",
    "repeated",
    "stream",
    "stream_from",
    "task_free",
]

# scikit-learn and the backbones take most of a second to import: whoever uses neither does not wait for them.
_ROOMS = ("votestream.learners", "votestream.persistence", "votestream.backbones", "votestream.streams")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for room in _ROOMS:
            if name in import_module(room).__dict__:
                return getattr(import_module(room), name)
    raise AttributeError(f"module 'votestream' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
