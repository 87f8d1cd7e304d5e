"""Folders of tiny photos, and the photo commands on them."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import Image
from typer import testing

import votestream as vs
from votestream.cli.main import app

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200), "grey": (120, 120, 120)}


# Typer's runner makes all commands anew for each call, which takes longer than most of them run.
testing._get_command = cache(testing._get_command)


def run(*arguments, **how):
    return testing.CliRunner().invoke(app, [str(argument) for argument in arguments], **how)


def put(path, pixels, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **how)


def paint(folder, label, n, colour=None, start=0):
    """n photos of 8 x 8 pixels, all of nearly the class's colour and no two the same."""
    for number in range(start, start + n):
        noise = np.random.default_rng([number, len(label), ord(label[0])]).integers(-30, 31, (8, 8, 3))
        pixels = np.array(colour or COLOURS[label]) + noise
        put(folder / label / f"photo {number}.png", pixels.astype(np.uint8))


def counts(model):
    loaded = vs.load(model)
    return dict(zip(loaded.classes_.tolist(), loaded.class_counts_.tolist(), strict=True))
