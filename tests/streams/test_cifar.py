"""CIFAR's official pickles are read as they are, and never trusted."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

import votestream as vs

from .samples import cifar_content, python2, python3, write_cifar10, write_cifar100


@pytest.mark.parametrize("write", [python2, python3])
def test_cifar100_has_the_files_pixels_labels_and_names(tmp_path, write):
    write_cifar100(tmp_path, write=write)
    data = vs.load_data("cifar100", tmp_path)
    raw = cifar_content(300, 100, 0, b"fine_labels")
    assert data.X.shape == (300, 32, 32, 3)
    assert data.X.dtype == np.uint8
    assert data.X[7, 3, 5].tolist() == [raw[b"data"][7, 1024 * colour + 32 * 3 + 5] for colour in range(3)]
    assert data.y.tolist() == raw[b"fine_labels"]
    assert data.class_names[42] == "class_42"
    assert data.X_test.shape == (200, 32, 32, 3)


def test_cifar10_joins_its_five_files_in_their_order(tmp_path):
    write_cifar10(tmp_path)
    data = vs.load_data("cifar10", tmp_path)
    labels = [cifar_content(20, 10, seed, b"labels")[b"labels"] for seed in range(6)]
    assert data.y.tolist() == [label for part in labels[:5] for label in part]
    assert data.y_test.tolist() == labels[5]
    assert data.class_names[3] == "cat"


def test_what_is_read_can_be_written_to(tmp_path):
    write_cifar100(tmp_path)
    vs.load_data("cifar100", tmp_path).X[0] = 0


class Attack:
    """Unpickling it with plain pickle leaves a file behind."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("place", ["instead", "in data", "in a list", "as a key's value"])
@pytest.mark.parametrize(
    "attack",
    [
        Attack(os.mkdir, "owned"),
        Attack(eval, "__import__('os').mkdir('owned')"),
        Attack(np.save, "owned", np.zeros(1)),
        Attack(getattr, np.ndarray, "tofile"),
    ],
    ids=["os", "eval", "numpy", "getattr"],
)
def test_a_tampered_file_is_refused_and_not_run(tmp_path, attack, place):
    folder = write_cifar100(tmp_path)
    content = cifar_content(300, 100, 0, b"fine_labels")
    if place == "instead":
        content = attack
    elif place == "in data":
        content[b"data"] = attack
    elif place == "in a list":
        content[b"filenames"][17] = attack
    else:
        content[b"extra"] = attack
    (folder / "train").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(vs.DataError, match=r"tampered with.*Nothing of it was run"):
        vs.load_data("cifar100", tmp_path)
    assert os.listdir() == []


def test_arrays_of_objects_are_refused(tmp_path):
    folder = write_cifar100(tmp_path)
    content = cifar_content(300, 100, 0, b"fine_labels")
    content[b"data"] = np.array([{}] * 300, object)
    (folder / "train").write_bytes(python3(content))
    with pytest.raises(vs.DataError, match="not of bytes"):
        vs.load_data("cifar100", tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_says_so_and_what_to_do(tmp_path, share):
    path = write_cifar100(tmp_path) / "train"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(vs.DataError, match=r"truncated or damaged.*votestream data get cifar100"):
        vs.load_data("cifar100", tmp_path)


def test_damaged_bytes_end_in_an_error_that_is_ours(tmp_path):
    """Wherever one byte is turned over, the file loads or is refused in our words; nothing else ever comes out."""
    path = write_cifar10(tmp_path, per_file=10) / "batches.meta"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            vs.load_data("cifar10", tmp_path)
        except vs.DataError:
            continue


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({b"data": np.zeros((300, 100), np.uint8)}, "no rows of 3072 bytes"),
        ({b"data": [1, 2]}, "no rows of 3072 bytes"),
        ({b"fine_labels": [0] * 299}, "not as many labels"),
        ({b"fine_labels": [0] * 299 + [100]}, "labels other than 0 to 99"),
        ({b"fine_labels": [0] * 299 + [b"cat"]}, "labels other than 0 to 99"),
    ],
)
def test_contents_that_do_not_fit_are_named(tmp_path, change, complaint):
    path = write_cifar100(tmp_path) / "train"
    path.write_bytes(python2(cifar_content(300, 100, 0, b"fine_labels") | change))
    with pytest.raises(vs.DataError, match=complaint):
        vs.load_data("cifar100", tmp_path)


def test_another_pickle_is_not_mistaken_for_cifar(tmp_path):
    path = write_cifar100(tmp_path) / "train"
    path.write_bytes(python2({b"labels": []}))
    with pytest.raises(vs.DataError, match="has no entry 'data'"):
        vs.load_data("cifar100", tmp_path)


def test_missing_data_tells_the_command_and_the_way_by_hand(tmp_path):
    with pytest.raises(vs.DataError) as error:
        vs.load_data("cifar10", tmp_path)
    for part in (
        "votestream data get cifar10",
        "cifar-10-python.tar.gz",
        "the folder cifar-10-batches-py",
        str(tmp_path),
    ):
        assert part in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    (write_cifar10(tmp_path) / "data_batch_3").unlink()
    with pytest.raises(
        vs.DataError, match=r"no file .*data_batch_3: delete .*cifar-10-batches-py and run `votestream data get cifar10"
    ):
        vs.load_data("cifar10", tmp_path)


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    write_cifar10(tmp_path)
    monkeypatch.setenv("VOTESTREAM_DATA", str(tmp_path))
    assert len(vs.load_data("cifar10").y) == 100


def test_by_default_data_lies_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("VOTESTREAM_DATA", raising=False)
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path))
    write_cifar10(tmp_path / "data")
    assert len(vs.load_data("cifar10").y) == 100
