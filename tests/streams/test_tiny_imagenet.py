"""Tiny-ImageNet, in the official folders and as two arrays."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs

from .samples import write_tiny_imagenet


def write_arrays(folder, n=8):
    root = folder / "tiny-imagenet-200"
    root.mkdir()
    np.save(root / "images.npy", np.arange(n, dtype=np.uint8)[:, None, None, None].repeat(3, 3))
    np.save(root / "labels.npy", (np.arange(n) % 2).astype(np.uint8))
    (root / "wnids.txt").write_text("n01\nn02\n")
    return root


def test_official_folders_take_validation_images_for_testing(tmp_path):
    write_tiny_imagenet(tmp_path)
    data = vs.load_data("tiny-imagenet", tmp_path)
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.y_test.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.class_names == {0: "n03", 1: "goldfish", 2: "toad"}
    assert data.X[[0, 3, 6]].shape == (3, 8, 8, 3)


def test_arrays_are_read_and_have_no_test_part(tmp_path):
    write_arrays(tmp_path)
    stream = vs.stream("tiny-imagenet", tasks=2, data_dir=tmp_path)
    assert sorted(label for task in stream for _, y in task for label in y.tolist()) == [0] * 4 + [1] * 4
    with pytest.raises(vs.DataError, match=r"no test part.*test_share"):
        _ = stream[0].test


@pytest.mark.parametrize("name", ["images.npy", "labels.npy"])
def test_truncated_arrays_are_refused(tmp_path, name):
    path = write_arrays(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(vs.DataError, match=f"{name} is truncated or damaged"):
        vs.load_data("tiny-imagenet", tmp_path)


def test_arrays_that_do_not_belong_together_are_refused(tmp_path):
    root = write_arrays(tmp_path)
    np.save(root / "labels.npy", np.zeros(3, int))
    with pytest.raises(vs.DataError, match="do not belong together"):
        vs.load_data("tiny-imagenet", tmp_path)
    np.save(root / "labels.npy", np.full(8, 2))
    with pytest.raises(vs.DataError, match="0 to 1"):
        vs.load_data("tiny-imagenet", tmp_path)


def test_missing_files_are_named(tmp_path):
    root = write_tiny_imagenet(tmp_path)
    (root / "val/images/val_3.JPEG").unlink()
    with pytest.raises(vs.DataError, match=r"no file .*val_3.JPEG"):
        vs.load_data("tiny-imagenet", tmp_path)
    (root / "wnids.txt").write_text("n03\nn77\n")
    with pytest.raises(vs.DataError, match=r"no images in .*n77"):
        vs.load_data("tiny-imagenet", tmp_path)
    (root / "wnids.txt").unlink()
    with pytest.raises(vs.DataError, match=r"no file .*wnids.txt"):
        vs.load_data("tiny-imagenet", tmp_path)
