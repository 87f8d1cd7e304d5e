"""What the tests with other libraries share."""

from __future__ import annotations

import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    """What other libraries warn of in their own code is theirs; warnings from ours stay errors."""
    config.addinivalue_line("filterwarnings", "ignore:::(?!votestream)")


def define_operators() -> None:
    """PyPI's torchvision does not import beside a CPU build of torch unless these two are defined first."""
    library = torch.library.Library("torchvision", "DEF")
    for signature in (
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    ):
        library.define(signature)
    KEPT.append(library)  # what a Library defined goes with it


KEPT: list[torch.library.Library] = []
if not hasattr(torch.ops.torchvision, "nms"):
    define_operators()
