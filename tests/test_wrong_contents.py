"""A model file with a right checksum and wrong contents: refused when it is loaded, or a working model."""

from __future__ import annotations

import copy
import json
import os
import time
import tracemalloc
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from safetensors.numpy import save_file

import mutations
import votestream as vs
from conftest import ON_FEATURES, make_on_features, one_thread, same_model
from votestream.io.model_files import read, write
from votestream.memory.gaussian_memory import check_rank_cost

ROUNDS = 14  # mutations of each learner's file; a campaign of thousands is the same with more


@cache
def parts(name):
    """The header and arrays of a file of this learner, made once."""
    with one_thread(), TemporaryDirectory() as folder:
        mutations.taught(name).save(f"{folder}/m")
        return read(f"{folder}/m")


@pytest.fixture(params=mutations.MODELS)
def whole(request):
    return request.param, *parts(request.param)


def test_every_learner_is_among_those_whose_files_are_changed():
    assert set(vs.list_learners()) <= set(mutations.MODELS)


def test_a_changed_file_is_refused_or_a_working_model(whole, tmp_path):
    name, header, arrays = whole
    with one_thread():
        for seed in range(ROUNDS):
            *changed, what = mutations.mutated(header, arrays, np.random.default_rng(seed))
            write(tmp_path / "m", *changed)
            try:
                mutations.check_loads_or_is_refused(tmp_path / "m", name)
            except Exception as problem:
                raise AssertionError(f"{name}, mutation {seed}: {what}") from problem


def test_a_file_that_was_not_changed_loads(whole, tmp_path):
    name, header, arrays = whole
    write(tmp_path / "m", header, arrays)
    with one_thread():
        assert mutations.check_loads_or_is_refused(tmp_path / "m", name)


class File:
    """A model's file, whose header and arrays can be changed."""

    def __init__(self, folder, name):
        self.path = folder / "m"
        self.header, self.arrays = copy.deepcopy(parts(name))
        write(self.path, self.header, self.arrays)

    def load(self):
        write(self.path, self.header, self.arrays)
        return vs.load(self.path, device="cpu")

    def refused(self, why):
        with pytest.raises(vs.ModelFileError, match=why) as caught:
            self.load()
        assert str(self.path) in str(caught.value)

    def peak(self):
        """Bytes that loading allocates at most, for each byte of the file."""
        write(self.path, self.header, self.arrays)
        tracemalloc.start()
        try:
            vs.load(self.path, device="cpu")
        except vs.ModelFileError:
            pass
        finally:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return most / os.path.getsize(self.path)


@pytest.fixture
def file(request, tmp_path):
    return File(tmp_path, request.param)


def of(*names):
    return pytest.mark.parametrize("file", names, indirect=True)


SMALL = 40  # a small multiple: a file of a few kB, and the objects that reading any file takes


@of("ncm")
@pytest.mark.parametrize("learner", [[1], {}, None, 3, "crystal_ball"])
def test_a_learner_that_is_no_name_of_one_is_refused(file, learner):
    file.header["learner"] = learner
    file.refused("which this version lacks")


@of("ncm")
@pytest.mark.parametrize("n_format", [True, 0, -1, 1.0, "1", None])
def test_a_format_that_is_no_number_of_one_is_refused(file, n_format):
    file.header["format"] = n_format
    with pytest.raises(vs.ModelFileError):
        file.load()


def test_a_header_of_a_hundred_thousand_brackets_is_refused(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "m", metadata={"votestream": "[" * 100_000, "sha256": ""})
    with pytest.raises(vs.ModelFileError, match="not a VoteStream model"):
        vs.load(tmp_path / "m")


@of("ncm")
@pytest.mark.parametrize(("dtype", "size"), [("F8_E4M3", 1), ("F8_E5M2", 1), ("BF16", 2)])
def test_a_kind_of_number_that_numpy_lacks_is_refused(file, dtype, size):
    blob = file.path.read_bytes()
    end = 8 + int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:end])
    start, stop = header["moments.means"]["data_offsets"]
    header["moments.means"] |= {"dtype": dtype, "shape": [(stop - start) // size]}
    text = json.dumps(header).encode()
    file.path.write_bytes(len(text).to_bytes(8, "little") + text + blob[end:])
    with pytest.raises(vs.ModelFileError, match="unknown kind"):
        vs.load(file.path)


@of("ncm", "candidates_voting")
def test_a_record_of_tasks_with_anything_else_in_it_is_refused(file):
    file.header["tasks"]["cut"] = 1
    file.refused("record of the tasks")


@of("ncm", "candidates_voting", "gaussian_voting", "er")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task_of_class", [10**8, 0, 1, 1, 1]),
        ("task_of_class", [1, 0, 1, 1, 1]),
        ("task_of_class", [0, 0, 1, 1]),
        ("names", ["Monday"]),
        ("names", ["Monday", "Monday"]),
        ("_last_seen", [0, 0, 0, 0, 10**9]),
        ("_blocks", [[2, 10], [1, 3]]),
        ("_blocks", [[6, 0]]),
        ("_blocks", [[0, 5], [1, 5]]),
        ("_blocks", []),
        ("close_task_after", 0),
        ("_clock", -1),
    ],
)
def test_tasks_that_do_not_fit_the_classes_are_refused(file, key, value):
    file.header["tasks"][key] = value
    file.refused("task|class|close_task_after|clock")
    assert file.peak() < SMALL


@of("ncm", "gaussian_voting", "ranpac", "joint")
def test_numbers_of_classes_that_there_are_not_are_refused_and_take_no_memory(file):
    name = "classes" if "classes" in file.arrays else "pending.classes"
    file.arrays[name] = np.random.default_rng(0).integers(0, 2**62, len(file.arrays[name]))
    file.refused("'classes' must hold numbers of at most 4")
    assert file.peak() < SMALL


@of("candidates_voting", "knn", "er_features", "er", "gss", "gdumb", "aser")
@pytest.mark.parametrize("budget", [10**6, 10**9, 10**12])
def test_a_model_with_a_large_budget_takes_what_it_holds_and_goes_on(file, budget):
    file.header["params"]["budget"] = budget
    assert file.peak() < SMALL
    with one_thread():
        model = file.load()
        X = mutations.golden_files.queries(mutations.on_images(file.header["learner"]))
        held = len(model.exemplars_.features)
        model.partial_fit(X, ["cat"] * len(X))
        assert held <= len(model.exemplars_.features) <= held + len(X)
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.memory_bytes() < SMALL * os.path.getsize(file.path)


@of("gaussian_voting", "gaussian_voting_budget")
@pytest.mark.parametrize("params", [{"block": 10**12}, {"rank": 4096}, {"budget_bytes": 10**15}])
def test_a_model_with_large_settings_takes_what_it_holds(file, params):
    file.header["params"] |= params
    start = time.process_time()
    assert np.isfinite(file.load().predict_proba(np.zeros((1, 6)))).all()
    assert time.process_time() - start < 2  # matrices of 4096 x 4096 would be decomposed in minutes
    assert file.peak() < SMALL


@of("gaussian_voting")
def test_a_rank_that_would_take_far_more_memory_than_the_file_is_refused(file):
    file.header["params"]["rank"] = 10**6
    file.refused("rank must be None or an integer from 1 to 4096, got 1000000")
    with pytest.raises(ValueError, match="rank=4096 would take 20971520000 bytes to predict with"):
        check_rank_cost(4096, 1000, 1280, 20_000_000)


NUMBERS = [10**9, 1e300, 5e-324, float("nan")]


def test_no_number_in_a_header_makes_a_model_slow_or_wrong(whole, tmp_path):
    """Each parameter in turn is as large, small or odd as JSON allows: it is refused, or the model still works."""
    name, header, arrays = whole
    header = copy.deepcopy(header)
    params = header.get("inner", header)["params"]
    with one_thread():
        for parameter, own in params.items():
            for number in NUMBERS[:2] if mutations.on_images(name) else NUMBERS:
                params[parameter] = number
                write(tmp_path / "m", header, arrays)
                try:
                    mutations.check_loads_or_is_refused(tmp_path / "m", name)
                except Exception as problem:
                    raise AssertionError(f"{name}: {parameter} = {number}") from problem
            params[parameter] = own


@of("ncm", "slda", "fecam", "gaussian_voting", "ranpac", "foal", "klda", "knn", "joint", "er")
@pytest.mark.parametrize("n_features", [10**4, 10**9, 2**70, 0, -1, "6", None, 6.0])
def test_a_number_of_features_that_the_arrays_have_not_is_refused_and_takes_no_memory(file, n_features):
    file.header["n_features"] = n_features
    with pytest.raises(vs.ModelFileError):
        file.load()
    assert file.peak() < SMALL


@of("ncm", "image_classifier")
@pytest.mark.parametrize(
    "classes", [["cat", "dog", "oak", "elm", "cat"], [1, True, 2, 3, 4], ["cat"], [], "abcde", [0.5] * 5]
)
def test_labels_that_are_not_one_for_each_class_are_refused(file, classes):
    file.header.get("inner", file.header)["classes"] = classes
    with pytest.raises(vs.ModelFileError):
        file.load()


@of(*(name for name in mutations.MODELS if name != "er_without_replay"))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_wherever_it_is(file, value):
    floats = [name for name, array in file.arrays.items() if array.dtype.kind == "f" and array.size]
    for name in floats:
        whole = file.arrays[name]
        file.arrays[name] = whole.copy()
        file.arrays[name].reshape(-1)[-1] = value
        with pytest.raises(vs.ModelFileError):
            file.load()
        file.arrays[name] = whole


@of("ncm")
def test_a_mean_that_is_nan_is_refused_by_name(file):
    file.arrays["moments.means"][2, 1] = np.nan
    file.refused(r"'means' must hold numbers .* got nan")


@of("slda", "rls", "fecam", "gaussian_voting")
def test_a_covariance_that_is_none_is_refused(file):
    name = next(name for name in file.arrays if "scatter" in name)
    file.arrays[name] = -np.abs(file.arrays[name]) - 1
    if file.header["learner"] == "fecam":  # all its rows wait
        file.arrays["moments.scatter"] = -np.ones((1, 6, 6), np.float32)
        file.arrays["moments.counts"], file.arrays["moments.means"] = np.ones(1, np.int64), np.zeros((1, 6))
    file.refused("no scatter")


@of("ranpac", "foal", "klda")
def test_sums_of_products_that_are_none_are_refused_where_solving_would_never_end(file):
    file.arrays["part0.G"] = -np.ones_like(file.arrays["part0.G"]) * 1e30
    file.refused("no sum of products")


@of("ranpac")
def test_a_projection_that_is_drawn_again_takes_no_more_than_the_file_allows(file):
    width = 10**6  # with no row waiting, no array of the file is as wide
    counts = len(file.header["classes"])
    file.header["n_features"] = width
    file.arrays["pending.rows"] = np.zeros((0, width), np.float32)
    file.arrays["pending.classes"] = np.zeros(0, np.int64)
    M = 2000
    for part in ("part0", "part1"):
        file.arrays[f"{part}.G"] = np.eye(M, dtype=np.float32)
        file.arrays[f"{part}.Q"] = np.zeros((counts, M), np.float32)
    file.refused("features do not fit a file")
    assert file.peak() < SMALL


@of("klda")
def test_other_draws_than_there_are_sums_are_refused_and_take_no_memory(file):
    file.header["params"]["draws"] = 1000
    file.refused("2 sums of products, but there must be 1000")
    assert file.peak() < SMALL


@of("klda", "randumb")
def test_counts_that_do_not_fit_the_sums_are_refused(file):
    file.arrays["part0.counts"][:] = 1
    file.refused("'counts' holds numbers of samples that do not fit the sums")


@of("ranpac_ridge")
def test_a_held_out_ridge_without_a_held_out_part_is_refused(file):
    file.header["params"]["ridge"] = "held-out"
    file.refused("nothing was held out")


@of("candidates_voting", "er", "image_classifier")
def test_parameters_are_checked_by_the_learners_own_check(file):
    header = file.header.get("inner", file.header)
    header["params"]["close_task_after"] = -3
    file.refused("close_task_after must be an integer from 1 to 1000000000, got -3")
    header["params"]["close_task_after"] = 20
    header["params"]["seed"] = [1]
    file.refused(r"seed must be an integer, got \[1\]")
    header["params"]["seed"] = 3
    header["params"]["colour"] = "red"
    file.refused("no parameter called 'colour'")
    header["params"] = [1]
    file.refused("'params' must be a JSON object")


@of("candidates_voting")
def test_a_parameter_that_an_older_file_lacks_has_its_default(file):
    del file.header["params"]["decide"]
    assert file.load().decide == "vote"


@of("ncm", "er", "gdumb", "icarl")
def test_arrays_that_mean_nothing_are_named(file):
    file.arrays["surplus"] = np.zeros(3)
    file.refused("arrays that mean nothing here: surplus")


@of("image_classifier")
def test_a_learner_behind_a_backbone_must_be_one_on_its_features(file):
    file.header["inner"] = {**file.header}
    file.refused("which takes images")
    file.header["inner"] = 5
    file.refused("must be a JSON object")


@of("image_classifier", "er")
@pytest.mark.parametrize("backbone", [None, "golden", {"name": 1}, {"name": "golden"}, {"name": [1], "digest": 2}])
def test_a_backbone_that_is_not_told_in_full_is_refused(file, backbone):
    file.header["backbone"] = backbone
    file.refused("'backbone' must tell a name, a digest and an input size")


@of("icarl")
def test_more_images_waiting_than_there_is_room_for_are_refused(file):
    file.header["params"]["max_waiting"] = 1
    file.refused("there is room for 1")


@pytest.mark.parametrize("name", ON_FEATURES)
@pytest.mark.parametrize("width", [1, 2, 40])
@pytest.mark.parametrize(("kind", "scale"), [("normal", 1e-25), ("sparse", 1e-12), ("equal", 1.0), ("constant", 1e12)])
def test_what_was_learned_of_odd_features_is_not_taken_for_wrong(name, width, kind, scale, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(5), 120))
    X = rng.normal(size=(len(y), width)) + y[:, None]
    if kind == "sparse":
        X *= rng.random(X.shape) < 0.02
    elif kind == "equal":  # all features the same
        X[:] = X[:, :1]
    elif kind == "constant":
        X[:] = np.sign(X[0])
    model = make_on_features(name)(**({"block": 70} if name == "gaussian_voting" else {}))
    model.partial_fit((X * scale).astype(np.float32), y).save(tmp_path / "m")
    assert same_model(model, vs.load(tmp_path / "m"))
