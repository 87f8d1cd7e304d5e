"""SRDA, KLDA, RanDumb and F-OAL, each against its closed form written out plainly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

import votestream as vs
from conftest import make_on_features, same_model
from votestream.learners.statistics.shrinkage import oas

N, D, C = 1300, 8, 5


@pytest.fixture(scope="module")
def data():
    """Classes with means, covariances and sizes of their own, longer than the largest block."""
    rng = np.random.default_rng(0)
    y = rng.choice(C, N, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    y[:C] = range(C)  # classes are numbered by first appearance: labels and numbers are the same
    mix = rng.normal(size=(C, D, D)) / D**0.5 / 2
    X = 1.2 * rng.normal(size=(C, D))[y] + np.einsum("nd,nde->ne", rng.normal(size=(N, D)), mix[y])
    return X.astype(np.float32), y


def learned(name, X, y, rows_a_call=100, **params):
    model = make_on_features(name)(**params)
    for i in range(0, len(X), rows_a_call):
        model.partial_fit(X[i : i + rows_a_call], y[i : i + rows_a_call])
    return model


def softmax(scores):
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def covariances(X, y):
    """Of each class, (C, D, D)."""
    return np.array([np.cov(X[y == c].T.astype(np.float64), bias=True) for c in range(C)])


# ---- SRDA -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize(("alpha", "epsilon"), [(0.3, 0.1), (1.0, 1e-4), (0.0, 0.5)])
def test_srda_is_the_likeliest_gaussian_with_the_twice_shrunk_covariance(data, alpha, epsilon, prior):
    X, y = data[0].astype(np.float64), data[1]
    counts, own = np.bincount(y), covariances(X, y)
    shared = (own * counts[:, None, None]).sum(0) / N
    target = np.trace(shared) / D * np.eye(D)
    scores = []
    for c in range(C):
        covariance = (1 - epsilon) * (alpha * own[c] + (1 - alpha) * shared) + epsilon * target
        apart = X - X[y == c].mean(0)
        distance = np.einsum("nd,de,ne->n", apart, np.linalg.inv(covariance), apart)
        scores.append(-0.5 * (distance + np.linalg.slogdet(covariance)[1]) + prior * np.log(counts[c] / N))
    model = learned("srda", *data, alpha=alpha, shrinkage=epsilon, prior=prior)
    assert np.allclose(model.predict_proba(data[0]), softmax(np.stack(scores, 1)), atol=1e-3)


def test_srda_without_shrinkage_is_scikit_learns_quadratic_discriminant(data):
    batch = QuadraticDiscriminantAnalysis(tol=1e-12).fit(*data)
    model = learned("srda", *data, alpha=1.0, shrinkage=1e-9)
    assert (model.predict(data[0]) == batch.predict(data[0])).mean() > 0.99


def test_srda_goes_from_lda_to_the_nearest_mean(data):
    lda = learned("srda", *data, alpha=0.0, shrinkage=0.01, prior=False)
    assert np.array_equal(lda.predict(data[0]), learned("slda", *data, shrinkage=0.01).predict(data[0]))
    nearest = learned("srda", *data, shrinkage=1.0, prior=False)
    assert np.array_equal(nearest.predict(data[0]), learned("ncm", *data).predict(data[0]))


def test_srdas_covariances_are_those_of_the_classes(data):
    assert np.allclose(learned("srda", *data).covariances_, covariances(*data), atol=1e-5)


# ---- random features --------------------------------------------------------------------------------


def discriminant(H, y, queries, epsilon):
    """Probabilities of linear discriminant analysis, in plain float64."""
    means = np.array([H[y == c].mean(0) for c in range(C)])
    apart = H - means[y]
    S = apart.T @ apart / len(H)
    epsilon = oas(torch.from_numpy(S), len(H)) if epsilon == "oas" else epsilon
    shrunk = (1 - epsilon) * S + epsilon * np.trace(S) / len(S) * np.eye(len(S))
    W = np.linalg.solve(shrunk, means.T)
    return softmax(queries @ W - 0.5 * np.einsum("cd,dc->c", means, W))


@pytest.mark.parametrize("draws", [1, 3])
def test_klda_is_the_mean_of_discriminants_on_random_fourier_features(data, draws):
    X, y = data
    model = learned("klda", X, y, projection=40, draws=draws, gamma=0.5, shrinkage=0.01)
    expected = []
    for layer in model.memory_.layers:
        H = np.cos(X.astype(np.float64) @ layer.W + layer.b)
        expected.append(discriminant(H, y, H, 0.01))
    assert len(expected) == draws
    assert np.allclose(model.predict_proba(X), np.mean(expected, 0), atol=2e-3)


def test_kldas_features_estimate_the_kernel(data):
    X = data[0][:20]
    model = make_on_features("klda")(projection=3000, draws=1, gamma=2.0, scale=1.0).partial_fit(X, data[1][:20])
    H = model.memory_.layers[0](X)
    squared = ((X[:, None] - X) ** 2).sum(2)
    assert np.allclose(2 / 3000 * H @ H.T, np.exp(-2.0 / D * squared), atol=0.1)


def test_randumb_is_klda_with_one_draw(data):
    settings = {"projection": 50, "gamma": 0.3, "shrinkage": 0.02}
    one, other = learned("klda", *data, draws=1, **settings), learned("randumb", *data, **settings)
    assert same_model(one, other)
    assert np.array_equal(one.predict_proba(data[0]), other.predict_proba(data[0]))


def test_randumbs_shrinkage_is_estimated_by_oas(data):
    X, y = data
    model = learned("randumb", X, y, projection=50, gamma=0.3)
    layer = model.memory_.layers[0]
    H = np.cos(X.astype(np.float64) @ layer.W + layer.b)
    assert np.allclose(model.predict_proba(X), discriminant(H, y, H, "oas"), atol=2e-3)


def test_oas_is_scikit_learns_but_for_a_term_that_vanishes_with_the_width():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40)) * np.linspace(0.5, 2, 40)
    S = torch.from_numpy(np.cov(X.T, bias=True))
    assert oas(S, 60) == pytest.approx(OAS().fit(X).shrinkage_, rel=0.1)
    assert oas(torch.eye(3), 10) == 1.0  # nothing to be learned: all of it


def test_foal_is_ridge_on_sigmoids_of_the_projected_features(data):
    X, y = data
    model = learned("foal", X, y, projection=40, ridge=0.5, scale=2.0)
    W = torch.randn(D, 40, generator=torch.Generator().manual_seed(0)).numpy() / D**0.5 / 2
    H = 1 / (1 + np.exp(-X.astype(np.float64) @ W))
    solution = np.linalg.solve(H.T @ H + 0.5 * np.eye(40), H.T @ np.eye(C)[y])
    assert (model.predict(X) == (H @ solution).argmax(1)).mean() > 0.997


def test_foal_is_the_papers_recursion(data):
    """R and the weights, brought up to date for every mini-batch, as the authors publish it."""
    X, y = data
    model = learned("foal", X, y, projection=30, ridge=2.0)
    H, Y = model.memory_.layers[0](X.astype(np.float64)), np.eye(C)[y]
    R, W = np.eye(30) / 2.0, np.zeros((30, C))
    for i in range(0, N, 10):
        h = H[i : i + 10]
        R -= R @ h.T @ np.linalg.inv(np.eye(len(h)) + h @ R @ h.T) @ h @ R
        W += R @ h.T @ (Y[i : i + 10] - h @ W)
    assert np.allclose(model.prepared().predictor.heads[0].weights, W, atol=2e-3 * np.abs(W).max())


@pytest.mark.parametrize(("make", "M", "draws"), [(vs.KLDA, 5000, 5), (vs.RanDumb, 25_000, 1)])
def test_the_papers_preset_takes_its_projection(make, M, draws):
    memory = make(preset="paper", device="cpu").new_memory(2)
    assert (memory.n_random, memory.n_parts) == (M, draws)
    assert make(preset="paper", projection=7).new_memory(2).n_random == 7


@pytest.mark.parametrize("name", ["foal", "klda", "randumb"])
def test_what_is_drawn_is_made_anew_and_not_in_the_file_but_counted(name, data, tmp_path):
    model = learned(name, *data, seed=5)
    drawn = [array for layer in model.memory_.layers for array in (layer.W, layer.b) if array is not None]
    assert all(array.shape != each.shape for array in drawn for each in model.memory_.arrays().values())
    M = model.projection
    assert model.memory_bytes() >= sum(array.nbytes for array in drawn) + 4 * M * (M + C) * len(model.memory_.sums)
    model.set_params(seed=6)  # once learning has begun, the seed is what it was
    model.save(tmp_path / "m.safetensors")
    assert np.array_equal(vs.load(tmp_path / "m.safetensors").predict_proba(data[0]), model.predict_proba(data[0]))


def test_kldas_draws_differ(data):
    first, second = learned("klda", *data, draws=2).memory_.layers
    assert not np.array_equal(first.W, second.W)
    assert not np.array_equal(first.b, second.b)


@pytest.mark.parametrize("name", ["foal", "klda", "randumb"])
def test_features_are_divided_by_the_size_of_the_first_row_as_a_power_of_two(name, data):
    X, y = data[0].copy(), data[1]
    X[0] = 3.0
    auto, given = learned(name, X, y), learned(name, X, y, scale=4.0)
    assert np.array_equal(auto.predict_proba(X), given.predict_proba(X))
    far = learned(name, X * 2.0**30, y)
    assert np.array_equal(far.predict_proba(X * 2.0**30), auto.predict_proba(X))
