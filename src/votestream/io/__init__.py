"""Model files: written whole, read checked, no pickle."""

from votestream.io.array_checks import demand, take
from votestream.io.model_files import ModelFileError

__all__ = ["ModelFileError", "demand", "take"]
