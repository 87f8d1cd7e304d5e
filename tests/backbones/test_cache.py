"""Features are computed once: whoever asks, whatever is interrupted, whatever breaks on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from votestream.backbones import Backbone, ImageError, cached_features, clear_cached, list_cached
from votestream.common.cache_folder import cache_folder

from .samples import random_images, tiny_backbone

# A process of its own: it waits for the file "go", computes slowly, and prints how many images it computed.
SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from backbones.samples import random_images, tiny_backbone
from votestream.backbones import cached_features
backbone, run, seen = tiny_backbone(), None, []
run = backbone._run
def slowly(batch):
    time.sleep(0.02 * len(batch)); seen.append(len(batch)); return run(batch)
backbone._run = slowly
Path({folder!r}, f"ready{{sys.argv[1]}}").touch()
while not Path({folder!r}, "go").exists():
    time.sleep(0.01)
features = cached_features(backbone, random_images(40, 16, 16), folder={folder!r}, chunk=4)
print(sum(seen), float(features.sum()))
"""


class Counting:
    """A backbone that counts the images it was given."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone, self.seen = backbone, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.backbone, name)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.seen += len(images)
        return self.backbone(images)


@pytest.fixture
def counting() -> Counting:
    return Counting(tiny_backbone())


@pytest.fixture
def images() -> np.ndarray:
    return random_images(40, 16, 16)


def ask(counting: Counting, images: object, folder: Path, **options: object) -> tuple[np.ndarray, int]:
    """Features, and how many images had to be computed for them."""
    before = counting.seen
    features = cached_features(counting, images, folder=folder, **({"chunk": 4} | options))  # type: ignore[arg-type]
    return features, counting.seen - before


def start(folder: Path, number: int) -> subprocess.Popen[str]:
    code = SLOW.format(tests=str(Path(__file__).parents[1]), folder=str(folder))
    return subprocess.Popen([sys.executable, "-c", code, str(number)], stdout=subprocess.PIPE, text=True)


def wait_for(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_the_second_time_nothing_is_computed(counting: Counting, images: np.ndarray, tmp_path: Path) -> None:
    features, computed = ask(counting, images, tmp_path)
    assert computed == 40
    np.testing.assert_allclose(features, counting.backbone(images), atol=1e-6)
    again, computed = ask(counting, images.copy(), tmp_path, chunk=7)
    assert computed == 0
    np.testing.assert_array_equal(again, features)
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable


def test_other_images_or_another_backbone_are_computed(counting: Counting, images: np.ndarray, tmp_path: Path) -> None:
    ask(counting, images, tmp_path)
    changed = images.copy()
    changed[-1, 0, 0, 0] ^= 1
    assert ask(counting, changed, tmp_path)[1] == 40
    assert ask(counting, images[::-1], tmp_path)[1] == 40
    assert ask(counting, images.reshape(40, 8, 32, 3), tmp_path)[1] == 40
    assert ask(counting, list(images), tmp_path)[1] == 40
    other = Counting(counting.backbone.calibrate(images))
    assert ask(other, images, tmp_path)[1] == 40
    assert len(list_cached(tmp_path)) == 6


def test_files_are_known_by_their_contents(counting: Counting, images: np.ndarray, tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for path, image in zip(paths, images, strict=False):
        Image.fromarray(image).save(path)
    cache = tmp_path / "cache"
    features, computed = ask(counting, paths, cache)
    assert computed == 3
    np.testing.assert_allclose(features, counting.backbone(images[:3]), atol=1e-6)
    moved = [path.rename(tmp_path / f"moved-{path.name}") for path in paths]
    assert ask(counting, [str(path) for path in moved], cache)[1] == 0
    Image.fromarray(images[7]).save(moved[1])
    assert ask(counting, moved, cache)[1] == 3
    assert ask(counting, [Image.open(path) for path in moved], cache)[1] == 3
    assert ask(counting, [Image.open(path) for path in moved], cache)[1] == 0


def test_a_killed_run_goes_on_where_it_was(counting: Counting, images: np.ndarray, tmp_path: Path) -> None:
    process = start(tmp_path, 0)
    (tmp_path / "go").touch()
    wait_for(lambda: any(entry.done >= 12 for entry in list_cached(tmp_path)))
    process.kill()
    process.communicate()
    done = list_cached(tmp_path)[0].done
    assert 12 <= done < 40
    features, computed = ask(counting, images, tmp_path)
    assert computed == 40 - done
    np.testing.assert_allclose(features, counting.backbone(images), atol=1e-6)


def test_of_two_that_ask_at_once_one_computes(counting: Counting, images: np.ndarray, tmp_path: Path) -> None:
    processes = [start(tmp_path, number) for number in range(2)]
    wait_for(lambda: all((tmp_path / f"ready{number}").exists() for number in range(2)))
    (tmp_path / "go").touch()
    answers = sorted(process.communicate(timeout=60)[0].split() for process in processes)
    assert [answer[0] for answer in answers] == ["0", "40"]
    assert answers[0][1] == answers[1][1]
    assert ask(counting, images, tmp_path)[1] == 0


def flip_a_byte(entry: Path) -> None:
    with open(entry / "features.npy", "r+b") as file:
        file.seek(-8 * 4 * 6, 2)  # six rows before the end: in the last chunk but one
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 255]))


def shorten(entry: Path) -> None:
    content = (entry / "features.npy").read_bytes()
    (entry / "features.npy").write_bytes(content[:-10])


def tear_the_last_line(entry: Path) -> None:
    content = (entry / "chunks.jsonl").read_text().rstrip()
    (entry / "chunks.jsonl").write_text(content[:-3])


@pytest.mark.parametrize(
    ("damage", "again"),
    [
        (flip_a_byte, 4),
        (tear_the_last_line, 4),
        (shorten, 40),
        (lambda entry: (entry / "features.npy").write_bytes(b""), 40),
        (lambda entry: (entry / "features.npy").unlink(), 40),
        (lambda entry: np.save(entry / "features.npy", np.zeros((3, 8), np.float32)), 40),
        (lambda entry: (entry / "chunks.jsonl").unlink(), 40),
        (lambda entry: (entry / "chunks.jsonl").write_text("[[1], 2]\n7\n{}\n"), 40),
        (lambda entry: (entry / "about.json").write_text("{"), 40),
        (lambda entry: (entry / "about.json").write_text(json.dumps({"images": 40})), 40),
    ],
)
def test_what_is_damaged_is_computed_again(
    counting: Counting, images: np.ndarray, tmp_path: Path, damage, again: int
) -> None:
    features = np.array(ask(counting, images, tmp_path)[0])
    damage(list_cached(tmp_path)[0].path)
    assert len(list_cached(tmp_path)) == 1
    repaired, computed = ask(counting, images, tmp_path)
    assert computed == again
    np.testing.assert_allclose(repaired, features, atol=1e-6)
    assert ask(counting, images, tmp_path)[1] == 0


def test_a_broken_image_is_named_and_the_rest_is_kept(counting: Counting, images: np.ndarray, tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.png" for index in range(8)]
    for path, image in zip(paths, images, strict=False):
        Image.fromarray(image).save(path)
    paths[6].write_bytes(b"broken")
    with pytest.raises(ImageError, match=r"6\.png"):
        ask(counting, paths, tmp_path / "cache")
    assert [entry.done for entry in list_cached(tmp_path / "cache")] == [4]
    with pytest.raises(ImageError, match="absent"):
        ask(counting, [tmp_path / "absent.png"], tmp_path / "cache")


def test_clearing_takes_one_backbones_entries_or_all_but_those_in_use(
    counting: Counting, images: np.ndarray, tmp_path: Path
) -> None:
    ask(counting, images, tmp_path)
    ask(counting, images[:5], tmp_path)
    (tmp_path / "not ours").mkdir()
    assert clear_cached("another", folder=tmp_path) == []
    first, second = list_cached(tmp_path)
    assert (first.backbone, first.images, first.done, first.feature_dim) == ("tiny", 40, 40, 8)
    with FileLock(tmp_path / f"{first.key}.lock"):
        assert clear_cached(folder=tmp_path) == [second]
    assert clear_cached("tiny", folder=tmp_path) == [first]
    assert list_cached(tmp_path) == []
    assert (tmp_path / "not ours").exists()
    assert ask(counting, images, tmp_path)[1] == 40


def test_features_stay_readable_while_their_entry_is_replaced(
    counting: Counting, images: np.ndarray, tmp_path: Path
) -> None:
    features, _ = ask(counting, images, tmp_path)
    wanted = np.array(features)
    (list_cached(tmp_path)[0].path / "about.json").unlink()
    done = []

    class Watching(Counting):
        def __call__(self, images: np.ndarray) -> np.ndarray:
            np.testing.assert_array_equal(features, wanted)
            done.append(list_cached(tmp_path)[0].done)
            return super().__call__(images)

    ask(Watching(counting.backbone), images, tmp_path)
    assert done == list(range(0, 40, 4))


def test_the_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    assert cache_folder(tmp_path) == tmp_path
    monkeypatch.delenv("VOTESTREAM_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "votestream"


def test_no_images_and_bad_chunks(counting: Counting, tmp_path: Path) -> None:
    assert ask(counting, [], tmp_path)[0].shape == (0, 8)
    with pytest.raises(ValueError, match="chunk"):
        ask(counting, [], tmp_path, chunk=0)


def test_the_bar_tells_images_a_second_and_is_silent_without_a_terminal(
    counting: Counting, images: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(counting, images, tmp_path)
    assert capsys.readouterr().err == ""
    ask(counting, images[::-1], tmp_path, progress=True)
    shown = capsys.readouterr().err
    assert "tiny" in shown
    assert "40/40" in shown
    assert "images/s" in shown
