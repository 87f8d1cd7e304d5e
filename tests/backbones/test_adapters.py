"""torchvision, timm and ONNX networks come without their classifier and with their own preprocessing."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from votestream.backbones import BackboneUnavailable, create_backbone
from votestream.backbones.from_torchvision import strip_head
from votestream.common import extras

from .samples import random_images, shuffle_batch_norms


def test_resnet50_gives_what_its_last_layer_reads(torchvision) -> None:
    torch.manual_seed(0)
    reference = shuffle_batch_norms(torchvision.models.resnet50(weights=None)).eval()
    image = random_images(1, 60, 90)[0]
    how = torchvision.models.ResNet50_Weights.DEFAULT.transforms()
    read: list[np.ndarray] = []
    reference.fc.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].numpy()))
    with torch.no_grad():
        reference(how(Image.fromarray(image))[None])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torchvision.models, "get_model", lambda name, weights: reference)
        backbone = create_backbone("torchvision:resnet50", weights=None, device="cpu")
    assert (backbone.name, backbone.feature_dim, backbone.input_size) == ("torchvision:resnet50", 2048, 224)
    assert backbone.preprocessing.shorter_side == how.resize_size[0]
    np.testing.assert_allclose(backbone(image), read[0], atol=1e-4 * np.abs(read[0]).max())


def test_torchvision_names_and_weights_are_checked(torchvision) -> None:
    with pytest.raises(ValueError, match="resnet50"):
        create_backbone("torchvision:resnet5")
    with pytest.raises(ValueError, match="IMAGENET1K_V1"):
        create_backbone("torchvision:resnet50", weights="IMAGENET1K_V3")


def test_weights_that_cannot_be_fetched_are_explained(torchvision, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str, weights: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.models, "get_model", offline)
    with pytest.raises(BackboneUnavailable, match=r"https://.*resnet18.*checkpoints"):
        create_backbone("torchvision:resnet18")


@pytest.mark.parametrize("name", ["torchvision:resnet50", "timm:resnet18"])
def test_a_torchvision_that_does_not_match_torch_is_explained(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(extras, "import_module", broken)
    with pytest.raises(BackboneUnavailable, match=r"does not match torch .*pip install .*--index-url"):
        create_backbone(name)


def test_only_the_last_classifier_is_taken_away() -> None:
    auxiliary, last = nn.Linear(4, 10), nn.Linear(10, 10)
    stripped = strip_head(nn.Sequential(auxiliary, last), classes=10)
    assert isinstance(stripped, nn.Sequential)
    assert stripped[0] is auxiliary
    assert isinstance(stripped[1], nn.Identity)


def test_without_a_classifier_there_is_nothing_to_strip() -> None:
    with pytest.raises(ValueError, match="no layer with 10 outputs"):
        strip_head(nn.Linear(4, 3), classes=10)


def test_timm_models_come_with_their_own_preprocessing(torchvision) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # timm's own deprecations are no concern of ours
        timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    backbone = create_backbone("timm:resnet10t", pretrained=False, device="cpu")
    torch.manual_seed(0)
    reference = timm.create_model("resnet10t", pretrained=False, num_classes=0).eval()
    how = timm.data.create_transform(**timm.data.resolve_model_data_config(reference))
    image = random_images(1, 60, 90)[0]
    with torch.no_grad():
        wanted = reference(how(Image.fromarray(image))[None]).numpy()
    np.testing.assert_allclose(backbone(image), wanted, atol=1e-4 * np.abs(wanted).max())
    with pytest.raises(ValueError, match="Did you mean"):
        create_backbone("timm:resnet10x")


def test_dinov2_gives_its_class_token_of_518_pixels(torchvision) -> None:
    """As timm's own transform and model give it, for an image that is not square; weights are random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    backbone = create_backbone("timm:vit_small_patch14_dinov2.lvd142m", pretrained=False, device="cpu", batch_size=1)
    assert (backbone.input_size, backbone.feature_dim) == (518, 384)
    torch.manual_seed(0)
    reference = timm.create_model("vit_small_patch14_dinov2.lvd142m", pretrained=False, num_classes=0).eval()
    how = timm.data.create_transform(**timm.data.resolve_model_data_config(reference))
    image = random_images(1, 60, 90)[0]
    with torch.no_grad():
        tokens = reference.forward_features(how(Image.fromarray(image))[None])
    assert tokens.shape == (1, 1 + 37 * 37, 384)  # patches of 14 x 14 pixels, and the class token
    np.testing.assert_allclose(backbone(image), tokens[:, 0].numpy(), atol=1e-4 * float(tokens.abs().max()))
    with pytest.raises(ValueError, match="cannot look at images so"):
        backbone.with_views("224")


def onnx_file(path: Path, batch: int | str = "n", channels_last: bool = False, size: int | str = 8) -> Path:
    """A file that averages each channel ("pooled") and then scores two classes ("scores")."""
    onnx = pytest.importorskip("onnx", reason="onnx, which writes the file for this test, is not installed")
    pytest.importorskip("onnxruntime", reason="the extra [onnx] is not installed")
    sides = [size, size]
    shape = [batch, *sides, 3] if channels_last else [batch, 3, *sides]
    helper = onnx.helper
    scores = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    axes = np.array([1, 2] if channels_last else [2, 3], np.int64)
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["x", "axes"], ["pooled"], keepdims=0),
            helper.make_node("MatMul", ["pooled", "weight"], ["scores"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, [batch, 2])],
        [onnx.numpy_helper.from_array(scores, "weight"), onnx.numpy_helper.from_array(axes, "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_onnx_files_run_whatever_their_layout_and_batch(tmp_path: Path, batch: int | str, channels_last: bool) -> None:
    path = onnx_file(tmp_path / "net.onnx", batch, channels_last)
    backbone = create_backbone(f"onnx:{path}", output="pooled", mean=(0.5,) * 3, std=(0.5,) * 3, device="cpu")
    images = random_images(6, 8, 8)
    wanted = (images / 255).mean((1, 2)) * 2 - 1
    np.testing.assert_allclose(backbone(images), wanted, atol=1e-5)
    whole = create_backbone(f"onnx:{path}", mean=(0.5,) * 3, std=(0.5,) * 3, device="cpu")
    assert (whole.feature_dim, whole.input_size) == (2, 8)
    np.testing.assert_allclose(whole(images)[:, 0], wanted[:, 0] + wanted[:, 2], atol=1e-5)
    assert whole.digest != backbone.digest


def test_an_onnx_files_digest_does_not_depend_on_where_it_lies(tmp_path: Path) -> None:
    here = onnx_file(tmp_path / "net.onnx")
    (tmp_path / "there").mkdir()
    there = onnx_file(tmp_path / "there" / "same.onnx")
    assert create_backbone(f"onnx:{here}").digest == create_backbone(f"onnx:{there}").digest


def test_onnx_files_that_do_not_fit_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file"):
        create_backbone(f"onnx:{tmp_path / 'net.onnx'}")
    path = onnx_file(tmp_path / "net.onnx", size="side")
    with pytest.raises(ValueError, match="give input_size"):
        create_backbone(f"onnx:{path}")
    assert create_backbone(f"onnx:{path}", input_size=12)(random_images(1)).shape == (1, 2)
    with pytest.raises(ValueError, match="Did you mean 'pooled'"):
        create_backbone(f"onnx:{path}", output="pool")
    path.write_bytes(b"not a network")
    with pytest.raises(ValueError, match=r"net\.onnx is damaged or no ONNX file"):
        create_backbone(f"onnx:{path}")
