"""How good a frozen backbone's features are: three classifiers on all training features of CIFAR.

    python benchmarks/backbone_accuracy.py reduced_resnet18 --data-dir data

`--data-dir` holds the official folders `cifar-100-python` and `cifar-10-batches-py`. The test part is used
once, for the accuracies: the linear probe's regularisation is chosen on a tenth of the training part.
Rows are appended to `results/accuracy/backbone_accuracy.csv`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cifar import DATA_SETS
from rows import ACCURACY, COMMAND, append
from votestream.backbones import create_backbone
from votestream.streams import load_data

FIELDS = ["backbone", "data_set", "metric", "value", "settings", "command", "date", "seconds"]
SHRINKAGE = 0.01
PENALTIES = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def class_means(x: Tensor, y: Tensor) -> Tensor:
    members = F.one_hot(y).to(x)
    return members.T @ x / members.sum(0)[:, None]


def nearest_mean(x: Tensor, y: Tensor, test: Tensor) -> Tensor:
    return torch.cdist(test, class_means(x, y)).argmin(1)


def lda(x: Tensor, y: Tensor, test: Tensor) -> Tensor:
    """Gaussian classes with one covariance, shrunk towards a multiple of the identity; equal priors."""
    means = class_means(x, y)
    rest = (x - means[y]).double()
    covariance = rest.T @ rest / len(x)
    ball = covariance.diagonal().mean() * torch.eye(len(covariance))
    factor = torch.linalg.cholesky((1 - SHRINKAGE) * covariance + SHRINKAGE * ball)
    weight = torch.cholesky_solve(means.T.double(), factor).to(x)
    return (test @ weight - 0.5 * (means.T * weight).sum(0)).argmax(1)


def fit_linear(x: Tensor, y: Tensor, penalty: float, iterations: int) -> Tensor:
    """Softmax regression, the last row being the bias; `penalty` on the squared weights."""
    x = F.pad(x, (0, 1), value=1.0)
    weight = torch.zeros(x.shape[1], int(y.max()) + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=iterations, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ weight, y) + penalty * weight[:-1].square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach()


def linear_probe(x: Tensor, y: Tensor, test: Tensor, iterations: int) -> tuple[Tensor, str]:
    """Predictions of softmax regression on standardised features, and the settings that were chosen."""
    mean, std = x.mean(0), x.std(0)
    x, test = (x - mean) / std, (test - mean) / std
    held = torch.zeros(len(x), dtype=torch.bool)
    held[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: len(x) // 10]] = True
    scores = {}
    for penalty in PENALTIES:
        weight = fit_linear(x[~held], y[~held], penalty, iterations)
        guess = (F.pad(x[held], (0, 1), value=1.0) @ weight).argmax(1)
        scores[penalty] = (guess == y[held]).float().mean().item()
    best = max(scores, key=lambda p: scores[p])
    guess = (F.pad(test, (0, 1), value=1.0) @ fit_linear(x, y, best, iterations)).argmax(1)
    return guess, f"L-BFGS {iterations} iterations; penalty {best:g} chosen on a tenth of the training part"


def measure(backbone: str, weights: Path | None, data_dir: Path, data_set: str, iterations: int) -> Iterator[dict]:
    options: dict[str, Any] = {"weights": weights} if weights else {}
    sees = create_backbone(backbone, **options)
    began = time.time()
    data = load_data(DATA_SETS[data_set], data_dir).seen_through(sees)
    features, test_features, y, ty = map(torch.tensor, (data.X, data.X_test, data.y, data.y_test))
    about = f"{sees.input_size} px, {len(y)} train, {len(ty)} test, digest {sees.digest[:12]}"
    yield {"metric": "feature spread", "value": f"{features.std():.3f}", "settings": about, "seconds": began}
    for metric in ("nearest class mean", "LDA", "linear probe"):
        began, settings = time.time(), about
        if metric == "linear probe":
            guess, chosen = linear_probe(features, y, test_features, iterations)
            settings = f"{about}; {chosen}"
        elif metric == "LDA":
            guess, settings = lda(features, y, test_features), f"{about}; shrinkage {SHRINKAGE}"
        else:
            guess = nearest_mean(features, y, test_features)
        value = f"{100 * (guess == ty).double().mean():.2f}"
        yield {"metric": metric, "value": value, "settings": settings, "seconds": began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backbone")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--weights", type=Path, help="a weights file other than the backbone's own")
    parser.add_argument("--data-sets", nargs="+", choices=DATA_SETS, default=list(DATA_SETS))
    parser.add_argument("--iterations", type=int, default=100, help="of the linear probe's optimiser")
    parser.add_argument("--csv", type=Path, default=ACCURACY / "backbone_accuracy.csv")
    args = parser.parse_args()
    common = {"backbone": args.backbone, "date": date.today().isoformat(), "command": COMMAND}
    for data_set in args.data_sets:
        for row in measure(args.backbone, args.weights, args.data_dir, data_set, args.iterations):
            row |= common | {"data_set": data_set, "seconds": f"{time.time() - row['seconds']:.0f}"}
            append(args.csv, row, FIELDS)
            said = f"{row['settings']}; {row['seconds']} s"
            print(f"{args.backbone}, {data_set}: {row['metric']} {row['value']} ({said})")


if __name__ == "__main__":
    main()
