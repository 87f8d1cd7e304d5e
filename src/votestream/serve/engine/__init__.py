"""A model that is trained and served: one thread changes it, and any thread predicts with its newest state."""

from votestream.serve.engine.engine import Engine
from votestream.serve.engine.settings import EngineSettings

__all__ = ["Engine", "EngineSettings"]
