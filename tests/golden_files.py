"""How the model files in tests/golden were made: a folder for each version, written once, by that version.

`python tests/golden_files.py` writes those of the version at hand, with what the models answered. Files of a version
that is out are never written again: they stand for the files that people have.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import votestream as vs

FOLDER = Path(__file__).parent / "golden"
NEW: dict[str, Any] = {"device": "cpu", "seed": 3}
TRAINED: dict[str, Any] = {**NEW, "backbone": "golden", "batch_size": 8}
OFFLINE: dict[str, Any] = {**TRAINED, "epochs": 2, "augment": False, "max_waiting": 60}

# Blocks and budgets are small, so that files hold merged and waiting rows, exemplars kept and let go.
MODELS = {
    "candidates_voting": lambda: vs.CandidatesVoting(budget=12, **NEW),
    "candidates_voting_reservoir": lambda: vs.CandidatesVoting(
        budget=12, keep="reservoir", augment=False, bias=True, preset="paper", **NEW
    ),
    "gaussian_voting": lambda: vs.GaussianVoting(block=32, rank=3, **NEW),
    "gaussian_voting_budget": lambda: vs.GaussianVoting(budget_bytes=4000, **NEW),
    "gaussian_voting_track": lambda: vs.GaussianVoting(block=32, rank=3, track=True, **NEW),
    "ncm": lambda: vs.NearestClassMean(**NEW),
    "slda": lambda: vs.StreamingLDA(**NEW),
    "rls": lambda: vs.StreamingRidge(**NEW),
    "ranpac": lambda: vs.RanPAC(projection=12, **NEW),
    "ranpac_ridge": lambda: vs.RanPAC(projection=12, ridge=1.0, **NEW),
    "fecam": lambda: vs.FeCAM(**NEW),
    "srda": lambda: vs.StreamingRDA(**NEW),
    "klda": lambda: vs.KLDA(projection=12, draws=2, gamma=0.3, **NEW),
    "randumb": lambda: vs.RanDumb(projection=12, gamma=0.3, **NEW),
    "foal": lambda: vs.FOAL(projection=12, **NEW),
    "knn": lambda: vs.NearestNeighbours(budget=12, k=3, keep="first_in", **NEW),
    "er_features": lambda: vs.FeatureReplay(budget=12, keep="balanced", **NEW),
    "joint": lambda: vs.JointProbe(max_iter=20, **NEW),
    "image_classifier": lambda: vs.ImageClassifier("golden", vs.GaussianVoting(block=32, **NEW)),
    "er": lambda: vs.ExperienceReplay(budget=12, **TRAINED),
    "gss": lambda: vs.GSS(budget=12, **TRAINED),
    "gdumb": lambda: vs.GDumb(budget=12, passes=2, **TRAINED),
    "icarl": lambda: vs.ICaRL(budget=12, **OFFLINE),
    "bic": lambda: vs.BiC(budget=12, **OFFLINE),
}
ON_IMAGES = {"image_classifier", "er", "gss", "gdumb", "icarl", "bic"}
WIDTH = 6
EARLY: list[str | int] = ["cat", "dog"]
LATE: list[str | int] = ["oak", "elm", 7]


@vs.register_backbone("golden")
def golden(name, **options):
    """A tiny network whose weights do not depend on how torch draws random numbers."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4), torch.nn.Flatten())
    with torch.no_grad():
        network[0].weight.copy_(torch.arange(12.0).mul(1.7).sin().view(4, 3, 1, 1))
        network[0].bias.zero_()
    return vs.from_module(network, input_size=2, mean=(0.5,) * 3, std=(0.25,) * 3, name=name, **options)


def rows(labels, on_images, first=0):
    """A row for each label: its class's place and some noise, both by sines, the same on every machine."""
    width = 12 if on_images else WIDTH
    known = [*EARLY, *LATE]
    number = np.array([known.index(label) for label in labels])
    places = 2 + 2 * np.sin(1 + 2.3 * np.arange(len(known))[:, None] * np.arange(1, width + 1))
    noise = 0.5 * np.sin(37.7 * (first + np.arange(len(labels)))[:, None] + 9.1 * np.arange(width))
    X = (places[number] + noise).astype(np.float32)
    return np.clip(60 * X, 0, 255).astype(np.uint8).reshape(-1, 2, 2, 3) if on_images else X


def taught(model, on_images):
    """Two tasks, the first told, the second found; the second brings an old class back, and is not over."""
    labels = EARLY * 40
    model.partial_fit(rows(labels, on_images), labels, task="Monday")
    labels = LATE * 70 + EARLY[:1] * 3
    model.partial_fit(rows(labels, on_images, first=80), labels)
    return model


def queries(on_images):
    return rows([*EARLY, *LATE] * 4, on_images, first=900)


def main():
    folder = FOLDER / vs.__version__
    folder.mkdir(parents=True)
    answers = {}
    for name, make in MODELS.items():
        model = taught(make(), name in ON_IMAGES)
        model.save(folder / f"{name}.safetensors")
        answers[name] = model.predict(queries(name in ON_IMAGES)).tolist()
    lines = [f'"{name}": {json.dumps(labels)}' for name, labels in answers.items()]
    (folder / "answers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
