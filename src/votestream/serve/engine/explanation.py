"""Explaining a prediction: which places of a photo speak for its class, and which other photos are nearest to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from votestream.backbones import Backbone
from votestream.backbones.places import counted_twice
from votestream.core.snapshot import Snapshot
from votestream.images.convert import as_rgb, explained
from votestream.images.files import ImageError, decode
from votestream.serve.engine.messages import BadRequest, Label, Upload

MIN_CHANGE = 1e-12  # smaller changes of a score count as none


@dataclass(frozen=True)
class Explanation:
    """`places` is None if the model has one class, or if the features are not means over places."""

    label: Label
    against: Label | None  # the second class, which the places are compared with
    places: NDArray[np.float64] | None  # (height, width); above 0 speaks for the label
    box: tuple[float, float, float, float]  # of the places in the photo: left, top, right, bottom, from 0 to 1
    nearest: list[tuple[str, float]]  # name and distance of the other photos, nearest first


def explain(
    snapshot: Snapshot, backbone: Backbone, upload: Upload, others: Sequence[Upload], max_pixels: int
) -> Explanation:
    """For each place: how much the log-odds of the best class against the second rise if the place counts twice.

    The model predicts such features itself, so this works for every learner and needs no gradient. Photos in `others`
    that cannot be read are left out.
    """
    try:
        (width, height), prepared = _read(backbone, upload, max_pixels)
    except ImageError as problem:
        raise BadRequest(str(problem)) from None
    found = counted_twice(backbone, prepared)
    features = backbone.of_prepared(prepared[None])[0] if found is None else found.features
    shares = snapshot.predict_proba(features[None])[0]
    first, *second = np.argsort(-shares, kind="stable")[:2].tolist()
    places = None
    if found is not None and second:
        rows = np.concatenate([features[None], found.twice])
        logs = np.log(np.maximum(snapshot.predict_proba(rows)[:, [first, second[0]]], np.finfo(float).tiny))
        odds = logs[:, 0] - logs[:, 1]
        places = (odds[1:] - odds[0]).reshape(found.shape)
        if np.abs(places).max() < MIN_CHANGE:  # as with a learner whose scores change in steps
            places = None
    labels = snapshot.classes_.tolist()
    box = backbone._ways[0].box(width, height)
    near = _nearest(backbone, features, others, max_pixels)
    return Explanation(labels[first], labels[second[0]] if second else None, places, box, near)


def _read(backbone: Backbone, upload: Upload, most: int) -> tuple[tuple[int, int], NDArray[np.uint8]]:
    name = upload.name

    def prepared(image: Image.Image) -> tuple[tuple[int, int], NDArray[np.uint8]]:
        upright = as_rgb(image, name)
        return upright.size, backbone.prepare(upright, name, most)

    with explained(name):
        return decode(BytesIO(upload.data), name, prepared, most, backbone.least)


def _nearest(
    backbone: Backbone, features: NDArray[np.float32], others: Sequence[Upload], most: int
) -> list[tuple[str, float]]:
    names, pixels = [], []
    for other in others:
        try:
            pixels.append(_read(backbone, other, most)[1])
            names.append(other.name)
        except ImageError:
            continue
    if not names:
        return []
    apart = np.linalg.norm(backbone.of_prepared(np.stack(pixels)) - features, axis=1)
    return sorted(zip(names, apart.astype(float).round(6).tolist(), strict=True), key=lambda pair: pair[1])
