"""What the tests with other programs for ONNX files share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """What other libraries warn of in their own code is theirs; warnings from ours stay errors."""
    config.addinivalue_line("filterwarnings", "ignore:::(?!votestream)")
