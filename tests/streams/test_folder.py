"""Image folders of one's own: every trouble is named, and nothing is left out in silence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import votestream as vs

from .samples import write_image


def write_folder(root, classes=("cat", "dog", "owl"), n=5, size=(8, 8)):
    for place, name in enumerate(classes):
        for i in range(n):
            write_image(root / name / f"{i}.png", 10 * place + i, size)
    return root


def test_labels_are_the_names_of_the_folders(tmp_path):
    write_folder(tmp_path)
    write_image(tmp_path / "owl" / "deeper" / "9.JPG", 3)
    (tmp_path / "owl" / "notes.txt").write_text("not an image")
    stream = vs.stream(f"folder:{tmp_path}", tasks=3, order=["owl", "cat", "dog"])
    assert [(task.classes, task.n_samples) for task in stream] == [(["owl"], 6), (["cat"], 5), (["dog"], 5)]


def test_train_and_test_folders_are_used_as_they_are(tmp_path):
    write_folder(tmp_path / "train")
    write_folder(tmp_path / "test", n=2)
    stream = vs.stream(f"folder:{tmp_path}", tasks=[1, 2])
    assert stream.n_samples == 15
    assert [len(task.test[1]) for task in stream] == [2, 6]
    assert set(stream[0].test[1]) == set(stream[0].classes)


def test_without_a_test_folder_nothing_is_set_aside_unasked(tmp_path):
    write_folder(tmp_path)
    assert vs.stream(f"folder:{tmp_path}").n_samples == 15
    stream = vs.stream(f"folder:{tmp_path}", test_share=0.4, seed=3)
    assert stream.n_samples == 9
    assert sorted(stream[-1].test[1]) == ["cat"] * 2 + ["dog"] * 2 + ["owl"] * 2
    assert "tested on 40%" in str(stream)
    again = vs.stream(f"folder:{tmp_path}", test_share=0.4, seed=3)
    assert again.data.X_test.paths == stream.data.X_test.paths
    assert not set(stream.data.X.paths) & set(stream.data.X_test.paths)
    assert vs.stream(f"folder:{tmp_path}", test_share=0.4, seed=4).data.X_test.paths != stream.data.X_test.paths


def test_unreadable_images_are_left_out_by_name(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "cat/broken.png").write_bytes((tmp_path / "cat/1.png").read_bytes()[:50])
    (tmp_path / "dog/empty.jpg").touch()
    with pytest.warns(vs.DataWarning, match=r"2 of 17 images were left out: .*broken.png.*empty.jpg is an empty file"):
        stream = vs.stream(f"folder:{tmp_path}")
    assert stream.n_samples == 15


def test_a_heic_photo_without_its_package_is_left_out_by_name_and_not_in_silence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed
    write_folder(tmp_path)
    (tmp_path / "cat/IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    with pytest.warns(
        vs.DataWarning, match=r"1 of 16 .*IMG_1.HEIC is a HEIC photo, .*pip install 'votestream\[heic\]'"
    ):
        assert vs.stream(f"folder:{tmp_path}").n_samples == 15


def test_images_above_max_pixels_are_left_out_by_name(tmp_path):
    write_folder(tmp_path)
    write_image(tmp_path / "cat/large.png", 5, (40, 30))
    with pytest.warns(vs.DataWarning, match=r"large.png is too large: 40 x 30"):
        assert vs.stream(f"folder:{tmp_path}", size=8, max_pixels=1199).n_samples == 15
    stream = vs.stream(f"folder:{tmp_path}", size=8, max_pixels=1200)
    assert sum(len(y) for task in stream for _, y in task) == 16


def test_a_class_without_readable_images_is_left_out_by_name(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "yak").mkdir()
    with pytest.warns(vs.DataWarning, match="class yak is without a readable image"):
        assert "yak" not in vs.stream(f"folder:{tmp_path}").class_order


def test_one_class_is_no_stream(tmp_path):
    write_folder(tmp_path, classes=["cat"])
    with pytest.raises(vs.DataError, match=r"has 1 class with images \(cat\): it needs .* two at least"):
        vs.stream(f"folder:{tmp_path}")


def test_folders_that_are_none_are_refused(tmp_path):
    with pytest.raises(vs.DataError, match=r"no folder .*nowhere"):
        vs.stream(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(vs.DataError, match="has no classes with images"):
        vs.stream(f"folder:{tmp_path}")
    write_folder(tmp_path / "train")
    with pytest.raises(vs.DataError, match=r"holds folders of folders .train/cat, .*use folder:.*train; `nested=True`"):
        vs.stream(f"folder:{tmp_path}")


def test_a_class_with_one_image_is_learned_and_not_tested_by_name(tmp_path):
    write_folder(tmp_path)
    write_image(tmp_path / "yak/only.png", 1)
    with pytest.warns(vs.DataWarning, match="class yak has one sample only, which is learned and not tested"):
        stream = vs.stream(f"folder:{tmp_path}", test_share=0.2)
    assert "yak" in stream.class_order
    assert "yak" not in stream[-1].test[1]


def test_classes_of_one_part_only_are_named(tmp_path):
    write_folder(tmp_path / "train", classes=("cat", "dog"))
    write_folder(tmp_path / "test", classes=("cat", "owl"))
    with pytest.warns(vs.DataWarning) as warned:
        stream = vs.stream(f"folder:{tmp_path}")
    texts = [str(each.message) for each in warned]
    assert any("class owl is not in" in text for text in texts)
    assert any("class dog is not in" in text and "never tested" in text for text in texts)
    assert set(stream[-1].test[1]) == {"cat"}


def test_images_of_different_sizes_need_a_size(tmp_path):
    write_folder(tmp_path)
    write_image(tmp_path / "owl/wide.png", 5, (20, 8))
    with pytest.raises(vs.DataError, match=r"different sizes do not stack: .*\(8 x 8\) and .*wide.png \(20 x 8\)"):
        vs.stream(f"folder:{tmp_path}")
    x, _ = next(iter(vs.stream(f"folder:{tmp_path}", size=6, batch=16, tasks=1)[0]))
    assert x.shape == (16, 6, 6, 3)
    assert x.dtype == np.uint8


def test_an_image_that_breaks_later_is_named_when_it_is_met(tmp_path):
    write_folder(tmp_path)
    stream = vs.stream(f"folder:{tmp_path}", tasks=1, batch=15)
    (tmp_path / "dog/3.png").write_bytes(b"")
    with pytest.raises(vs.ImageError, match=r"3.png is an empty file"):
        next(iter(stream[0]))


# ---- laid out as for `votestream learn` ---------------------------------------------------------


def test_the_validation_part_is_tested_on_where_there_is_no_test(tmp_path):
    write_folder(tmp_path / "train")
    write_folder(tmp_path / "val", n=2)
    assert len(vs.stream(f"folder:{tmp_path}")[-1].test[1]) == 6


def test_what_lies_beside_train_and_test_is_left_alone_by_name(tmp_path):
    for part, n in (("train", 5), ("test", 2), ("val", 3), ("labels", 0)):
        write_folder(tmp_path / part, n=n)
    (tmp_path / "labels").mkdir()
    with pytest.warns(UserWarning, match=r"is tested on test; val, labels left alone\.") as warned:
        stream = vs.stream(f"folder:{tmp_path}")
    assert len(warned) == 1
    assert not isinstance(warned[0].message, vs.DataWarning)  # nothing is amiss
    assert (stream.n_samples, len(stream[-1].test[1])) == (15, 6)


def test_a_level_too_high_is_refused_unless_it_is_meant(tmp_path):
    for part in ("round1", "round2"):
        write_folder(tmp_path / part)
    with pytest.raises(vs.DataError, match=r"\(round1, round2\), and .* cat, dog, owl\. .* use folder:.*round1;"):
        vs.stream(f"folder:{tmp_path}")
    stream = vs.stream(f"folder:{tmp_path}", nested=True)
    assert sorted(stream.class_order) == ["round1", "round2"]
    assert stream.n_samples == 30


def test_a_class_called_train_beside_others_is_a_class(tmp_path):
    write_folder(tmp_path, classes=("car", "test", "train"))
    assert sorted(vs.stream(f"folder:{tmp_path}").class_order) == ["car", "test", "train"]


def test_a_name_composed_in_two_ways_is_one_class_and_that_is_said(tmp_path):
    write_folder(tmp_path, classes=("B\u00fcche", "Bu\u0308che", "Eiche"))
    with pytest.warns(UserWarning, match="Two folders are called B\u00fcche"):
        stream = vs.stream(f"folder:{tmp_path}", tasks=1)
    assert sorted(stream.class_order) == ["B\u00fcche", "Eiche"]
    assert stream.n_samples == 15


def test_what_systems_leave_behind_is_no_class(tmp_path):
    write_folder(tmp_path, classes=("cat", "dog", "__MACOSX"))
    assert sorted(vs.stream(f"folder:{tmp_path}").class_order) == ["cat", "dog"]


def test_a_folder_that_is_linked_to_is_read(tmp_path):
    write_folder(tmp_path / "photos", classes=("cat", "dog"))
    write_folder(tmp_path / "more", classes=("owl",))
    (tmp_path / "photos" / "cat" / "link").symlink_to(tmp_path / "more" / "owl", target_is_directory=True)
    assert vs.stream(f"folder:{tmp_path / 'photos'}").n_samples == 15


def test_thousands_of_classes_are_not_all_named():
    X, y = np.zeros((3000, 1)), np.arange(3000)
    text = str(vs.stream_from(X, y, tasks=3))
    assert len(text.split(", ")) < 210
    assert text.endswith("and 2,800 more")
