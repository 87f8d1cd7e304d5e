"""A model can be corrected: a class forgotten, renamed or joined with another; models become one."""

from __future__ import annotations

import numpy as np
import pytest

import votestream as vs
from conftest import ImageStream, Stream, maker, one_thread, same_model

EXACT = ("ncm", "fecam", "srda", "joint")
FORGETTING = (
    "ncm",
    "slda",
    "rls",
    "fecam",
    "srda",
    "gaussian_voting",
    "joint",
    "knn",
    "er_features",
    "candidates_voting",
)


def blobs(labels, n=40, width=6, seed=0):
    """Rows of each label about a centre of its own, in stream order: label after label."""
    rng = np.random.default_rng(seed)
    centres = {label: np.random.default_rng(sum(map(ord, label))).normal(size=width) * 4 for label in "abcdefgh"}
    y = np.repeat(list(labels), n)
    spread = 1 + rng.random(width)
    return (np.stack([centres[label] for label in y]) + rng.normal(size=(len(y), width)) * spread).astype("f4"), y


def taught(name, labels, **params):
    X, y = blobs("abcdefgh")
    keep = np.isin(y, list(labels))
    model = maker(name)(**params)
    for start in range(0, keep.sum(), 30):
        model.partial_fit(X[keep][start : start + 30], y[keep][start : start + 30])
    return model


QUERIES = blobs("abcdefgh", n=15, seed=1)


@pytest.mark.parametrize("name", EXACT)
def test_forgetting_equals_never_having_learned(name):
    model, never = taught(name, "abcde").forget("c"), taught(name, "abde")
    assert model.classes_.tolist() == never.classes_.tolist()
    np.testing.assert_allclose(model.predict_proba(QUERIES[0]), never.predict_proba(QUERIES[0]), atol=1e-4)
    assert np.array_equal(model.class_counts_, never.class_counts_)
    assert np.array_equal(model.task_of_class_, never.task_of_class_)


@pytest.mark.parametrize("name", ["slda", "rls", "gaussian_voting"])
def test_where_classes_share_a_covariance_forgetting_is_close_to_never_having_learned(name):
    model, never = taught(name, "abcde").forget("c"), taught(name, "abde")
    known = np.isin(QUERIES[1], list("abde"))
    assert (model.predict(QUERIES[0]) == never.predict(QUERIES[0]))[known].mean() > 0.95
    assert np.array_equal(model.class_counts_, never.class_counts_)


def test_a_gaussians_own_directions_leave_the_shared_covariance():
    """A class that varies in a direction of its own leaves no more than rounding of it behind."""
    X, y = blobs("abc", n=60)
    odd = np.zeros((60, 6), "f4")
    odd[:, 0] = np.linspace(-300, 300, 60)
    model = vs.GaussianVoting(power=1.0, block=1).partial_fit(X, y).partial_fit(odd, ["odd"] * 60)
    with_it = model.memory_.gaussians.scatter.matrix()[0, 0]
    assert model.forget("odd").memory_.gaussians.scatter.matrix()[0, 0] < 0.005 * with_it


@pytest.mark.parametrize("name", FORGETTING)
def test_nothing_of_a_forgotten_class_is_in_the_file(name, tmp_path):
    """Its samples are all the same odd number, which stands in no array afterwards."""
    X, y = blobs("abd")
    odd = np.full((30, 6), 4321.5, "f4") + np.arange(30)[:, None].astype("f4") * 1e-2
    model = maker(name)().partial_fit(X, y).partial_fit(odd, ["odd"] * 30).forget("odd")
    model.save(tmp_path / "m")
    again = vs.load(tmp_path / "m")
    assert again.classes_.tolist() == ["a", "b", "d"]
    for part, array in again.memory_.arrays().items():
        if array.dtype.kind == "f" and not part.startswith(("random", "keep")):
            assert not ((np.abs(array) > 4000) & (np.abs(array) < 4400)).any(), part


@pytest.mark.parametrize("name", FORGETTING)
@pytest.mark.parametrize("label", ["a", "c", "e"])
def test_a_model_goes_on_after_forgetting_and_is_saved_whole(name, label, tmp_path):
    model = taught(name, "abcde").forget(label)
    model.save(tmp_path / "m")
    again = vs.load(tmp_path / "m")
    assert same_model(model, again)
    for each in (model, again):
        each.partial_fit(*blobs("fg", seed=3)).partial_fit(*blobs(label, seed=4))
    assert same_model(model, again)
    assert set(model.classes_) == set("abcdefg")
    known = np.isin(QUERIES[1], list("abcdefg"))
    assert model.score(QUERIES[0][known], QUERIES[1][known]) > 0.7


@pytest.mark.parametrize("name", ["ranpac", "foal", "klda", "randumb", "er", "icarl"])
def test_what_cannot_forget_says_so_and_stays_as_it_was(name):
    samples = ImageStream() if name in ("er", "icarl") else Stream()
    with one_thread():
        model = maker(name)().partial_fit(samples.X[:60], samples.y[:60])
        before = model.predict_proba(samples.X)
        with pytest.raises(ValueError, match="cannot forget a class"):
            model.forget(model.classes_[0])
        with pytest.raises(ValueError, match="knows no class 'nobody'"):
            model.forget("nobody")
        assert np.array_equal(before, model.predict_proba(samples.X))


def test_the_only_class_is_not_forgotten():
    model = vs.NearestClassMean().partial_fit([[0.0]], ["a"])
    with pytest.raises(ValueError, match="the only class"):
        model.forget("a")
    assert model.predict([[1.0]]).tolist() == ["a"]


@pytest.mark.parametrize("name", ["ncm", "gaussian_voting", "candidates_voting", "er"])
def test_a_class_is_renamed_and_nothing_else(name):
    samples = ImageStream() if name == "er" else Stream()
    with one_thread():
        model, other = (maker(name)().partial_fit(samples.X, samples.y) for _ in range(2))
        old = model.classes_[0]
        before = model.predict(samples.X)  # so that something is prepared
        model.rename(old, "zebra")
        assert model.predict(samples.X).tolist() == ["zebra" if label == old else label for label in before.tolist()]
        assert list(model.classes_seen_) == ["zebra" if c == old else c for c in other.classes_seen_]
        with pytest.raises(ValueError, match="knows no class"):
            model.rename(old, "x")
        assert model.rename("zebra", old).classes_.tolist() == other.classes_.tolist()
        assert same_model(model, other)


@pytest.mark.parametrize("name", ["ncm", "slda", "rls", "fecam", "srda", "joint"])
def test_two_classes_that_are_joined_are_as_if_taught_under_one_label(name):
    X, y = blobs("abcde")
    model = maker(name)().partial_fit(X, y).rename("d", "b")
    one = maker(name)().partial_fit(X, np.where(y == "d", "b", y))
    assert model.classes_.tolist() == list("abce")
    np.testing.assert_allclose(model.predict_proba(QUERIES[0]), one.predict_proba(QUERIES[0]), atol=1e-3)
    assert np.array_equal(model.class_counts_, one.class_counts_)


@pytest.mark.parametrize("name", ["ranpac", "foal", "klda", "randumb", "gaussian_voting"])
def test_joined_classes_answer_as_one(name):
    X, y = blobs("abcde")
    model = maker(name)().partial_fit(X, y).rename("b", "d")
    one = maker(name)().partial_fit(X, np.where(y == "b", "d", y))
    assert model.classes_.tolist() == list("acde")
    assert (model.predict(QUERIES[0]) == one.predict(QUERIES[0])).mean() > 0.95


def test_what_cannot_join_says_so_and_stays_as_it_was():
    model = taught("candidates_voting", "abc")
    before = model.predict_proba(QUERIES[0])
    with pytest.raises(ValueError, match="cannot make one class of two"):
        model.rename("a", "b")
    assert np.array_equal(before, model.predict_proba(QUERIES[0]))


@pytest.mark.parametrize("name", ["ncm", "slda", "rls", "fecam", "srda", "ranpac", "foal", "klda", "randumb", "joint"])
@pytest.mark.parametrize("parts", [2, 5])
def test_merged_models_are_one_that_learned_everything(name, parts):
    X, y = blobs("abcdefgh", n=20)  # so few that what classes share is never behind
    order = np.random.default_rng(0).permutation(len(y))
    shards = [part[: len(part) - i] for i, part in enumerate(np.array_split(order, parts))]  # of different sizes
    same = {"scale": 1.0} if name in ("foal", "klda", "randumb") else {}
    merged = vs.merge([maker(name)(**same).partial_fit(X[rows], y[rows]) for rows in shards])
    rows = np.concatenate(shards)
    one = maker(name)(**same).partial_fit(X[rows], y[rows])
    assert merged.classes_.tolist() == one.classes_.tolist()
    if name == "ranpac":  # other rows are held out
        assert (merged.predict(QUERIES[0]) == one.predict(QUERIES[0])).mean() > 0.98
        return
    if name not in ("foal", "klda", "randumb"):
        assert np.array_equal(merged.class_counts_, one.class_counts_)
        np.testing.assert_allclose(merged.class_means_, one.class_means_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(merged.predict_proba(QUERIES[0]), one.predict_proba(QUERIES[0]), atol=2e-3)


def test_merged_gaussians_are_as_close_as_reordered_rows():
    X, y = blobs("abcdefgh", n=80)
    order = np.random.default_rng(0).permutation(len(y))
    shards = np.array_split(order, 4)
    merged = vs.merge([vs.GaussianVoting(rank=2).partial_fit(X[rows], y[rows]) for rows in shards])
    one = vs.GaussianVoting(rank=2).partial_fit(X[order], y[order])
    assert np.array_equal(merged.class_counts_, one.class_counts_)
    assert (merged.predict(QUERIES[0]) == one.predict(QUERIES[0])).mean() > 0.98
    W, ours = one.memory_.now().scatter.matrix(), merged.memory_.now().scatter.matrix()
    np.testing.assert_allclose(ours, W, rtol=1e-3, atol=1e-3 * np.abs(W).max())


def test_merging_leaves_the_models_as_they_were_and_stays_in_the_budget(tmp_path):
    models = [vs.GaussianVoting(budget_bytes=9000).partial_fit(*blobs(part, n=60)) for part in ("abc", "cde", "fgh")]
    before = [{k: v.copy() for k, v in model.memory_.arrays().items()} for model in models]
    merged = vs.merge(models)
    assert merged.memory_bytes() <= 9000
    for model, arrays in zip(models, before, strict=True):
        assert all(np.array_equal(arrays[k], v) for k, v in model.memory_.arrays().items())
    merged.save(tmp_path / "m")
    again = vs.load(tmp_path / "m")
    assert same_model(merged, again)
    assert same_model(merged.partial_fit(*blobs("ah", seed=5)), again.partial_fit(*blobs("ah", seed=5)))


def test_tasks_of_merged_models_keep_their_order_and_names():
    one = vs.NearestClassMean().partial_fit(*blobs("ab"), task="Monday").partial_fit(*blobs("c"), task="Tuesday")
    two = vs.NearestClassMean().partial_fit(*blobs("bd"), task="Tuesday").partial_fit(*blobs("e"), task="Friday")
    both = vs.merge([one, two])
    assert both.tasks_ == ["Monday", "Tuesday", "Friday"]
    assert dict(zip(both.classes_.tolist(), both.task_of_class_.tolist(), strict=True)) == {
        "a": 0, "b": 0, "c": 1, "d": 1, "e": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("models", "complaint"),
    [
        (lambda: [taught("ncm", "ab"), taught("slda", "ab")], "NearestClassMean and a StreamingLDA cannot be merged"),
        (lambda: [taught("slda", "ab"), taught("slda", "ab", shrinkage=0.5)], "differ in shrinkage"),
        (lambda: [taught("candidates_voting", "ab")] * 2, "cannot be merged with another"),
        (lambda: [taught("ranpac", "ab"), taught("ranpac", "ab", seed=1)], "differ in seed"),
        (lambda: [taught("ncm", "ab"), vs.NearestClassMean().partial_fit([[0.0]], ["a"])], "take 6 and 1 features"),
        (lambda: [taught("ncm", "ab"), vs.NearestClassMean()], "learned nothing"),
        (list, "no model to merge"),
        (
            lambda: [vs.GaussianVoting().partial_fit(*each) for each in ([[[1.0]], ["a"]], [[[-1.0]], ["a"]])],
            "differ in power: .*given explicitly",
        ),
        (
            lambda: [vs.FOAL(projection=9).partial_fit(*each) for each in ([[[1.0]], ["a"]], [[[9.0]], ["a"]])],
            "differ in scale: .*given explicitly",
        ),
    ],
)
def test_strangers_are_not_merged(models, complaint):
    with pytest.raises(ValueError, match=complaint):
        vs.merge(models())


def test_image_classifiers_are_corrected_and_merged_through_one_backbone():
    images = ImageStream()
    half = len(images.X) // 2
    one, two = (
        vs.ImageClassifier("pixels", vs.NearestClassMean()).partial_fit(images.X[part], images.y[part])
        for part in (slice(half), slice(half, None))
    )
    both = vs.merge([one, two])
    assert set(both.classes_) == set(images.y)
    whole = vs.ImageClassifier("pixels", vs.NearestClassMean()).partial_fit(images.X, images.y)
    assert np.array_equal(both.predict(images.X), whole.predict(images.X))
    label = both.classes_[0]
    assert label not in both.forget(label).classes_
    assert "z" in both.rename(both.classes_[0], "z").classes_
    other = vs.ImageClassifier("tiny", vs.NearestClassMean()).partial_fit(images.X, images.y)
    with pytest.raises(ValueError, match="different backbones"):
        vs.merge([one, other])


def test_a_snapshot_is_not_corrected():
    model = taught("slda", "abc")
    snapshot = model.snapshot()
    before = snapshot.predict(QUERIES[0])
    model.forget("a")
    assert np.array_equal(snapshot.predict(QUERIES[0]), before)
    assert "a" in snapshot.classes_
