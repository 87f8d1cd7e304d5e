"""Whether an exported model predicts as the model does, what float16 costs, and how fast it is beside it.

    python benchmarks/export.py --data-dir data --photos photos/flowers photos/signs

CIFAR: a model is taught all training images in tasks, exported, and both look at the 10,000 test images, pixels in,
probabilities out, one thread each, in turns. Photos: folders of round*/CLASS/*.jpg to teach and test/CLASS/*.jpg to
ask about, each in its own size, so that the graph resizes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image

import votestream as vs
from cifar import DATA_SETS, N_TASKS
from rows import COMMAND, RESULTS, append
from votestream._version import __version__

PIECE = 250  # images that one and then the other looks at
RESULT = RESULTS / "export.csv"


def taught_on_cifar(
    data_set: str, data_dir: Path, learner: vs.Learner
) -> tuple[vs.ImageClassifier, np.ndarray, np.ndarray]:
    """A model that has met all classes in tasks, and the test part."""
    data = vs.load_data(DATA_SETS[data_set], data_dir)
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    features = data.seen_through(backbone)
    assert isinstance(features.X, np.ndarray)
    assert isinstance(data.X_test, np.ndarray)
    assert data.y_test is not None
    model = vs.ImageClassifier(backbone, learner)
    classes = np.unique(data.y)
    for task, own in enumerate(np.array_split(np.random.default_rng(0).permutation(classes), N_TASKS[data_set])):
        rows = np.flatnonzero(np.isin(data.y, own))
        rows = np.random.default_rng(task).permutation(rows)
        model.partial_fit_features(features.X[rows], data.y[rows], task=f"task {task}")
    return model, data.X_test, data.y_test


def taught_on_photos(folder: Path) -> tuple[vs.ImageClassifier, list[np.ndarray], np.ndarray]:
    backbone = vs.create_backbone("efficientnet_lite0", stages="quick", device="cpu")
    model = vs.ImageClassifier(backbone, vs.GaussianVoting(track=True, device="cpu"))
    for part in sorted(folder.glob("round*")):
        files = sorted(part.glob("*/*.jpg"))
        files = [files[i] for i in np.random.default_rng(0).permutation(len(files))]
        model.partial_fit(files, [file.parent.name for file in files], task=part.name)
    tests = sorted((folder / "test").glob("*/*.jpg"))
    images = [np.asarray(Image.open(file).convert("RGB")) for file in tests]
    return model, images, np.array([file.parent.name for file in tests])


def session_of(model: vs.Learner, float16: bool) -> tuple[onnxruntime.InferenceSession, int]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        vs.export_onnx(model, path, float16=float16)
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"]), path.stat().st_size


def compared(
    what: str, model: vs.ImageClassifier, images: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray, float16: bool
) -> dict[str, object]:
    session, size = session_of(model, float16)
    piece = PIECE if isinstance(images, np.ndarray) else 1  # photos differ in size
    ours, theirs, classes, ratios = [], [], [], []
    for start in range(0, len(images), piece):
        some = np.stack(images[start : start + piece])
        before = time.perf_counter()
        ours.append(model.predict_proba(some))
        between = time.perf_counter()
        chosen, shares = session.run(["class", "probabilities"], {"images": some})
        ratios.append((between - before) / (time.perf_counter() - between))
        theirs.append(shares)
        classes.append(chosen)
    P, Q, found = np.concatenate(ours), np.concatenate(theirs), model.classes_[np.concatenate(classes)]
    wanted, apart = model.classes_[P.argmax(1)], np.abs(P - Q).max(1)
    return {
        "what": what,
        "learner": model.learner_.name,
        "backbone": model.backbone_.name,
        "weights": "float16" if float16 else "float32",
        "images": len(images),
        "same class": int((found == wanted).sum()),
        "largest difference of a probability": f"{apart.max():.1e}",
        "its 99th percentile": f"{np.quantile(apart, 0.99):.1e}",
        "accuracy, ours": f"{100 * np.mean(wanted == labels):.2f}",
        "accuracy, exported": f"{100 * np.mean(found == labels):.2f}",
        "bytes": size,
        "times our speed": f"{statistics.median(ratios):.2f}",
        "images at once": piece,
        "threads": torch.get_num_threads(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "version": __version__,
        "onnxruntime": onnxruntime.__version__,
        "command": COMMAND,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where CIFAR lies")
    parser.add_argument("--data-sets", nargs="*", choices=DATA_SETS, default=list(DATA_SETS))
    parser.add_argument("--learners", nargs="*", default=["gaussian_voting", "candidates_voting", "slda"])
    parser.add_argument("--photos", nargs="*", type=Path, default=[], help="folders of round*/CLASS and test/CLASS")
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for data_set in given.data_sets:
        for name in given.learners:
            learner = vs.create(name, device="cpu", track=name == "gaussian_voting")
            model, images, labels = taught_on_cifar(data_set, given.data_dir, learner)
            for float16 in (False, True):
                row = compared(f"{data_set}, test part", model, images, labels, float16)
                print(row)
                append(given.out, row)
    for folder in given.photos:
        taught, photos, names = taught_on_photos(folder)
        for float16 in (False, True):
            row = compared(f"photos: {folder.name}, resized in the graph", taught, photos, names, float16)
            print(row)
            append(given.out, row)


if __name__ == "__main__":
    main()
