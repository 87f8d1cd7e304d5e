"""The old place of `votestream.sample_images`; gone in the version after 0.2."""

from __future__ import annotations

import warnings
from typing import Any

from votestream.streams.sample import sample_images


def sample(part: str) -> Any:
    """Deprecated: the same as `votestream.sample_images`."""
    warnings.warn("votestream.demo.sample is now votestream.sample_images", DeprecationWarning, stacklevel=2)
    return sample_images(part)
