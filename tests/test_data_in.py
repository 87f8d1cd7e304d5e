"""Data sets that bring their labels along: torch's, pairs, shards, folders and URLs."""

from __future__ import annotations

import gc
import io
import json
import tarfile
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

import votestream as vs
from conftest import ImageStream, same_model
from votestream.images.labelled import labelled_images

NAMES = [f"class {i}" for i in range(20)]


@pytest.fixture
def images():
    return ImageStream()


@pytest.fixture
def plain(images):
    return on_pixels().partial_fit(images.X, images.y)


@pytest.fixture
def by_name(images):
    return on_pixels().partial_fit(images.X, [NAMES[label] for label in images.y])


def on_pixels():
    return vs.ImageClassifier("pixels", vs.CandidatesVoting(device="cpu"))


class Images(Dataset):
    """As torchvision's data sets are."""

    def __init__(self, X, y, classes=None, transform=None, target_transform=None):
        self.X, self.y, self.transform, self.target_transform = X, y, transform, target_transform
        if classes is not None:
            self.classes = classes

    def __len__(self):
        return len(self.X)

    def __getitem__(self, row):
        image, label = Image.fromarray(self.X[row]), int(self.y[row])
        if self.transform is not None:
            image = self.transform(image)
        return image, label if self.target_transform is None else self.target_transform(label)


def to_tensor(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_shard(path, samples):
    with tarfile.open(path, "w") as archive:
        for key, files in samples:
            for extension, content in files.items():
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def write_folders(folder, X, labels):
    for number, (x, label) in enumerate(zip(X, labels, strict=True)):
        path = Path(folder, str(label), f"{number:04}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(x))
    return folder


# ---- torch --------------------------------------------------------------------------------------


def test_a_dataset_is_learned_as_its_images_and_labels_in_one_call(images, plain):
    assert same_model(plain, on_pixels().partial_fit(Images(images.X, images.y)))
    assert same_model(plain, on_pixels().fit(Images(images.X, images.y)))


@pytest.mark.parametrize("batch_size", [1, 7, 64, None])
def test_a_data_loaders_batches_give_the_same_model_however_large_they_are(images, plain, batch_size):
    loader = DataLoader(Images(images.X, images.y, transform=to_tensor), batch_size=batch_size)
    assert same_model(plain, on_pixels().partial_fit(loader))


def test_names_of_classes_are_labels_where_the_data_set_has_them(images, by_name):
    data = Images(images.X, images.y, NAMES)
    assert same_model(by_name, on_pixels().partial_fit(data))
    assert same_model(by_name, on_pixels().partial_fit(Subset(data, range(len(data)))))
    loader = DataLoader(Images(images.X, images.y, NAMES, to_tensor), batch_size=10)
    assert same_model(by_name, on_pixels().partial_fit(loader))


def test_labels_that_a_target_transform_makes_stay_as_they_are(images):
    data = Images(images.X, images.y, NAMES, target_transform=lambda label: label + 100)
    assert min(label for _, label in labelled_images(data)) >= 100


def test_data_sets_one_after_another_keep_their_own_names(images):
    X = images.X[:4]
    both = ConcatDataset([Images(X, [0, 0, 1, 1], ["oak", "elm"]), Images(X, [0, 0, 1, 1], ["fig", "oak"])])
    assert [label for _, label in labelled_images(both)] == ["oak", "oak", "elm", "elm", "fig", "fig", "oak", "oak"]
    with pytest.raises(ValueError, match="number their classes in different ways"):
        on_pixels().partial_fit(DataLoader(both, batch_size=2, collate_fn=lambda items: items))


def test_an_iterable_dataset_is_read_once_and_no_further_than_needed(images, plain):
    class Endless(IterableDataset):
        given = 0

        def __iter__(self):
            for x, y in zip(images.X, images.y, strict=True):
                self.given += 1
                yield x, y

    data = Endless()
    batches = labelled_images(data).batches(8)
    assert data.given == 0
    next(batches)
    assert data.given == 8
    assert same_model(plain, on_pixels().partial_fit(data))


def test_few_images_are_in_memory_together_however_many_there_are(images):
    alive, most = weakref.WeakSet(), 0

    class Held(np.ndarray):
        """An array that a set can hold."""

        __hash__ = object.__hash__  # type: ignore[assignment]

    def many():
        nonlocal most
        for number in range(200):
            image = np.full((64, 64, 3), number, np.uint8).view(Held)
            alive.add(image)
            yield image, number % 3
            del image
            most = max(most, len(alive))

    on_pixels().partial_fit(many())
    assert 0 < most <= 40


def test_pairs_and_dicts_of_any_iterable_will_do(images, plain):
    pairs = list(zip(images.X, images.y, strict=True))
    assert same_model(plain, on_pixels().partial_fit(pairs))
    assert same_model(plain, on_pixels().partial_fit(pair for pair in pairs))
    dicts = [{"id": 1, "img": Image.fromarray(x), "label": y} for x, y in pairs]
    assert same_model(plain, on_pixels().partial_fit(dicts))
    odd = [{"front": x, "kind": y} for x, y in pairs]
    assert same_model(plain, on_pixels().partial_fit(vs.labelled_images(odd, image="front", label="kind")))


def test_a_data_set_is_predicted_and_judged_without_taking_it_apart(images, plain, by_name):
    data = Images(images.X, images.y, NAMES)
    np.testing.assert_array_equal(plain.predict(data), plain.predict(images.X))
    np.testing.assert_array_equal(plain.backbone_(data), plain.backbone_(images.X))
    assert by_name.score(data) == plain.score(images.X, images.y) > 0.5
    assert plain.score(data) == 0  # its labels are numbers


def test_a_task_and_classes_are_taken_as_with_arrays(images):
    model = on_pixels().partial_fit(Images(images.X, images.y), task="week 1")
    assert model.tasks_ == ["week 1"]
    with pytest.raises(ValueError, match="not among classes="):
        on_pixels().partial_fit(Images(images.X, images.y), classes=[0])


def test_auto_chooses_the_backbone_by_the_first_images(images):
    model = vs.ImageClassifier(learner=vs.NearestClassMean())
    model.partial_fit([(torch.from_numpy(x).permute(2, 0, 1), y) for x, y in zip(images.X, images.y, strict=True)])
    assert model.chosen_.name == "reduced_resnet18"
    assert "2 pixels on their shorter side" in model.chosen_.reason


# ---- streams ------------------------------------------------------------------------------------


def test_a_stream_of_a_data_set_is_that_of_its_arrays(images):
    data, names = Images(images.X, images.y, NAMES), [NAMES[label] for label in images.y]
    backbone = vs.create_backbone("pixels")
    for seen in (None, backbone):
        made = vs.stream_from(data, test=data, seed=1, backbone=seen)
        plain = vs.stream_from(images.X, names, test=(images.X, names), seed=1, backbone=seen)
        assert str(made) == str(plain)
        for ours, theirs in zip(made, plain, strict=True):
            for x, y in ((ours.train, theirs.train), (ours.test, theirs.test)):
                np.testing.assert_array_equal(x[0], y[0])
                np.testing.assert_array_equal(x[1], y[1])


def test_arrays_may_be_tested_on_a_data_set(images):
    names = [NAMES[label] for label in images.y]
    made = vs.stream_from(
        images.X, names, test=Images(images.X, images.y, NAMES), backbone=vs.create_backbone("pixels")
    )
    assert made[0].train[0].shape[1] == made[0].test[0].shape[1] == 12


def test_images_of_different_sizes_make_a_stream_through_a_backbone():
    pairs = [(np.zeros((8 + i, 8, 3), np.uint8), i % 2) for i in range(4)]
    with pytest.raises(vs.ImageError, match="image 1 is 8 x 9, image 0 is 8 x 8: images of different sizes do not"):
        vs.stream_from(pairs)
    assert vs.stream_from(pairs, backbone=vs.create_backbone("pixels")).n_samples == 4


# ---- shards -------------------------------------------------------------------------------------


def test_shards_are_learned_by_cls_and_by_json(images, plain, tmp_path):
    half = len(images.X) // 2
    samples = [(f"{i:04}", {"png": png(x)}) for i, x in enumerate(images.X)]
    for i, (_, files) in enumerate(samples):
        about = {"label": int(images.y[i])}
        files |= {"cls": str(images.y[i]).encode()} if i < half else {"json": json.dumps(about).encode()}
    write_shard(tmp_path / "a-00.tar", samples[:half])
    write_shard(tmp_path / "a-01.tar", samples[half:])
    for name in ("a-{00..01}.tar", "a-*.tar", "a-{00,01}.tar"):
        assert same_model(plain, on_pixels().partial_fit(str(tmp_path / name)))


def test_a_shard_may_name_its_classes_and_hold_other_files(images, tmp_path):
    shard = write_shard(
        tmp_path / "a.tar", [("photos/1.5", {"txt": b"a tree", "seg.png": png(images.X[1]), "cls": b"red oak"})]
    )
    with pytest.raises(ValueError, match=r"a.tar: photos/1 has no label .*\.cls.*: its files end in 5.txt"):
        list(labelled_images(shard))
    shard = write_shard(tmp_path / "b.tar", [("1", {"jpg": png(images.X[0]), "txt": b"oak", "json": b'{"kind": 7}'})])
    ((image, label),) = labelled_images(shard, label="kind")
    assert (str(image), label) == (f"{shard}: 1.jpg", 7)
    assert [label for _, label in labelled_images(shard, label="txt")] == ["oak"]


def test_a_shard_that_is_read_leaves_no_list_of_its_files_behind(images, tmp_path):
    def headers():
        gc.collect()
        return sum(type(thing) is tarfile.TarInfo for thing in gc.get_objects())

    one = {"png": png(images.X[0]), "cls": b"1"}
    shard = write_shard(tmp_path / "a.tar", [(str(i), one) for i in range(100)])
    before, pairs = headers(), iter(labelled_images(shard))
    for _ in range(90):
        next(pairs)
    assert headers() - before < 10


def test_a_truncated_shard_is_named_not_crashed(images, tmp_path):
    shard = write_shard(tmp_path / "a.tar", [(str(i), {"png": png(x), "cls": b"1"}) for i, x in enumerate(images.X)])
    shard.write_bytes(shard.read_bytes()[:-30_000])
    with pytest.raises(vs.ImageError, match=r"a.tar cannot be read as a tar archive"):
        on_pixels().partial_fit(shard)
    (tmp_path / "b.tar").write_bytes(b"no archive")
    with pytest.raises(vs.ImageError, match=r"b.tar cannot be read as a tar archive"):
        on_pixels().partial_fit(tmp_path / "b.tar")


# ---- folders and URLs ---------------------------------------------------------------------------


@pytest.fixture
def in_memory(images):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for number, (x, label) in enumerate(zip(images.X, images.y, strict=True)):
        system.pipe(f"/shop/train/{NAMES[label]}/{number:04}.png", png(x))
    system.pipe("/shop/train/.DS_Store", b"")
    system.pipe("/shop/test/class 0/1.png", png(images.X[0]))
    yield "memory://shop"
    system.rm("/shop", recursive=True)


def test_a_folder_here_and_behind_a_url_is_learned_by_its_class_folders(images, in_memory, tmp_path):
    folder = write_folders(tmp_path / "photos", images.X, [NAMES[label] for label in images.y])
    here = on_pixels().partial_fit(str(folder))
    assert here.class_counts_.sum() == len(images.X)
    assert same_model(here, on_pixels().partial_fit(f"{in_memory}/train"))
    assert same_model(here, on_pixels().partial_fit(in_memory))  # the test part beside it is left alone
    assert vs.stream_from(in_memory, backbone=vs.create_backbone("pixels")).n_samples == len(images.X)


def test_a_folder_that_cannot_be_opened_is_named_and_the_rest_is_learned(images, tmp_path, monkeypatch):
    folder = write_folders(tmp_path / "photos", images.X[:4], ["elm", "elm", "oak", "oak"])
    (folder / "oak" / "closed").mkdir()
    listed = Path.iterdir

    def iterdir(path):
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)  # whoever runs as root may open every folder
    with pytest.warns(vs.DataWarning, match=r"folders were left out.*closed cannot be opened: Permission denied"):
        model = on_pixels().partial_fit(str(folder))
    assert model.class_counts_.tolist() == [2, 2]


def test_urls_of_files_are_images_and_shards(images, plain, in_memory, tmp_path):
    import fsspec

    url = f"{in_memory}/train/{NAMES[images.y[0]]}/0000.png"
    np.testing.assert_array_equal(plain.predict_proba(url), plain.predict_proba(images.X[0]))
    np.testing.assert_array_equal(vs.stream_from([url, url], [0, 1])[0].train[0][0], images.X[0])
    shard = write_shard(tmp_path / "a.tar", [("1", {"png": png(images.X[0]), "cls": b"7"})])
    fsspec.filesystem("memory").pipe("/shop/a-0.tar", shard.read_bytes())
    assert [label for _, label in labelled_images(f"{in_memory}/a-*.tar")] == [7]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("memory://shop/none.jpg", "There is no file memory://shop/none.jpg"),
        ("nosuch://shop/none.jpg", "nosuch://shop/none.jpg cannot be read: Protocol not known"),
    ],
)
def test_a_url_without_a_file_is_named(plain, source, told):
    with pytest.raises(vs.ImageError, match=told):
        plain.predict(source)


def test_a_url_whose_package_is_missing_says_what_to_install(plain, monkeypatch):
    fsspec = pytest.importorskip("fsspec")

    def missing(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(ImportError, match=r"s3://shop/photos needs .*: `pip install s3fs`"):
        plain.partial_fit("s3://shop/photos")


# ---- what is refused, and what is left out ------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (np.zeros((4, 8, 8, 3), np.uint8), "learning requires y to be passed for a ndarray"),
        (torch.zeros(4, 3, 8, 8), "learning requires y to be passed for a Tensor"),
        ([np.zeros((8, 8, 3), np.uint8)] * 4, "item 0 of the list is a ndarray: it must be a pair"),
        ([(1, 2, 3)], "item 0 of the list is a tuple of 3: it must be a pair"),
        ([{"a": 1, "label": 2}], r"of the columns of item 0 of the list \(a, label\) none is known as the image: name"),
        ([{"img": 1, "image": 1, "label": 2}], r"several may be the image \(image, img\)"),
        ([], "X is empty: there is no image in a list"),
        ("oak.jpg", "There is no file or folder oak.jpg"),
        ("*.parquet", r"There is no file \*.parquet"),
        (Path(__file__), "is a file that brings no labels"),
        (7, "learning requires y to be passed for a int"),
        ([(np.zeros((8, 8, 3)), 1)], "image 0 has dtype float64, whose white is unknown"),
        ([(np.zeros((8, 8, 3), np.uint8), None)], "labels must be strings or integers, got None"),
        (DataLoader(Images(np.zeros((4, 8, 8, 3), np.uint8), [9] * 4, ["a"], to_tensor)), "none of the 1 classes"),
    ],
)
def test_what_brings_no_labels_is_refused_and_the_model_stays_as_it_was(by_name, source, told):
    before = by_name.class_counts_.copy()
    with pytest.raises(ValueError, match=told):
        by_name.partial_fit(source)
    np.testing.assert_array_equal(by_name.class_counts_, before)


def test_labels_beside_a_data_set_that_has_its_own_are_refused(images):
    data = Images(images.X, images.y)
    with pytest.raises(ValueError, match="X is a Images, which brings its labels along: leave y out"):
        on_pixels().partial_fit(data, images.y)
    with pytest.raises(ValueError, match="X is a Images, which brings its labels along: leave y out"):
        vs.stream_from(data, images.y)


def test_broken_files_of_a_data_set_are_left_out_and_named(images, tmp_path):
    pairs = [(png(x), y) for x, y in zip(images.X, images.y, strict=True)]
    whole = on_pixels().partial_fit(pairs)
    (tmp_path / "empty.jpg").touch()
    broken = [*pairs[:13], (tmp_path / "empty.jpg", 0), (pairs[0][0][:30], 1), *pairs[13:]]
    with pytest.warns(vs.DataWarning, match=rf"2 of the {len(broken)} images of a list were left out: .*empty.jpg is"):
        model = on_pixels().partial_fit(broken)
    assert same_model(whole, model)
    with pytest.raises(vs.ImageError, match="None of the 1 images of a list can be read: item 0 of the list"):
        on_pixels().partial_fit([(b"no image", 1)])
