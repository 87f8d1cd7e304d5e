"""Parts that are done are found again: after a stop, by what they were made from, and whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from painted import paint, put
from votestream.core.files import parts_of
from votestream.distributed.chunks import ImageExtractor
from votestream.distributed.executor import Here
from votestream.distributed.store import PartStore
from votestream.io.model_files import packed


@pytest.fixture
def photos(tmp_path):
    for label in ("red", "green"):
        paint(tmp_path / "photos", label, 20)
    return tmp_path / "photos"


@pytest.fixture
def looked(monkeypatch):
    """Where the chunks begin that were looked at."""
    firsts = []
    look = ImageExtractor.__call__

    def watched(self, chunk):
        firsts.append(chunk.first)
        return look(self, chunk)

    monkeypatch.setattr(ImageExtractor, "__call__", watched)
    return firsts


def learned(photos, looked, **options):
    model = vs.ImageClassifier("pixels", vs.GaussianVoting(batch_size=8, **options.pop("settings", {})))
    looked.clear()
    vs.learn(photos, None, model, **{"chunk": 8, **options})
    return packed(*parts_of(model))


class Stopping(Here):
    def run(self, make, items):
        for number, result in super().run(make, items):
            yield number, result
            if number == 2:
                raise KeyboardInterrupt


def test_a_job_that_was_stopped_repeats_only_what_was_in_flight(photos, looked, tmp_path):
    plain = learned(photos, looked)
    store = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        learned(photos, looked, store=store, on=Stopping())
    assert looked == [0, 0, 8, 16]  # once to see what features are like
    assert learned(photos, looked, store=store) == plain
    assert looked == [0, 24, 32]
    assert learned(photos, looked, store=store) == plain
    assert looked == [0]


def test_a_part_is_made_again_where_what_it_was_made_from_has_changed(photos, looked, tmp_path):
    store = tmp_path / "parts"
    learned(photos, looked, store=store)
    put(photos / "red" / "photo 0.png", np.full((8, 8, 3), 255, np.uint8))
    learned(photos, looked, store=store)
    assert looked == [0, 16]  # the first of the red ones is in the third chunk
    for change in ({"settings": {"rank": 3}}, {"chunk": 9}, {"task": "other"}):
        learned(photos, looked, store=store, **change)
        assert len(looked) == 1 + -(-40 // change.get("chunk", 8)), change


def test_labels_that_look_alike_are_other_parts(photos, tmp_path):
    paths = sorted(photos.glob("*/*.png"))
    for label in (1, "1"):
        model = vs.ImageClassifier("pixels", vs.NearestClassMean())
        vs.learn(paths, [label] * len(paths), model, store=tmp_path / "parts")
        assert model.classes_.tolist() == [label]


def test_a_damaged_part_is_noticed_and_made_again(photos, looked, tmp_path):
    store = tmp_path / "parts"
    plain = learned(photos, looked, store=store)
    parts = sorted(store.glob("*/*.part"))
    assert len(parts) == 5
    whole = parts[0].read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]):
        parts[0].write_bytes(damaged)
        assert learned(photos, looked, store=store) == plain
        assert len(looked) == 2
        assert parts[0].read_bytes() == whole


def test_features_are_kept_for_learners_that_cannot_be_merged(photos, looked, tmp_path):
    for again in (False, True):
        model = vs.ImageClassifier("pixels", vs.CandidatesVoting(budget=20))
        looked.clear()
        vs.learn(photos, None, model, chunk=8, store=tmp_path / "parts")
        assert len(looked) == (0 if again else 5)
        assert model.exemplars_.labels.tolist().count("red") == 10


def test_a_store_may_be_a_url_and_leaves_no_half_written_file(photos, looked):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    try:
        plain = learned(photos, looked, store="memory://parts/here")
        assert learned(photos, looked, store="memory://parts/here") == plain
        assert looked == [0]
        names = system.find("/parts")
        assert len(names) == 5
        assert all(name.endswith(".part") for name in names)
    finally:
        system.rm("/parts", recursive=True)


def test_without_a_store_nothing_is_kept(photos, looked, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    learned(photos, looked)
    assert sorted(tmp_path.rglob("*")) == before
    assert PartStore(tmp_path / "none").get("ab") is None
