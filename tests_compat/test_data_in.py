"""Data sets of other libraries, with those libraries: the same model as from the images and labels themselves."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, random_split

import votestream as vs

NAMES = ["elm", "fig", "oak"]
RNG = np.random.default_rng(0)
NUMBERS = np.arange(60) % 3
X = RNG.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8) // (1 + NUMBERS[:, None, None, None].astype(np.uint8))
LABELS = [NAMES[number] for number in NUMBERS]


def new():
    flat = vs.from_module(torch.nn.Flatten(), input_size=8, name="pixels")
    return vs.ImageClassifier(flat, vs.NearestClassMean())


@pytest.fixture(scope="module")
def plain():
    return new().partial_fit(X, LABELS)


def same(model, plain):
    return np.array_equal(model.classes_, plain.classes_) and np.array_equal(model.class_means_, plain.class_means_)


def png(pixels, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", **options)
    return file.getvalue()


# ---- Hugging Face -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hugging_face():
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {"id": datasets.Value("int64"), "photo": datasets.Image(), "kind": datasets.ClassLabel(names=NAMES)}
    )
    rows = {"id": range(60), "photo": [Image.fromarray(x) for x in X], "kind": NUMBERS.tolist()}
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.mark.parametrize(
    "variant",
    [
        lambda data: data,
        lambda data: data.to_iterable_dataset(),
        lambda data: data.with_format("torch"),
        lambda data: data.with_format("numpy"),
        lambda data: DataLoader(data.with_format("torch").rename_columns({"photo": "image", "kind": "label"}), 7),
        lambda data: data.with_transform(lambda rows: {"image": rows["photo"], "label": rows["kind"]}),
    ],
    ids=["map-style", "streaming", "torch format", "numpy format", "DataLoader", "transform"],
)
def test_a_hugging_face_data_set_keeps_the_names_of_its_classes(hugging_face, plain, variant):
    data = variant(hugging_face)
    model = new().partial_fit(data)
    assert same(model, plain)
    assert model.score(data) == plain.score(X, LABELS)
    np.testing.assert_array_equal(model.predict(data), plain.predict(X))


def test_a_hugging_face_data_set_makes_a_stream(hugging_face):
    made = vs.stream_from(hugging_face.to_iterable_dataset(), test=hugging_face, seed=4)
    assert str(made) == str(vs.stream_from(X, LABELS, test=(X, LABELS), seed=4))
    np.testing.assert_array_equal(made[0].train[0], vs.stream_from(X, LABELS, seed=4)[0].train[0])


def test_a_data_set_made_by_a_generator_has_no_types_and_is_learned_by_its_keys(hugging_face, plain):
    datasets = pytest.importorskip("datasets")
    rows = [{"image": Image.fromarray(x), "label": label} for x, label in zip(X, LABELS, strict=True)]
    data = datasets.IterableDataset.from_generator(lambda: iter(rows))
    assert data.features is None
    assert same(new().partial_fit(data), plain)


def test_splits_and_doubtful_columns_are_told(hugging_face):
    datasets = pytest.importorskip("datasets")
    with pytest.raises(ValueError, match=r"a dict of the splits train, test: give one of them, as data\['train'\]"):
        new().partial_fit(datasets.DatasetDict(train=hugging_face, test=hugging_face))
    two = hugging_face.add_column("coarse", NUMBERS.tolist(), feature=datasets.ClassLabel(names=["a", "b", "c"]))
    with pytest.raises(ValueError, match=r"\(id, photo, kind, coarse\) none is known as the label: name it by"):
        new().partial_fit(two)
    assert new().partial_fit(vs.labelled_images(two, label="coarse")).classes_.tolist() == ["a", "b", "c"]
    unlabelled = hugging_face.map(lambda row: {"kind": -1})
    with pytest.raises(ValueError, match="sample 0 of the data set has the label -1, which is none of the 3 classes"):
        new().partial_fit(unlabelled)


def test_broken_images_and_broken_exif_of_a_hugging_face_data_set_are_survived(hugging_face, plain):
    datasets = pytest.importorskip("datasets")
    odd = b"MM\0*\0\0\0\x08\0\x02\x01\x12\0\x03\0\0\0\x01\0\x01\0\0\x01\x00\0\x02\0\0\0\x04abc\0\0\0\0\0"
    files = [{"bytes": png(x, exif=odd), "path": None} for x in X]
    rows = {"image": [*files[:30], {"bytes": b"no image", "path": "bad.jpg"}, *files[30:]]}
    rows["label"] = [*LABELS[:30], "oak", *LABELS[30:]]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    data = datasets.Dataset.from_dict(rows, features=features)
    for each in (data, data.to_iterable_dataset()):
        with pytest.warns(vs.DataWarning, match=r"1 of the 61 images .*bad.jpg"):
            model = new().partial_fit(each)
        assert same(model, plain)


# ---- Arrow and Parquet --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"id": range(60), "image": [png(x) for x in X], "label": LABELS})


def test_parquet_and_arrow_files_are_learned_by_their_image_and_label_columns(table, plain, tmp_path):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    pq.write_table(table.slice(0, 25), tmp_path / "a-0.parquet", row_group_size=10)
    pq.write_table(table.slice(25), tmp_path / "a-1.parquet")
    with pa.ipc.new_file(tmp_path / "a.feather", table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=7)
    for name in ("a-*.parquet", "a-{0..1}.parquet", "a.feather", "a.arrow"):
        assert same(new().partial_fit(str(tmp_path / name)), plain), name
    assert same(new().partial_fit(table), plain)
    dataset = pytest.importorskip("pyarrow.dataset")
    assert same(new().partial_fit(dataset.dataset([str(tmp_path / f"a-{i}.parquet") for i in (0, 1)])), plain)


def test_a_parquet_file_of_hugging_face_keeps_the_names_of_its_classes(hugging_face, plain, tmp_path):
    hugging_face.to_parquet(tmp_path / "a.parquet")
    assert same(new().partial_fit(tmp_path / "a.parquet"), plain)
    hugging_face.save_to_disk(tmp_path / "saved")
    assert same(new().partial_fit(str(tmp_path / "saved" / "*.arrow")), plain)


def test_dictionary_columns_and_structs_are_read(table, plain):
    pa = pytest.importorskip("pyarrow")
    image = pa.array([{"bytes": png(x), "path": f"{i}.png"} for i, x in enumerate(X)])
    odd = pa.table({"picture of it": image, "sort": pa.array(LABELS).dictionary_encode()})
    assert same(new().partial_fit(odd), plain)


def test_columns_that_cannot_be_told_apart_are_named(table, tmp_path):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"of the columns of the Table \(a, b\) none is known as the image"):
        new().partial_fit(pa.table({"a": [1], "b": ["x"]}))
    several = table.append_column("labels", table["label"])
    with pytest.raises(ValueError, match=r"several may be the label \(label, labels\): name it by"):
        new().partial_fit(several)
    assert new().partial_fit(vs.labelled_images(several, label="labels")).classes_.tolist() == NAMES
    with pytest.raises(ValueError, match="the Table has no column 'none'; it has id, image, label"):
        new().partial_fit(vs.labelled_images(table, label="none"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_damaged_table_is_named(tmp_path, name):
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(b"PAR1 no table")
    with pytest.raises(vs.ImageError, match=rf"{name} cannot be read"):
        new().partial_fit(tmp_path / name)


def test_a_large_parquet_file_is_read_a_row_group_at_a_time(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"image": [RNG.bytes(100_000) for _ in range(400)], "label": ["oak"] * 400})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)  # 20 of 2 MB
    del table
    before, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    for _ in vs.labelled_images(tmp_path / "a.parquet"):
        most = max(most, pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert 2_000_000 < most < 20_000_000


# ---- WebDataset, torchvision --------------------------------------------------------------------


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for number in range(3):
        with tarfile.open(folder / f"trees-{number:03}.tar", "w") as archive:
            for row in range(20 * number, 20 * number + 20):
                for extension, content in (("png", png(X[row])), ("json", json.dumps({"label": LABELS[row]}).encode())):
                    member = tarfile.TarInfo(f"{row:05}.{extension}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return folder


def test_shards_are_learned_by_name_and_through_the_package(shards, plain):
    assert same(new().partial_fit(f"{shards}/trees-{{000..002}}.tar"), plain)
    webdataset = pytest.importorskip("webdataset")
    raw = webdataset.WebDataset(f"{shards}/trees-{{000..002}}.tar", shardshuffle=False)
    assert same(new().partial_fit(raw), plain)
    decoded = webdataset.WebDataset(f"{shards}/trees-{{000..002}}.tar", shardshuffle=False).decode("pil")
    pairs = decoded.to_tuple("png", "json").map_tuple(lambda image: image, lambda about: about["label"])
    assert same(new().partial_fit(pairs), plain)
    loader = webdataset.WebLoader(pairs, batch_size=None)
    assert same(new().partial_fit(loader), plain)


def test_an_image_folder_of_torchvision_keeps_its_class_names(plain, tmp_path):
    datasets = pytest.importorskip("torchvision.datasets")
    transforms = pytest.importorskip("torchvision.transforms")
    order = np.argsort(NUMBERS, kind="stable")
    for row in order:
        path = tmp_path / LABELS[row] / f"{row:03}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png(X[row]))
    plain = new().partial_fit(X[order], np.array(LABELS)[order])
    assert same(new().partial_fit(datasets.ImageFolder(tmp_path)), plain)
    tensors = datasets.ImageFolder(tmp_path, transform=transforms.ToTensor())
    assert same(new().partial_fit(DataLoader(tensors, batch_size=8)), plain)
    first, second = random_split(tensors, [30, 30], torch.Generator().manual_seed(0))
    assert new().partial_fit(first).partial_fit(second).class_counts_.tolist() == [20, 20, 20]
    normalised = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.2] * 3)])
    with pytest.raises(vs.ImageError, match="floats must lie from 0 to 1, as before any Normalize"):
        new().partial_fit(datasets.ImageFolder(tmp_path, transform=normalised))


# ---- S3 -----------------------------------------------------------------------------------------


@pytest.fixture
def bucket(monkeypatch):
    """A local S3 server with a bucket of photos."""
    server = pytest.importorskip("moto.server")
    s3fs, boto3 = pytest.importorskip("s3fs"), pytest.importorskip("boto3")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    endpoint = "http://{}:{}".format(*running.get_host_and_port())
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()  # moto keeps buckets beyond its server
    client = boto3.client("s3")
    client.create_bucket(Bucket="shop")
    client.put_object(Bucket="shop", Key="photos/elm/", Body=b"")  # as the S3 console makes folders
    for row, (x, label) in enumerate(zip(X, LABELS, strict=True)):
        client.put_object(Bucket="shop", Key=f"photos/{label}/{row:03}.png", Body=png(x))
    yield client
    s3fs.S3FileSystem.clear_instance_cache()
    running.stop()


def test_class_folders_shards_and_tables_on_s3_are_learned(bucket, shards, plain, table, tmp_path):
    model = new().partial_fit("s3://shop/photos")
    assert model.class_counts_.tolist() == [20, 20, 20]
    np.testing.assert_allclose(model.class_means_, plain.class_means_)
    np.testing.assert_array_equal(model.predict("s3://shop/photos/elm/000.png"), ["elm"])
    bucket.upload_file(str(shards / "trees-000.tar"), "shop", "shards/trees-000.tar")
    bucket.upload_file(str(shards / "trees-001.tar"), "shop", "shards/trees-001.tar")
    assert new().partial_fit("s3://shop/shards/trees-{000..001}.tar").class_counts_.sum() == 40
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    bucket.upload_file(str(tmp_path / "a.parquet"), "shop", "a.parquet")
    assert same(new().partial_fit("s3://shop/*.parquet"), plain)
    assert vs.stream_from("s3://shop/photos", seed=1).n_samples == 60
    with pytest.raises(vs.ImageError, match=r"There is no file or folder s3://shop/none"):
        new().partial_fit("s3://shop/none")


def test_votestream_learn_learns_photos_on_s3_once(bucket, tmp_path):
    from typer.testing import CliRunner

    from votestream.cli.main import app

    model = tmp_path / "shop.safetensors"
    command = ["learn", "s3://shop/photos", "--model", str(model), "--backbone", "reduced_resnet18"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert vs.load(model).class_counts_.tolist() == [20, 20, 20]
    bucket.put_object(Bucket="shop", Key="photos/ash/new.png", Body=png(255 - X[0]))
    again = CliRunner().invoke(app, command)
    assert "1 photo of 1 class learned" in again.output
    assert vs.load(model).class_counts_.sum() == 61
    missing = CliRunner().invoke(app, ["learn", "s3://nobody/photos", "--model", str(model)])
    assert missing.exit_code == 2
    assert "There is no folder s3://nobody/photos." in missing.output
