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
    from votestream.bench.suites import Method, StreamSpec, Suite, list_suites, register_suite
    from votestream.distributed.learning import learn
    from votestream.export import export_onnx
    from votestream.io import ModelFileError
    from votestream.learners import (
        AGEM,
        ASER,
        EEIL,
        FOAL,
        GSS,
        KLDA,
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
        JointProbe,
        JointTraining,
        KnowledgeDistillation,
        Learner,
        LearningWithoutForgetting,
        NearestClassMean,
        NearestNeighbours,
        NetworkLearner,
        RanDumb,
        RanPAC,
        Snapshot,
        StreamingLDA,
        StreamingRDA,
        StreamingRidge,
        Vote,
        WeightAligning,
        create,
        list_learners,
        load,
        merge,
        register,
    )
    from votestream.memory import Memory, list_keep_rules, register_keep
    from votestream.pipeline import ImageClassifier
    from votestream.streams import (
        DataError,
        DataSet,
        DataWarning,
        LabelledImages,
        Stream,
        Task,
        blurry,
        get_data,
        labelled_images,
        list_streams,
        load_data,
        long_tail,
        one_class_at_a_time,
        register_stream,
        repeated,
        sample_images,
        stream,
        stream_from,
        task_free,
    )

__all__ = [
    "AGEM",
    "ASER",
    "EEIL",
    "FOAL",
    "GSS",
    "KLDA",
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
    "LabelledImages",
    "Learner",
    "LearningWithoutForgetting",
    "Memory",
    "Method",
    "ModelFileError",
    "NearestClassMean",
    "NearestNeighbours",
    "NetworkLearner",
    "RanDumb",
    "RanPAC",
    "Snapshot",
    "Stream",
    "StreamSpec",
    "StreamingLDA",
    "StreamingRDA",
    "StreamingRidge",
    "Suite",
    "Task",
    "Vote",
    "WeightAligning",
    "__version__",
    "blurry",
    "cached_features",
    "clear_cached",
    "create",
    "create_backbone",
    "export_onnx",
    "from_module",
    "get_data",
    "labelled_images",
    "learn",
    "list_backbones",
    "list_cached",
    "list_keep_rules",
    "list_learners",
    "list_streams",
    "list_suites",
    "load",
    "load_data",
    "long_tail",
    "merge",
    "one_class_at_a_time",
    "register",
    "register_backbone",
    "register_keep",
    "register_stream",
    "register_suite",
    "repeated",
    "sample_images",
    "stream",
    "stream_from",
    "task_free",
]

# scikit-learn and the backbones take most of a second to import: whoever uses neither does not wait for them.
_ROOMS = (
    "votestream.learners",
    "votestream.pipeline",
    "votestream.memory",
    "votestream.io",
    "votestream.backbones",
    "votestream.streams",
    "votestream.bench.suites",
    "votestream.export",
    "votestream.distributed.learning",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for room in _ROOMS:
            if name in import_module(room).__dict__:
                return getattr(import_module(room), name)
    raise AttributeError(f"module 'votestream' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
