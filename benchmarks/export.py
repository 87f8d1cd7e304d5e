"""Whether an exported model predicts as the model does, what float16 costs, and how fast it is beside it.

    python benchmarks/export.py --data-dir data --photos photos/flowers photos/signs
    python benchmarks/export.py --photos photos/flowers --resizing

CIFAR: a model is taught training images in tasks, exported, and both look at the 10,000 test images, pixels in,
probabilities out, one thread each, in turns. Photos: folders of round*/CLASS/*.jpg to teach and test/CLASS/*.jpg to
ask about, each in its own size, so that the graph resizes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import PIL
import torch
from onnx import TensorProto, helper
from PIL import Image

import votestream as vs
from cifar import DATA_SETS, N_TASKS
from rows import ACCURACY, COMMAND, append
from votestream._version import __version__
from votestream.backbones.preprocessing import Preprocessing
from votestream.export.image_input import with_any_size
from votestream.export.tracing import OPSET

SHAPES = ((128, 128), (96, 128), (97, 128), (128, 97), (128, 61), (61, 128))  # of photos that are 128 x 128
PIECE = 250  # images that one and then the other looks at
RESULT = ACCURACY / "export.csv"


def taught_on_cifar(
    data_set: str, data_dir: Path, samples: int, learners: Sequence[str]
) -> Iterator[tuple[vs.ImageClassifier, np.ndarray, np.ndarray]]:
    """Models that have met all classes in tasks, and the test part."""
    data = vs.load_data(DATA_SETS[data_set], data_dir)
    assert isinstance(data.X, np.ndarray)
    assert isinstance(data.X_test, np.ndarray)
    assert data.y_test is not None
    random = np.random.default_rng(0)
    classes = random.permutation(np.unique(data.y))
    tasks = [
        random.permutation(np.concatenate([np.flatnonzero(data.y == label)[:samples] for label in own]))
        for own in np.array_split(classes, N_TASKS[data_set])
    ]
    backbone = vs.create_backbone("reduced_resnet18", device="cpu")
    features = [backbone(data.X[rows]) for rows in tasks]
    for name in learners:
        model = vs.ImageClassifier(backbone, vs.create(name, device="cpu", track=True))
        for number, (rows, X) in enumerate(zip(tasks, features, strict=True)):
            model.partial_fit_features(X, data.y[rows], task=f"task {number}")
        yield model, data.X_test, data.y_test


def taught_on_photos(folder: Path) -> tuple[vs.ImageClassifier, list[np.ndarray], np.ndarray]:
    backbone = vs.create_backbone("efficientnet_lite0", stages="quick", device="cpu")
    model = vs.ImageClassifier(backbone, vs.GaussianVoting(track=True, device="cpu"))
    for part in sorted(folder.glob("round*")):
        files = photos_in(part)
        files = [files[i] for i in np.random.default_rng(0).permutation(len(files))]
        model.partial_fit(files, [file.parent.name for file in files], task=part.name)
    tests = photos_in(folder / "test")
    images = [np.asarray(Image.open(file).convert("RGB")) for file in tests]
    return model, images, np.array([file.parent.name for file in tests])


def photos_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*/*") if file.suffix.lower() == ".jpg")


def resized(folder: Path) -> Iterator[dict[str, object]]:
    """How far the graph's resizing is from Pillow's, on the test photos cut to some shapes."""
    photos = [np.asarray(Image.open(file).convert("RGB")) for file in photos_in(folder / "test")]
    for size in (32, 224):
        how = Preprocessing(size)
        session = onnxruntime.InferenceSession(resizing_alone(how))
        for height, width in SHAPES:
            images = np.stack([photo[:height, :width] for photo in photos])
            (found,) = session.run(None, {"images": images})
            apart = np.abs(found.astype(int) - np.stack([how.fit(image) for image in images]))
            yield {
                "photos": folder.name,
                "height": height,
                "width": width,
                "to": size,
                "images": len(images),
                "share of values that differ": f"{(apart > 0).mean():.1e}",
                "largest difference": int(apart.max()),
                "pillow": PIL.__version__,
                "onnxruntime": onnxruntime.__version__,
                "command": COMMAND,
            }


def resizing_alone(how: Preprocessing) -> bytes:
    """A graph that prepares images and no more."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, ["n", how.input_size, how.input_size, 3])
        for name in ("images", "prepared")
    ]
    graph = helper.make_graph([helper.make_node("Identity", ["images"], ["prepared"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    content: bytes = with_any_size(model, {"images": how}).SerializeToString()
    return content


def session_of(model: vs.Learner, float16: bool) -> tuple[onnxruntime.InferenceSession, int]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        vs.export_onnx(model, path, float16=float16)
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"]), path.stat().st_size


def compared(
    what: str, model: vs.ImageClassifier, images: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray
) -> Iterator[dict[str, object]]:
    """A row for each kind of weights; the three look at a few images in turns."""
    sessions = {weights: session_of(model, weights == "float16") for weights in ("float32", "float16")}
    piece = PIECE if isinstance(images, np.ndarray) else 1  # photos differ in size
    ours: list[np.ndarray] = []
    theirs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {weights: [] for weights in sessions}
    ratios: dict[str, list[float]] = {weights: [] for weights in sessions}
    for start in range(0, len(images), piece):
        some = np.stack(list(images[start : start + piece]))
        before = time.perf_counter()
        ours.append(model.predict_proba(some))
        took = time.perf_counter() - before
        for weights, (session, _) in sessions.items():
            before = time.perf_counter()
            theirs[weights].append(session.run(["class", "probabilities"], {"images": some}))
            ratios[weights].append(took / (time.perf_counter() - before))
    P = np.concatenate(ours)
    wanted = model.classes_[P.argmax(1)]
    for weights, (_, size) in sessions.items():
        chosen, shares = (np.concatenate(parts) for parts in zip(*theirs[weights], strict=True))
        found, apart = model.classes_[chosen], np.abs(P - shares).max(1)
        yield {
            "what": what,
            "learner": model.learner_.name,
            "backbone": model.backbone_.name,
            "weights": weights,
            "samples learned": int(model.class_counts_.sum()),
            "images": len(images),
            "same class": int((found == wanted).sum()),
            "largest difference of a probability": f"{apart.max():.1e}",
            "its 99th percentile": f"{np.quantile(apart, 0.99):.1e}",
            "accuracy of the model": f"{100 * np.mean(wanted == labels):.2f}",
            "accuracy of the file": f"{100 * np.mean(found == labels):.2f}",
            "bytes": size,
            "times the model's speed": f"{statistics.median(ratios[weights]):.2f}",
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
    parser.add_argument("--samples", type=int, default=100, help="training images of each class of CIFAR")
    parser.add_argument("--photos", nargs="*", type=Path, default=[], help="folders of round*/CLASS and test/CLASS")
    parser.add_argument("--resizing", action="store_true", help="only the resizing of photos, pixel by pixel")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for data_set in () if given.resizing else given.data_sets:
        for model, images, labels in taught_on_cifar(data_set, given.data_dir, given.samples, given.learners):
            report(compared(f"{data_set}, test part", model, images, labels))
    for folder in given.photos if given.resizing else ():
        for row in resized(folder):
            print(row)
            append(ACCURACY / "export_resizing.csv", row)
    for folder in () if given.resizing else given.photos:
        taught, photos, names = taught_on_photos(folder)
        report(compared(f"photos, {folder.name}: resized in the graph", taught, photos, names))


def report(rows: Iterable[dict[str, object]]) -> None:
    for row in rows:
        print(row, flush=True)
        append(RESULT, row)


if __name__ == "__main__":
    main()
