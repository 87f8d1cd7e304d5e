"""Why a photo is answered so: places that speak for its class, and the nearest of other photos."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import votestream as vs
from serve.http_client import image, png, serving
from votestream.backbones.places import counted_twice
from votestream.serve.engine.settings import EngineSettings

SMALL = EngineSettings(backbone="reduced_resnet18", device="cpu")
RNG = np.random.default_rng(0)


def striped(side="left", seed=0):
    """Grey noise, with bright stripes on one side."""
    pixels = np.random.default_rng(seed).integers(90, 140, (32, 32, 3))
    half = pixels[:, :16] if side == "left" else pixels[:, 16:]
    half[::4] = 255
    return png(pixels)


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path, settings=SMALL) as client:
        for seed in range(6):
            client.post("/v1/learn?label=striped", content=striped(seed=seed))
            client.post(
                "/v1/learn?label=plain", content=png(np.random.default_rng(seed).integers(90, 140, (32, 32, 3)))
            )
        yield client


@pytest.mark.parametrize(
    ("stages", "views"), [(None, None), ("4", "32,32m,48"), ("2,3:centre,4:top", "32,32m")], ids=str
)
def test_a_place_counted_twice_is_what_the_mean_over_the_maps_becomes(stages, views):
    backbone = vs.create_backbone("reduced_resnet18", stages=stages, device="cpu")
    backbone = backbone if views is None else backbone.with_views(views)
    pixels = RNG.integers(0, 256, (40, 40, 3)).astype(np.uint8)
    places = counted_twice(backbone, backbone.prepare(pixels))
    assert places.twice.shape == (16, backbone.feature_dim)
    np.testing.assert_allclose(places.features, backbone(pixels[None])[0], atol=1e-5)
    if stages is None:  # every place is one position of the map: by its definition
        with_maps = (
            cast("Any", backbone.network)
            .maps(next(backbone._network_inputs(backbone.prepare(pixels)[None])))["4"][0]
            .numpy()
        )
        rows = with_maps.reshape(160, 16).T / backbone.feature_scale
        np.testing.assert_allclose(places.twice, (rows.sum(0) + rows) / 17, atol=1e-5)


def test_a_network_that_does_more_than_average_its_maps_has_no_places():
    network = vs.create_backbone("reduced_resnet18", device="cpu").trainable()
    network.forward = lambda x: network.maps(x)["4"].amax(dim=(2, 3))
    backbone = vs.from_module(network, input_size=32)
    assert counted_twice(backbone, np.zeros((32, 32, 3), np.uint8)) is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_places_with_what_makes_the_class_speak_for_it(client, side):
    result = client.post("/v1/explain", content=striped(side, seed=20)).json()
    assert (result["label"], result["against"]) == ("striped", "plain")
    places = np.array(result["places"])
    assert places.shape == (4, 4)
    with_stripes, without = (places[:, :2], places[:, 2:]) if side == "left" else (places[:, 2:], places[:, :2])
    assert with_stripes.mean() > without.mean()
    assert result["box"] == [0, 0, 1, 1]


def test_the_places_are_what_the_model_answers_to_features_with_the_place_counted_twice(client, tmp_path):
    content = striped(seed=30)
    result = client.post("/v1/explain", content=content).json()
    (tmp_path / "a.png").write_bytes(content)
    (tmp_path / "m.safetensors").write_bytes(client.get("/v1/model/file").content)
    model = vs.load(tmp_path / "m.safetensors")
    places = counted_twice(model.backbone_, model.backbone_.prepare(tmp_path / "a.png"))
    shares = model.predict_proba_features(np.concatenate([places.features[None], places.twice]))
    best, second = (model.classes_.tolist().index(label) for label in (result["label"], result["against"]))
    odds = np.log(shares[:, best]) - np.log(shares[:, second])
    np.testing.assert_allclose(np.ravel(result["places"]), odds[1:] - odds[0], atol=1e-5)


def test_the_nearest_of_other_photos_come_first_and_unreadable_ones_are_left_out(client):
    names = {"far": image("blue"), "broken": b"no image", "same": striped(seed=40), "near": striped(seed=41)}
    files = [("file", ("it", striped(seed=40))), *(("file", (name, data)) for name, data in names.items())]
    nearest = client.post("/v1/explain", files=files).json()["nearest"]
    assert [each["file"] for each in nearest] == ["same", "near", "far"]
    assert nearest[0]["distance"] == pytest.approx(0, abs=1e-4)


def test_the_part_of_a_wide_photo_that_is_used_is_returned(client):
    result = client.post("/v1/explain", content=png(RNG.integers(0, 256, (40, 80, 3)))).json()
    assert result["box"] == pytest.approx([0.25, 0, 0.75, 1], abs=0.02)


def test_what_cannot_be_explained_is_said(tmp_path, client):
    assert client.post("/v1/explain", content=b"no image").status_code == 422
    (tmp_path / "new").mkdir()
    with serving(tmp_path / "new", settings=SMALL) as empty:
        assert empty.post("/v1/explain", content=striped()).status_code == 409
        empty.post("/v1/learn?label=one", content=striped())
        result = empty.post("/v1/explain", content=striped()).json()
    assert result["against"] is None
    assert result["places"] is None
