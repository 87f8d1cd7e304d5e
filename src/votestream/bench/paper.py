"""The paper's figures, as printed: "Online Continual Learning Via Candidates Voting" (He and Zhu, WACV 2022).

`FIGURES[suite][stream][row][Q]` are accuracies in per cent, (Avg, Last) or (Avg,). A row is named as the
paper names the method. Its backbone is a reduced ResNet-18 trained on ImageNet, which was never published.
"""

from __future__ import annotations

Q = (1000, 2000, 5000, 10_000)


def _by_budget(*accuracies: float) -> dict[int | None, tuple[float, ...]]:
    """Avg and Last for each Q, as a row of the tables has them."""
    return dict(zip(Q, zip(accuracies[::2], accuracies[1::2], strict=True), strict=True))


# Table "Average accuracy and Last step accuracy on Split CIFAR-10 and CORE-50" and, in the supplement, the one on
# Split CIFAR-100.
ONLINE = {
    "split-cifar10": {
        "A-GEM": _by_budget(43.0, 17.5, 59.1, 38.3, 74.0, 59.0, 74.7, 62.5),
        "MIR": _by_budget(67.3, 52.2, 80.2, 66.2, 83.4, 74.8, 86.0, 78.4),
        "GSS": _by_budget(70.3, 56.7, 73.6, 56.3, 79.3, 64.4, 79.7, 67.1),
        "ASER": _by_budget(63.4, 46.4, 78.2, 59.3, 83.3, 73.1, 86.5, 79.3),
        "GDUMB": _by_budget(73.8, 57.7, 83.8, 72.4, 85.3, 75.9, 87.7, 82.3),
        "Ours": _by_budget(76.0, 62.9, 84.9, 74.1, 86.1, 77.0, 88.3, 82.7),
    },
    "core50-nc": {
        "A-GEM": _by_budget(20.7, 8.4, 21.9, 10.3, 22.9, 11.5, 24.6, 12.0),
        "MIR": _by_budget(33.9, 21.1, 37.1, 24.5, 38.1, 27.7, 41.1, 31.8),
        "GSS": _by_budget(27.8, 17.8, 31.0, 18.9, 31.8, 21.1, 33.6, 22.6),
        "ASER": _by_budget(24.3, 12.2, 30.8, 17.4, 32.5, 18.5, 34.1, 21.8),
        "GDUMB": _by_budget(41.2, 23.6, 48.4, 32.7, 54.3, 41.6, 56.1, 45.5),
        "Ours": _by_budget(45.1, 26.5, 50.7, 34.5, 56.3, 43.1, 57.5, 46.2),
    },
    "split-cifar100": {
        "A-GEM": _by_budget(13.9, 4.3, 14.1, 4.83, 13.8, 4.4, 13.9, 4.5),
        "MIR": _by_budget(37.4, 19.1, 41.9, 26.1, 44.4, 27.9, 46.3, 34.0),
        "GSS": _by_budget(24.2, 12.9, 26.9, 16.7, 31.5, 23.1, 43.2, 23.3),
        "ASER": _by_budget(29.9, 21.6, 40.9, 27.8, 41.2, 29.5, 43.3, 30.8),
        "GDUMB": _by_budget(38.3, 20.7, 39.2, 26.4, 43.8, 31.6, 52.8, 39.2),
        "Ours": _by_budget(50.4, 35.6, 51.8, 36.5, 54.1, 37.4, 54.9, 40.2),
    },
}

# Table "Average accuracy (%) for ablation study", Q = 2000. The upper bound learns everything at once.
_STREAMS = ("split-cifar10", "split-cifar100", "core50-nc")
_ABLATION = {
    "Baseline": (56.2, 16.7, 19.8),
    "Baseline + EA": (58.9, 20.1, 22.4),
    "Baseline + EA + CS(w/o)": (81.7, 49.6, 43.9),
    "Baseline + EA + CS(w)": (84.9, 52.0, 50.7),
}
_UPPER_BOUND = (92.2, 70.7, 67.9)
ABLATION: dict[str, dict[str, dict[int | None, tuple[float, ...]]]] = {
    stream: {
        **{row: {2000: (figures[i],)} for row, figures in _ABLATION.items()},
        "Upper-bound": {None: (_UPPER_BOUND[i],)},
    }
    for i, stream in enumerate(_STREAMS)
}

# Table "Performance of exemplar augmentation step".
_AUGMENTATION = {
    "Baseline": {1000: (46.6, 13.9, 17.2), 5000: (54.9, 23.8, 25.4), 10_000: (57.2, 26.8, 31.4)},
    "Baseline + EA": {1000: (49.8, 18.5, 20.6), 5000: (56.2, 25.4, 26.9), 10_000: (58.1, 27.4, 31.9)},
}
AUGMENTATION: dict[str, dict[str, dict[int | None, tuple[float, ...]]]] = {
    stream: {row: {q: (figures[i],) for q, figures in by_q.items()} for row, by_q in _AUGMENTATION.items()}
    for i, stream in enumerate(_STREAMS)
}

# Table "Average accuracy and Last step accuracy on CIFAR-100 by comparing with offline approaches" (supplement): steps
# of 5, 10, 20 and 50 classes, Q = 2000, a ResNet-50 trained on ImageNet. Avg leaves the first task out: with two tasks
# it is Last.
STEPS = (5, 10, 20, 50)
_OFFLINE = {
    "LWF": (29.7, 15.5, 39.7, 24.0, 47.1, 35.1, 52.6, 52.6),
    "ICARL": (59.7, 46.0, 61.6, 51.0, 63.3, 56.5, 60.7, 60.7),
    "EEIL": (63.4, 48.0, 63.6, 51.5, 64.2, 57.1, 61.2, 61.2),
    "BIC": (62.1, 48.2, 63.5, 52.0, 65.1, 58.5, 64.9, 64.9),
    "WA": (62.6, 49.6, 64.5, 53.5, 66.6, 59.2, 65.1, 65.1),
    "Ours": (70.6, 57.0, 69.9, 59.3, 70.5, 62.4, 65.7, 65.7),
}


def in_steps(step: int) -> str:
    return f"CIFAR-100, steps of {step}"


OFFLINE: dict[str, dict[str, dict[int | None, tuple[float, ...]]]] = {
    in_steps(step): {
        row: {None if row == "LWF" else 2000: figures[2 * i : 2 * i + 2]} for row, figures in _OFFLINE.items()
    }
    for i, step in enumerate(STEPS)
}

FIGURES = {"online": ONLINE, "ablation": ABLATION, "augmentation": AUGMENTATION, "beta": ONLINE, "offline": OFFLINE}
SOURCES = {
    "online": "tables of Avg and Last on Split CIFAR-10 and CORE-50 (section 4.2) and on Split CIFAR-100 (supplement), "
    "with a backbone of its own",
    "ablation": "table of the ablation study (section 4.4), Avg at Q = 2000, with a backbone of its own",
    "augmentation": "table of the exemplar augmentation step (section 4.4), Avg, with a backbone of its own",
    "beta": "tables of Avg and Last (section 4.2, supplement), where beta is 0.5, with a backbone of its own",
    "offline": "table of Avg and Last on CIFAR-100 compared with offline approaches (supplement), with a ResNet-50 "
    "trained on ImageNet; its Avg leaves the first task out, which is why it equals Last for two tasks",
    "storage": "formulas of section 4.5, with one byte a colour and four a feature",
}


def figure(suite: str, stream: str, row: str, q: int | None, metric: str) -> float | None:
    """What the paper says, or None where it says nothing.

    >>> figure("online", "split-cifar100", "Ours", 1000, "Last"), figure("online", "sample", "Ours", 1000, "Last")
    (35.6, None)
    """
    if suite == "storage":
        return _stored(stream, row, q) if metric == "bytes" else None
    found = FIGURES.get(suite, {}).get(stream, {}).get(row, {}).get(q)
    place = {"Avg after the first" if suite == "offline" else "Avg": 0, "Last": 1}.get(metric)
    return None if found is None or place is None or place >= len(found) else found[place]


_SIDE = {"split-cifar10": 32, "split-cifar100": 32, "core50-nc": 128}
_CLASSES = {"split-cifar10": 10, "split-cifar100": 100, "core50-nc": 50}
FEATURES = 160  # D of the reduced ResNet-18


def _stored(stream: str, row: str, q: int | None) -> float | None:
    """Section 4.5: images 3 S² Q, statistics D² C, features D Q, where Q counts all classes together."""
    if stream not in _SIDE:
        return None
    kept = {
        "images": 3 * _SIDE[stream] ** 2 * (q or 0),
        "statistics": 4 * FEATURES**2 * _CLASSES[stream],
        "features": 4 * FEATURES * (q or 0),
    }
    return kept.get(row)
