"""What several test files need."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import save_file

from votestream.backbones import Backbone
from votestream.backbones.networks.resnet import ReducedResNet18

from .samples import shuffle_batch_norms, tiny_backbone


@pytest.fixture
def tiny() -> Backbone:
    return tiny_backbone()


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as the recipe writes it, with random weights."""
    torch.manual_seed(0)
    network = shuffle_batch_norms(ReducedResNet18())
    tensors = {k: v.half().contiguous() for k, v in network.state_dict().items() if "num_batches" not in k}
    about = {
        "network": "reduced_resnet18",
        "mean": json.dumps((0.485, 0.456, 0.406)),
        "std": json.dumps((0.229, 0.224, 0.225)),
        "feature_scale": json.dumps(0.37),
    }
    path = tmp_path_factory.mktemp("weights") / "reduced_resnet18.safetensors"
    save_file(tensors, path, about)
    return path


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    """torchvision, helped over operators that a wheel for another torch lacks; no classifier needs them."""
    try:
        import torchvision
    except ModuleNotFoundError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        try:
            import torchvision
        except Exception as error:
            pytest.skip(f"torchvision does not match the installed torch: {error}")
        torchvision._operators_of_the_tests = library  # dropping the library would take the operators back
    return torchvision
