"""CIFAR-100 as frozen features: through a backbone here, or arrays that were made elsewhere, as on a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import votestream as vs
from cifar import Parts, held_out, load

NAMES = {"reduced_resnet18": "reduced", "efficientnet_lite0": "lite0"}


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-dir", type=Path, default=Path("data"), help="where CIFAR lies")
    parser.add_argument("--backbone", choices=NAMES, default="reduced_resnet18")
    parser.add_argument(
        "--features", type=Path, help="a folder of ready features: lite0_cifar100_train.npy, .._train_y.npy, .._test.."
    )
    parser.add_argument(
        "--validation", action="store_true", help="on a fifth of the training part, not on the test part"
    )
    return parser


def cifar100(given: argparse.Namespace) -> Parts:
    if given.features is None:
        parts = load(given.data_dir, "CIFAR-100", vs.create_backbone(given.backbone))
    else:
        start = f"{NAMES[given.backbone]}_cifar100"
        names = (f"{start}_{part}{y}.npy" for part in ("train", "test") for y in ("", "_y"))
        X, y, X_test, y_test = (np.load(given.features / name) for name in names)
        parts = X.astype(np.float32), y, X_test.astype(np.float32), y_test
    return held_out(*parts[:2]) if given.validation else parts


def tested_on(given: argparse.Namespace) -> str:
    return "held-out fifth of the training part" if given.validation else "test part"
