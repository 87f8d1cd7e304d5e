"""The examples of docs/data_in.md that need another library run; the pages name the versions that are pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import votestream as vs
from test_data_in import LABELS, NAMES, NUMBERS, X, bucket, hugging_face, png, shards  # noqa: F401  (fixtures)

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page):
    """The blocks of Python that are no sessions: sessions run in the ordinary tests."""
    found = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    return [block for block in found if not block.startswith(">>>")]


def test_the_examples_of_data_in_run(bucket, shards, hugging_face, empty_folder, capsys):  # noqa: F811
    datasets = pytest.importorskip("datasets")
    data = hugging_face.rename_columns({"photo": "image", "kind": "label"})
    for name in ("trees.parquet", "trees-0.parquet"):
        data.to_parquet(empty_folder / name)
    (empty_folder / "shards").symlink_to(shards)
    for row, (x, label) in enumerate(zip(X, LABELS, strict=True)):
        path = empty_folder / "photos" / label / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(x))
    fine = datasets.ClassLabel(names=NAMES)
    two = hugging_face.add_column("fine", NUMBERS.tolist(), feature=fine)
    names = {"vs": vs, "fine_and_coarse": two}
    found = blocks("data_in.md")
    assert len(found) == 2
    exec(found[0], names)
    assert capsys.readouterr().out == "['elm' 'fig' 'oak']\n"
    assert names["model"].class_counts_.sum() == 60 + 60 + 40 + 60 + 60
    exec(found[1], names)
    assert names["model"].classes_.tolist() == NAMES


@pytest.mark.parametrize(
    ("page", "package"),
    [
        *[("data_in.md", package) for package in ("datasets", "webdataset", "pyarrow", "s3fs", "moto", "torchvision")],
        *[("records.md", package) for package in ("mlflow-skinny", "tensorboard", "wandb")],
    ],
)
def test_versions_on_the_pages_are_those_pinned(page, package):
    pins = (DOCS.parent / "constraints-compat.txt").read_text(encoding="utf-8")
    pinned = re.search(rf"^{package}==(\d+\.\d+)", pins, re.M)[1]
    assert re.search(rf"{package} {pinned}\b", (DOCS / page).read_text(encoding="utf-8"))
