"""The rivals on frozen features, each against its closed form written out plainly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import lapack
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

import votestream as vs
from conftest import make_on_features, same_model
from votestream.learners.statistics.shrinkage import oas

STREAMED = ("ncm", "slda", "rls", "ranpac", "foal", "klda", "randumb", "fecam", "srda")
ON_RANDOM_FEATURES = ("ranpac", "foal", "klda", "randumb")
RIVALS = (*STREAMED, "knn", "er_features", "joint")
SHIFT_FREE = ("ncm", "slda", "rls", "srda", "knn", "joint")  # it does not matter where the origin of the features lies
N, D, C = 1300, 8, 5


@pytest.fixture(scope="module")
def data():
    """Classes with means, covariances and sizes of their own, longer than the largest block."""
    rng = np.random.default_rng(0)
    y = rng.choice(C, N, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    y[:C] = range(C)  # classes are numbered by first appearance: labels and numbers are the same
    mix = rng.normal(size=(C, D, D)) / D**0.5
    X = 1.2 * rng.normal(size=(C, D))[y] + np.einsum("nd,nde->ne", rng.normal(size=(N, D)), mix[y])
    return (np.round(X * 1024) / 1024).astype(np.float32), y  # multiples of 2^-10 can be shifted without rounding


@pytest.fixture
def queries(data):
    return data[0][::3] + np.float32(0.25)


def learned(name, X, y, rows_a_call=100, **params):
    model = make_on_features(name)(**params)
    for i in range(0, len(X), rows_a_call):
        model.partial_fit(X[i : i + rows_a_call], y[i : i + rows_a_call])
    return model


def nearly_all_the_same(one, other):
    """Decisions may fall otherwise only where two classes tie within rounding."""
    return (np.asarray(one) == np.asarray(other)).mean() > 0.997


# ---- what all of them promise -----------------------------------------------------------------


@pytest.mark.parametrize("name", [*STREAMED, "knn", "joint"])
def test_the_batch_size_leaves_no_trace_not_even_in_the_last_bit(name, data, queries):
    whole = learned(name, *data, rows_a_call=N)
    for rows_a_call in (7, 256, 999):
        cut = learned(name, *data, rows_a_call=rows_a_call)
        assert same_model(cut, whole)
        assert np.array_equal(cut.predict_proba(queries), whole.predict_proba(queries))
    one_by_one = learned(name, data[0][:300], data[1][:300], rows_a_call=1)
    assert same_model(one_by_one, learned(name, data[0][:300], data[1][:300]))


@pytest.mark.parametrize("name", RIVALS)
def test_asking_and_saving_between_blocks_changes_nothing(name, data, queries, tmp_path):
    X, y = data
    steady, model = learned(name, X, y), make_on_features(name)()
    for i in range(0, N, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100])
        model.predict(queries[:2])
        if i in (200, 600, 1100):
            model.save(tmp_path / "m.safetensors")
            model = vs.load(tmp_path / "m.safetensors")
    assert same_model(steady, model)
    assert np.array_equal(steady.predict_proba(queries), model.predict_proba(queries))


@pytest.mark.parametrize("name", RIVALS)
def test_a_label_that_sorts_earlier_and_comes_later_permutes_nothing(name, data):
    X, y = data
    first, later = y < 3, y >= 3
    names = np.array(["z", "y", "x", "b", "a"])
    model = learned(name, X[first], names[y[first]])
    model.partial_fit(X[later], names[y[later]])
    alone = learned(name, X[first], y[first])
    alone.partial_fit(X[later], y[later])
    assert set(model.classes_seen_[:3]) == {"x", "y", "z"}
    assert list(model.classes_) == ["a", "b", "x", "y", "z"]
    assert np.array_equal(model.predict(X), names[alone.predict(X)])
    assert (model.predict(X) == names[y]).mean() > 0.7


@pytest.mark.parametrize("name", SHIFT_FREE)
def test_a_large_mean_changes_no_decision(name, data, queries):
    X, y = data
    near, far = learned(name, X, y), learned(name, X + np.float32(1000), y)
    assert nearly_all_the_same(near.predict(queries), far.predict(queries + np.float32(1000)))
    assert np.allclose(near.predict_proba(queries), far.predict_proba(queries + np.float32(1000)), atol=2e-3)


@pytest.mark.parametrize("name", ["ncm", "slda", "rls", "fecam", "srda", "knn", "joint"])
def test_the_scale_of_the_features_changes_no_decision(name, data, queries):
    X, y = data
    small = learned(name, X / 1024, y).predict(queries / 1024)
    assert nearly_all_the_same(learned(name, X, y).predict(queries), small)


@pytest.mark.parametrize("name", RIVALS)
def test_a_class_of_one_sample_is_known(name, data):
    X, y = data
    model = learned(name, X, y)
    lonely = np.full((1, D), 9, np.float32)
    model.partial_fit(lonely, [77])
    P = model.predict_proba(np.concatenate((lonely, X)))
    assert P.shape == (N + 1, C + 1)
    assert np.isfinite(P).all()
    if name in ("ncm", "slda", "knn"):
        assert model.predict(lonely) == 77
    each_alone = make_on_features(name)().partial_fit(X[:C], y[:C])  # no spread anywhere
    assert np.isfinite(each_alone.predict_proba(X)).all()


@pytest.mark.parametrize("name", RIVALS)
def test_features_that_never_change_do_no_harm(name, data):
    X, y = data[0].copy(), data[1]
    X[:, 2] = 3
    X[:, 5] = 0
    assert (learned(name, X, y).predict(X) == y).mean() > 0.6
    same = np.ones_like(X)
    assert np.isfinite(learned(name, same, y).predict_proba(same)).all()


@pytest.mark.parametrize("name", RIVALS)
def test_more_classes_than_a_block_has_rows(name):
    rng = np.random.default_rng(1)
    n = 1100
    X = rng.normal(size=(n, 6)).astype(np.float32)
    model = make_on_features(name)(**({"max_iter": 5} if name == "joint" else {}))
    model.partial_fit(X, np.arange(n))
    assert model.predict_proba(X[:50]).shape == (50, n)
    if name in ("ncm", "knn"):
        assert np.array_equal(model.predict(X), np.arange(n))


@pytest.mark.parametrize("name", RIVALS)
def test_more_features_than_samples(name):
    rng = np.random.default_rng(2)
    y = np.arange(30) % 3
    X = (3 * rng.normal(size=(3, 200))[y] + rng.normal(size=(30, 200))).astype(np.float32)
    assert (learned(name, X, y).predict(X) == y).all()


@pytest.mark.parametrize("name", RIVALS)
def test_many_queries_are_answered_slice_by_slice_alike(name, data, monkeypatch):
    model = learned(name, *data)
    at_once = model.predict_proba(data[0])
    monkeypatch.setattr("votestream.learners.statistics.linear_rule.SLICE", 1000)
    assert np.allclose(model.predict_proba(data[0]), at_once, atol=1e-5)
    assert np.array_equal(model.predict(data[0]), model.classes_[at_once.argmax(1)])


@pytest.mark.parametrize("name", ["slda", "rls", "fecam", "srda", *ON_RANDOM_FEATURES])
def test_a_system_is_factored_only_when_an_answer_is_asked_for_and_once(name, data, monkeypatch):
    calls = []
    for library, factor in ((torch.linalg, "cholesky_ex"), (lapack, "dpotrf")):
        plain = getattr(library, factor)
        count = lambda A, plain=plain, **how: calls.append(1) or plain(A, **how)  # noqa: E731
        monkeypatch.setattr(library, factor, count)
    model = learned(name, *data, rows_a_call=10)
    assert not calls
    model.predict(data[0][:1])
    once = len(calls)
    model.predict(data[0][:1])
    model.predict_proba(data[0])
    assert once == len(calls) > 0


@pytest.mark.parametrize(
    ("name", "params", "complaint"),
    [
        ("slda", {"shrinkage": 0}, "shrinkage must be 'oas' or a number from 1e-12 to 1"),
        ("slda", {"shrinkage": "auto"}, "'oas' or a number"),
        ("slda", {"shrinkage": 1.5}, "to 1, got 1.5"),
        ("rls", {"ridge": -1.0}, "ridge"),
        ("ranpac", {"ridge": "best"}, "'held-out'"),
        ("ranpac", {"projection": 0}, "projection"),
        ("fecam", {"tukey": "sqrt"}, "tukey"),
        ("fecam", {"gamma": 0}, "gamma"),
        ("srda", {"alpha": 1.5}, "alpha must be a number from 0 to 1"),
        ("srda", {"shrinkage": 0}, "shrinkage must be a number from"),
        ("klda", {"draws": 0}, "draws"),
        ("klda", {"gamma": 1e7}, "gamma .* to 1e"),
        ("randumb", {"shrinkage": "best"}, "'oas'"),
        ("foal", {"ridge": 0}, "ridge"),
        ("knn", {"k": 0}, "k must be"),
        ("knn", {"weights": "loud"}, "'majority'"),
        ("er_features", {"keep": "all"}, "'reservoir'"),
        ("joint", {"weight_decay": 0}, "weight_decay"),
        ("ncm", {"close_task_after": 0}, "close_task_after"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name, params, complaint, data):
    with pytest.raises(ValueError, match=complaint):
        make_on_features(name)(**params).partial_fit(*data)


# ---- one by one ---------------------------------------------------------------------------------


def within_class(X, y):
    """The covariance about each class's own mean, over all samples."""
    centred = np.concatenate([X[y == c] - X[y == c].mean(0) for c in range(C)]).astype(np.float64)
    return centred.T @ centred / len(X)


def test_ncm_is_the_nearest_centroid(data, queries):
    model = learned("ncm", *data)
    assert nearly_all_the_same(model.predict(queries), NearestCentroid().fit(*data).predict(queries))


@pytest.mark.parametrize("prior", [False, True])
def test_slda_is_the_discriminant_of_the_pooled_covariance(data, queries, prior):
    X, y = data[0].astype(np.float64), data[1]
    epsilon, sigma = 0.05, within_class(X, y)
    shrunk = (1 - epsilon) * sigma + epsilon * np.trace(sigma) / D * np.eye(D)
    means = np.array([X[y == c].mean(0) for c in range(C)])
    W = np.linalg.solve(shrunk, means.T)
    scores = queries @ W - 0.5 * np.einsum("cd,dc->c", means, W)
    if prior:
        scores += np.log(np.bincount(y) / N)
    expected = np.exp(scores - scores.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    model = learned("slda", *data, shrinkage=epsilon, prior=prior)
    assert np.allclose(model.predict_proba(queries), expected, atol=1e-4)


def test_slda_is_scikit_learns_on_classes_of_one_size(queries, data):
    X, y = data[0], np.arange(N) % C
    X = X + 2 * np.eye(C, D, dtype=np.float32)[y]
    batch = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01).fit(X, y)
    model = learned("slda", X, y, shrinkage=0.01)
    assert np.allclose(model.predict_proba(queries), batch.predict_proba(queries), atol=1e-4)


def test_slda_estimates_its_shrinkage_by_oas_on_the_covariance_within_the_classes(data, queries):
    epsilon = oas(within_class(*data), N)
    model, told = learned("slda", *data, shrinkage="oas"), learned("slda", *data, shrinkage=epsilon)
    assert 0 < epsilon < 1
    assert np.allclose(model.predict_proba(queries), told.predict_proba(queries), atol=1e-5)


def test_slda_that_estimates_its_shrinkage_does_with_as_many_samples_as_features():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    mixing = rng.normal(size=(100, 100)) / 10 + np.eye(100)
    X = ((rng.normal(size=(200, 100)) + 3 * np.eye(4, 100)[y]) @ mixing).astype(np.float32)
    for_training, to_test = slice(0, 104), slice(104, 200)
    plain, estimated = (
        learned("slda", X[for_training], y[for_training], **settings).score(X[to_test], y[to_test])
        for settings in ({}, {"shrinkage": "oas"})
    )
    assert estimated > plain + 0.2


def test_sldas_covariance_is_that_within_the_classes_and_divided_once(data):
    X, y = data
    sigma = learned("slda", X, y).covariance_
    assert np.allclose(sigma, within_class(X, y), atol=1e-6)
    assert np.trace(np.cov(X.T)) > 1.5 * np.trace(sigma)  # the total one is another


def test_sldas_bias_is_used():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 2
    X = rng.normal(size=(600, 3)) + np.where(y[:, None] == 0, 1.0, 9.0)  # both on one side of the origin
    assert learned("slda", X, y).score(X, y) > 0.99


def test_rls_is_least_squares_on_the_augmented_system(data, queries):
    X, y = data[0].astype(np.float64), data[1]
    ridge = 0.1
    penalty = ridge * ((X - X.mean(0)) ** 2).sum() / D
    A = np.block([[X, np.ones((N, 1))], [penalty**0.5 * np.eye(D), np.zeros((D, 1))]])
    W = np.linalg.lstsq(A, np.concatenate((np.eye(C)[y], np.zeros((D, C)))), rcond=None)[0]
    expected = queries @ W[:D] + W[D]
    model = learned("rls", *data, ridge=ridge)
    assert np.allclose(model.weights_, W[:D].T, atol=1e-5)
    assert nearly_all_the_same(model.predict(queries), expected.argmax(1))
    inside = (expected >= 0).all(1)
    assert inside.any()
    assert np.allclose(model.predict_proba(queries)[inside], expected[inside], atol=1e-5)


def test_ranpac_is_ridge_on_the_projected_features(data, queries):
    X, y = data[0].astype(np.float64), data[1]
    model = learned("ranpac", *data, ridge=10.0, projection=60)
    W = torch.randn(D, 60, generator=torch.Generator().manual_seed(0)).numpy()
    H = np.maximum(X @ W, 0)
    solution = np.linalg.solve(H.T @ H + 10 * np.eye(60), H.T @ np.eye(C)[y])
    assert nearly_all_the_same(model.predict(queries), (np.maximum(queries @ W, 0) @ solution).argmax(1))
    assert model.ridge_ == 10


def test_ranpac_chooses_the_ridge_that_does_best_on_what_was_held_out(data, queries):
    X, y = data[0].astype(np.float64), np.random.default_rng(0).permutation(data[1])  # noise: little can be learned
    model = learned("ranpac", data[0], y)
    H, Y = np.maximum(X @ model.memory_.layers[0].W, 0), np.eye(C)[y]
    held_out = model.memory_.part[np.arange(N) % len(model.memory_.part)] == 1
    assert held_out.sum() == pytest.approx(N / 5, rel=0.2)
    fit, G = ~held_out, H[~held_out].T @ H[~held_out]

    def error(ridge):
        solution = np.linalg.solve(G + ridge * np.eye(len(G)), H[fit].T @ Y[fit])
        return ((Y[held_out] - H[held_out] @ solution) ** 2).sum()

    assert model.ridge_ == min((10.0**power for power in range(-2, 9)), key=error)
    assert model.ridge_ > learned("ranpac", *data).ridge_  # where there is something to learn, less is needed
    everything = np.linalg.solve(H.T @ H + model.ridge_ * np.eye(len(G)), H.T @ Y)
    assert nearly_all_the_same(
        model.predict(queries), (np.maximum(queries @ model.memory_.layers[0].W, 0) @ everything).argmax(1)
    )


def test_ranpacs_projection_is_made_anew_and_not_in_the_file(data, queries, tmp_path):
    model = learned("ranpac", *data, seed=5)
    assert all(array.shape != model.memory_.layers[0].W.shape for array in model.memory_.arrays().values())
    assert model.memory_bytes() >= model.memory_.layers[0].W.nbytes + 2 * 4 * model.projection**2
    model.set_params(seed=6)  # once learning has begun, the seed is what it was
    model.save(tmp_path / "m.safetensors")
    assert np.array_equal(vs.load(tmp_path / "m.safetensors").predict_proba(queries), model.predict_proba(queries))


def test_ranpacs_preset_takes_the_papers_projection(data):
    model = vs.RanPAC(preset="paper", ridge=1.0, device="cpu").partial_fit(data[0][:5], data[1][:5])
    assert model.memory_.layers[0].W.shape == (D, 10_000)


def test_ranpac_cannot_choose_by_what_it_did_not_hold_out(data):
    model = learned("ranpac", *data, ridge=1.0).set_params(ridge="held-out")
    with pytest.raises(ValueError, match="nothing was held out"):
        model.predict(data[0])


@pytest.mark.parametrize(("tukey", "gamma", "times"), [(0.5, 1.0, 1), (1.0, 0.5, 1), (0.3, 1.0, 1), (0.5, 1.0, 2)])
def test_fecam_is_the_distance_of_the_shrunk_normalised_covariance(data, tukey, gamma, times):
    """Shrinking twice by 1 is shrinking once by 3."""
    X, y = np.abs(data[0]), data[1]

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    seen, distances = X.astype(np.float64) ** tukey, []
    for c in range(C):
        sigma = np.cov(seen[y == c].T)
        for _ in range(times):
            v1, v2 = np.diag(sigma).mean(), sigma[~np.eye(D, dtype=bool)].mean()
            sigma = sigma + gamma * v1 * np.eye(D) + gamma * v2 * (1 - np.eye(D))
        sd = np.sqrt(np.diag(sigma))
        offset = unit(seen) - unit(seen[y == c].mean(0))
        distances.append(np.einsum("nd,de,ne->n", offset, np.linalg.inv(sigma / np.outer(sd, sd)), offset))
    expected = np.exp(-0.5 * np.stack(distances, 1))
    model = learned("fecam", X, y, tukey=tukey, gamma=3.0 if times == 2 else gamma)
    assert np.allclose(model.predict_proba(X), expected / expected.sum(1, keepdims=True), atol=1e-4)
    assert nearly_all_the_same(model.predict(X), np.argmin(distances, 0))


def test_fecam_transforms_features_behind_a_relu_and_leaves_others(data):
    assert learned("fecam", np.abs(data[0]), data[1]).memory_.power == 0.5
    assert learned("fecam", *data).memory_.power == 1


@pytest.mark.parametrize(("weights", "k"), [("distance", 1), ("distance", 5), ("majority", 1), ("majority", 7)])
def test_knn_is_a_vote_among_the_nearest_exemplars(data, queries, weights, k):
    model = learned("knn", *data, budget=200, k=k, weights=weights)
    kept = model.exemplars_
    distances = np.linalg.norm(queries[:, None].astype(np.float64) - kept.features, axis=2)
    votes = np.zeros((len(queries), C))
    for row, order in enumerate(distances.argsort(1)[:, :k]):
        for i in order:
            votes[row, kept.labels[i]] += 1 / distances[row, i] if weights == "distance" else 1
    expected = votes / votes.sum(1, keepdims=True)
    assert len(kept.features) <= 200
    assert np.allclose(model.predict_proba(queries), expected, atol=1e-4)
    assert nearly_all_the_same(expected[np.arange(len(queries)), model.predict(queries)], expected.max(1))


def test_knns_ties_go_to_the_nearer():
    model = vs.NearestNeighbours(k=2, weights="majority", device="cpu").partial_fit([[0.0], [4.0]], ["a", "b"])
    assert model.predict([[1.0], [3.0]]).tolist() == ["a", "b"]


def test_knn_knows_an_exemplar_again(data):
    model = learned("knn", *data, budget=300, k=5)
    kept = model.exemplars_
    assert np.array_equal(model.predict(kept.features), kept.labels)


def test_knn_warns_of_classes_that_will_find_no_room(data):
    with pytest.warns(UserWarning, match="more classes than the budget of 3"):
        vs.NearestNeighbours(budget=3, device="cpu").partial_fit(*data)


def test_feature_replay_without_replay_is_plain_sgd(data):
    X, y = data[0][:40], data[1][:40]
    model = vs.FeatureReplay(pairs=0, scale=1.0, centre=False, lr=0.1, device="cpu").partial_fit(X[:5], y[:5])
    W = model.weights_.astype(np.float64)
    model.partial_fit(X[5:], y[5:])
    for i in range(5, 40, 10):
        rows, labels = X[i : i + 10], y[i : i + 10]
        P = np.exp(rows @ W.T)
        P /= P.sum(1, keepdims=True)
        W -= 0.1 * (P - np.eye(C)[labels]).T @ rows / len(rows)
    assert np.allclose(model.weights_, W, atol=1e-5)


def test_feature_replay_keeps_earlier_classes_alive_by_a_reservoir_of_all(data):
    X, y = data
    first = y < 2
    accuracy = {}
    for pairs in (0, 1):
        model = learned("er_features", X[first], y[first], pairs=pairs, budget=100)
        for _ in range(3):
            model.partial_fit(X[~first], y[~first])
        accuracy[pairs] = model.score(X[first], y[first])
    assert accuracy[1] > accuracy[0] + 0.2
    kept = model.exemplars_.labels
    assert len(kept) == 100
    share = first.sum() / (first.sum() + 3 * (~first).sum())
    assert (kept < 2).mean() == pytest.approx(share, abs=0.15)


def test_joint_finds_the_optimum_of_logistic_regression(data, queries):
    X, y = data
    mean, deviation = X.mean(0), X.std(0)
    standard = ((X - mean) / deviation).astype(np.float64)
    batch = LogisticRegression(C=1 / (N * 1e-3), tol=1e-8, max_iter=2000).fit(standard, y)

    def loss(W, b):
        scores = standard @ W.T + b
        scores -= scores.max(1, keepdims=True)
        log_p = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return -log_p[np.arange(N), y].mean() + 1e-3 / 2 * (W**2).sum()

    model = learned("joint", X, y, weight_decay=1e-3, max_iter=300)
    P = model.predict_proba(queries)
    assert np.allclose(P, batch.predict_proba((queries - mean) / deviation), atol=2e-3)
    W = model.weights_ * deviation
    b = np.log(model.predict_proba(mean[None]))[0]
    assert loss(W, b) == pytest.approx(loss(batch.coef_, batch.intercept_), abs=1e-5)


def test_joint_keeps_every_sample_and_says_so(data):
    model = learned("joint", *data)
    assert not model.bounded
    assert vs.StreamingLDA().bounded
    assert np.array_equal(model.memory_.arrays()["rows"], data[0])
    assert model.memory_bytes() >= data[0].nbytes


@pytest.mark.parametrize("name", [name for name in RIVALS if name not in ON_RANDOM_FEATURES and name != "fecam"])
def test_means_and_counts_are_those_of_all_that_was_learned(name, data):
    X, y = data
    model = learned(name, X, y)
    assert np.array_equal(model.class_counts_, np.bincount(y))
    assert np.allclose(model.class_means_, [X[y == c].mean(0) for c in range(C)], atol=1e-5)
