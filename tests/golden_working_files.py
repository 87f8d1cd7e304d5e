"""How the working files in tests/golden were made: what stands beside a model that photos or rows were taught to.

`python tests/golden_working_files.py` writes those of the version at hand, once; see golden_files.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import golden_files  # it registers the backbone
import votestream as vs
from votestream.photos.photo_list import list_photos
from votestream.photos.training import learn_photos
from votestream.serve.engine.changes import Learn, Undo
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.settings import EngineSettings

PHOTOS, ROWS = "photos.safetensors", "rows.safetensors"  # by `votestream learn`, by `votestream serve`
SETTINGS = {
    **dict.fromkeys(("backbone", "views", "stages", "learner", "budget", "max_pixels")),
    "backbone": "golden",
    "device": "cpu",
}
LABELS = ["cat", "dog", "elm"]


def write_photos(folder: Path) -> None:
    """Three of each class, in a format whose bytes no library decides about."""
    for number, label in enumerate(LABELS):
        (folder / label).mkdir(parents=True)
        for photo in range(3):
            pixels = 60 + 60 * number + 9 * photo + 20 * np.sin(np.arange(192) * (number + 1))
            (folder / label / f"{photo}.ppm").write_bytes(b"P6\n8 8\n255\n" + pixels.astype(np.uint8).tobytes())


def teach_photos(model: Path, photos: Path):
    return learn_photos(model, list_photos(photos), SETTINGS, None, 0, 1000)


def teach_rows(model: Path):
    """Ten lessons, of which one is taken back, and what the model answers then."""
    served, _ = open_model(model, EngineSettings(undo_reach=5))
    labels = ["cat", "dog", "oak", "elm", "cat"]
    for first in (0, 50):
        served.change([(Learn(golden_files.rows(labels, False, first=first), labels, None), None)])
    served.change([(Undo(), None)])
    answers = served.learner.predict(golden_files.queries(False)).tolist()
    served.journal.close()
    return answers


def main() -> None:
    folder = golden_files.FOLDER / vs.__version__ / "working"
    folder.mkdir()
    write_photos(folder / "photos")
    teach_photos(folder / PHOTOS, folder / "photos")
    answers = {"rows": teach_rows(folder / ROWS)}
    (folder / "answers.json").write_text(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
