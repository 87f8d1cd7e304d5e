"""CORe50 in its published layout: the images' folders, and the lists of its NC scenario."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs

from .samples import CORE50_TASKS, write_core50


@pytest.fixture(scope="module")
def core50(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core50")
    write_core50(folder)
    return folder


def test_sessions_3_7_and_10_are_for_testing(core50):
    data = vs.load_data("core50", core50)
    sessions = {path.parts[-3] for path in data.X_test.paths}
    assert sessions == {"s3", "s7", "s10"}
    assert {path.parts[-3] for path in data.X.paths} == {f"s{i}" for i in range(1, 12)} - sessions
    assert (len(data.y), len(data.y_test)) == (8 * 50 * 2, 3 * 50 * 2)


def test_labels_are_objects_or_categories(core50):
    objects, categories = (vs.load_data("core50", core50, level=level) for level in ("object", "category"))
    assert [f"o{label + 1}" for label in objects.y] == [path.parts[-2] for path in objects.X.paths]
    assert (categories.y == objects.y // 5).all()
    assert (objects.class_names[0], objects.class_names[49]) == ("plug adapter 1", "remote control 5")
    assert categories.class_names[9] == "remote control"
    with pytest.raises(ValueError, match="level must be"):
        vs.load_data("core50", core50, level="session")


def test_nc_has_nine_tasks_of_the_published_order(core50):
    stream = vs.stream("core50-nc", run=0, data_dir=core50)
    assert [len(task.new_classes) for task in stream] == [10, 5, 5, 5, 5, 5, 5, 5, 5]
    for task, things in zip(stream, CORE50_TASKS, strict=True):
        assert {label + 1 for label in task.classes} == set(things)
    assert "published order, run 0" in str(stream)


def test_each_image_arrives_once_and_is_the_object_of_its_label(core50):
    stream = vs.stream("core50-nc", run=1, seed=3, data_dir=core50)
    assert np.array_equal(np.sort(np.concatenate(stream.plan)), np.arange(8 * 50 * 2))
    x, y = next(iter(stream[4]))
    assert x.shape == (10, 4, 4, 3)
    assert (x[:, 0, 0, 0] == y + 1).all()  # the shade is the object's number


def test_the_seed_chooses_the_run_and_the_order_of_images(core50):
    plain = vs.stream("core50-nc", seed=11, data_dir=core50)
    assert "run 1" in str(plain)
    assert plain.class_order == vs.stream("core50-nc", run=1, seed=0, data_dir=core50).class_order
    assert not np.array_equal(plain[0].rows, vs.stream("core50-nc", run=1, seed=2, data_dir=core50)[0].rows)
    listed = vs.stream("core50-nc", run=1, shuffle=False, data_dir=core50)
    first = (core50 / "batches_filelists/NC_inc/run1/train_batch_00_filelist.txt").read_text().split()[0]
    assert listed.data.X.paths[listed[0].rows[0]].as_posix().endswith(first)


def test_test_images_are_read_only_when_asked_for(core50):
    X, y = vs.stream("core50-nc", data_dir=core50)[0].test
    assert isinstance(X, vs.streams.ImageFiles)
    assert len(X) == len(y) == 3 * 10 * 2
    pieces = list(vs.stream("core50-nc", data_dir=core50)[0].test_batches(25))
    assert [len(y) for _, y in pieces] == [25, 25, 10]
    assert np.array_equal(np.concatenate([x for x, _ in pieces]), np.asarray(X))


def test_orders_and_cuts_of_ones_own_need_no_lists(core50, tmp_path):
    (tmp_path / "core50_128x128").symlink_to(core50 / "core50_128x128")
    with pytest.raises(vs.DataError, match=r"no published list.*give `order=`"):
        vs.stream("core50-nc", data_dir=tmp_path)
    stream = vs.stream("core50-nc", order=range(50), data_dir=tmp_path)
    assert [len(task.classes) for task in stream] == [10, 5, 5, 5, 5, 5, 5, 5, 5]
    assert stream.class_order == list(range(50))


def test_what_the_benchmark_does_not_have_is_refused(core50):
    with pytest.raises(ValueError, match="there is no run 10"):
        vs.stream("core50-nc", run=10, data_dir=core50)
    with pytest.raises(ValueError, match="9 published tasks"):
        vs.stream("core50-nc", tasks=5, data_dir=core50)
    with pytest.raises(ValueError, match="`run` chooses"):
        vs.stream("core50-nc", run=1, order=1993, data_dir=core50)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("s3/o1/C_03_01_000.png 0", "not among the training images"),
        ("s1/o1/C_01_01_999.png 0", "not among the training images"),
        ("s1/o1/C_01_01_000.png 7000", "two numbers|twice"),
        ("nonsense", "not among the training images"),
    ],
)
def test_lists_that_do_not_fit_the_images_are_refused(core50, tmp_path, line, complaint):
    (tmp_path / "core50_128x128").symlink_to(core50 / "core50_128x128")
    folder = tmp_path / "batches_filelists/NC_inc/run0"
    folder.mkdir(parents=True)
    for number in range(9):
        name = f"train_batch_{number:02d}_filelist.txt"
        text = (core50 / "batches_filelists/NC_inc/run0" / name).read_text()
        (folder / name).write_text(text + (line if number == 8 else ""))
    with pytest.raises(vs.DataError, match=complaint):
        vs.stream("core50-nc", run=0, data_dir=tmp_path)


def test_an_empty_folder_says_what_should_be_in_it(tmp_path):
    (tmp_path / "core50_128x128").mkdir()
    with pytest.raises(vs.DataError, match=r"no images s1/o1/C_01_01_000.png.*votestream data get core50"):
        vs.load_data("core50", tmp_path)
