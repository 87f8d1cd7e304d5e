"""Model files: whole or not at all, refused when damaged, foreign or newer, and never a pickle."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors
from safetensors.numpy import save_file

import votestream as vs
from conftest import ImageStream, make_on_network
from votestream.core.registry import LEARNERS
from votestream.io import partial_files as partial
from votestream.io.partial_files import beside


@pytest.fixture
def model(stream):
    return vs.CandidatesVoting(budget=30, device="cpu").partial_fit(stream.X, stream.y)


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def test_the_header_says_what_the_file_is(path):
    with safetensors.safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["votestream"])
    assert header["format"] == 3
    assert header["learner"] == "candidates_voting"
    assert header["version"] == vs.__version__
    assert header["params"]["budget"] == 30


def test_equal_models_are_equal_files(model, tmp_path):
    for number in range(8):
        model.save(tmp_path / f"{number}")
    assert len({(tmp_path / f"{number}").read_bytes() for number in range(8)}) == 1


def test_saving_over_a_file_replaces_it_and_leaves_nothing_else(model, path, stream):
    model.partial_fit(stream.X, stream.y)
    model.save(path)
    assert [p.name for p in path.parent.iterdir()] == ["m.safetensors"]
    assert vs.load(path).class_counts_.sum() == 2 * len(stream.X)


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_failure_while_saving_leaves_the_old_file(model, path, stream, monkeypatch, moment):
    old = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    if moment == "write":
        monkeypatch.setattr("votestream.io.model_files.os.fdopen", fail)
    else:
        monkeypatch.setattr(f"votestream.io.model_files.os.{moment}", fail)
    with pytest.raises(OSError, match="disk full"):
        model.partial_fit(stream.X, stream.y).save(path)
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == ["m.safetensors"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_killed_at_any_moment_the_file_is_the_old_one_or_the_new_one(path):
    program = f"""
import sys, votestream as vs
model = vs.load({str(path)!r})
print("ready", flush=True)
while True:
    model.partial_fit([[0.0] * model.n_features_in_], [0]).save({str(path)!r})
"""
    counts = [vs.load(path).class_counts_.sum()]
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    child.stdout.readline()
    deadline = time.monotonic() + 60
    while counts[-1] < counts[0] + 5 and time.monotonic() < deadline:
        counts.append(vs.load(path).class_counts_.sum())  # whole, whenever it is looked at
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    counts.append(vs.load(path).class_counts_.sum())
    assert counts == sorted(counts)
    assert counts[-1] >= counts[0] + 5


def test_every_flipped_or_missing_byte_is_noticed(path):
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in [0, 9, *rng.integers(0, len(whole), 60).tolist(), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(0, 8)
        path.write_bytes(damaged)
        with pytest.raises(vs.ModelFileError):
            vs.load(path)
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(vs.ModelFileError):
            vs.load(path)


def test_foreign_files_are_refused_and_no_pickle_is_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    (tmp_path / "pickle").write_bytes(pickle.dumps(Trap()))
    (tmp_path / "text").write_text("hello")
    save_file({"a": np.zeros(3)}, tmp_path / "other")
    save_file({"a": np.zeros(3)}, tmp_path / "headless", metadata={"votestream": "[1"})
    for name in ("pickle", "text", "other", "headless"):
        with pytest.raises(vs.ModelFileError, match=name):
            vs.load(tmp_path / name)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(FileNotFoundError, match="no model file at"):
        vs.load(tmp_path / "nowhere")


def test_saving_to_a_folder_that_is_not_there_says_so(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.save(tmp_path / "nowhere" / "m.safetensors")


def test_a_newer_format_says_to_update(path, monkeypatch, model):
    monkeypatch.setattr("votestream.io.model_files.FORMAT", 99)
    model.save(path)
    monkeypatch.undo()
    with pytest.raises(vs.ModelFileError, match=r"newer VoteStream .*update votestream"):
        vs.load(path)


def test_a_learner_this_version_lacks_is_named(path, monkeypatch):
    monkeypatch.delitem(LEARNERS._known, "candidates_voting")
    with pytest.raises(vs.ModelFileError, match="a learner called 'candidates_voting', which this version lacks"):
        vs.load(path)


def test_a_model_can_be_loaded_onto_another_device(model, path, stream):
    assert vs.load(path, device="cpu").device == "cpu"
    assert np.array_equal(vs.load(path, device="cpu").predict(stream.X), model.predict(stream.X))


def test_file_permissions_are_the_users_own(path):
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def partial_files(folder):
    return [entry.name for entry in folder.iterdir() if entry.name.endswith(".partial")]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_what_a_killed_writer_left_is_removed_by_the_next_save(model, path):
    program = f"""
import os, signal
from votestream.io.model_files import write
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
write({str(path)!r}, {{}}, {{}})
"""
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    assert len(partial_files(path.parent)) == 1  # the second has removed the first's
    (path.parent / ".m.safetensors.abc_1234.partial").write_bytes(b"of an earlier version")
    (path.parent / ".m.safetensors.x.abc_1234.partial").write_bytes(b"another model's")
    model.save(path)
    assert partial_files(path.parent) == [".m.safetensors.x.abc_1234.partial"]


def test_what_another_writer_is_writing_is_left_alone(model, path):
    with beside(path) as (handle, name):
        os.close(handle)
        model.save(path)
        assert os.path.exists(name)
        os.replace(name, path)
    assert partial_files(path.parent) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_linked_model_is_written_through_the_link(model, path, stream, tmp_path):
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(path, link.parent))
    vs.load(link).partial_fit(stream.X, stream.y).save(link)
    assert link.is_symlink()
    assert vs.load(path).class_counts_.sum() == 2 * len(stream.X)
    assert [p.name for p in link.parent.iterdir()] == ["link"]
    assert partial_files(path.parent) == []


@pytest.mark.parametrize("name", ["a" * 237, "a" * 238, "b" * 255, "é" * 127, "x" + "日" * 84], ids=len)
def test_a_file_name_may_be_as_long_as_the_system_lets_it(model, tmp_path, name):
    for _ in range(2):
        model.save(tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    assert vs.load(tmp_path / name).classes_.tolist() == model.classes_.tolist()


def test_a_model_that_has_diverged_does_not_replace_a_good_file(tmp_path):
    images = ImageStream()
    model = make_on_network("er")().partial_fit(images.X, images.y)
    model.save(tmp_path / "m.safetensors")
    good = (tmp_path / "m.safetensors").read_bytes()
    with np.errstate(all="ignore"):
        model.set_params(lr=1e30).partial_fit(images.X, images.y)
    with pytest.raises(ValueError, match=r"has diverged .* and is not saved"):
        model.save(tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == good


def test_without_file_locks_as_on_windows_a_save_is_whole_and_removes_what_a_dead_writer_left(monkeypatch, tmp_path):
    monkeypatch.setattr(partial, "fcntl", None)
    path = tmp_path / "m"
    left = tmp_path / f".m.abcdefgh{partial.SUFFIX}"
    left.write_bytes(b"half a model")
    with pytest.raises(TypeError):
        partial.write_whole(path, "no bytes")
    assert list(tmp_path.iterdir()) == []
    partial.write_whole(path, b"a whole one")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("m", b"a whole one")]
