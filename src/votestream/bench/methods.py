"""The methods that suites compare: ours, the paper's rivals, and the rivals on frozen features."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from votestream.bench.runs import Method
from votestream.learners import LEARNERS

PAPER: dict[str, Any] = {"preset": "paper"}
SHORT: dict[str, Any] = {"preset": "short"}  # a fifth of the passes

# Learning rates of the rivals that train a network, chosen by the suite `rates` on a fifth of the training part
# (results/accuracy/rates.csv), for each stream. CORe50 takes Split CIFAR-100's, joint_images fine-tuning's; a learner
# that is not in these keeps its own.
ONLINE_RATES: dict[str, dict[str, float]] = {
    "split-cifar10": {
        "agem": 0.01,
        "aser": 0.1,
        "er": 0.01,
        "finetune": 0.03,
        "gdumb": 0.005,
        "gss": 0.03,
        "gss, to the letter": 0.03,
        "mir": 0.01,
    },
    "split-cifar100": {
        "agem": 0.03,
        "aser": 0.03,
        "er": 0.03,
        "finetune": 0.03,
        "gdumb": 0.01,
        "gss": 0.03,
        "gss, to the letter": 0.1,
        "mir": 0.03,
    },
}
OFFLINE_RATES: dict[str, float] = {
    "bic": 0.03,
    "eeil": 0.03,
    "finetune": 0.03,
    "icarl": 0.02,
    "kd": 0.1,
    "lwf": 0.02,
    "wa": 0.03,
    "joint_images": 0.03,
}

# Weight decays chosen with them, a hundredth of the authors': one for both, since LwF here is iCaRL less exemplars.
DECAYS = {"icarl": 1e-5, "lwf": 1e-5}

ONLINE = {"A-GEM": "agem", "MIR": "mir", "GSS": "gss", "ASER": "aser", "GDUMB": "gdumb", "ER": "er"}
OFFLINE = {"LwF": "lwf", "iCaRL": "icarl", "EEIL": "eeil", "BiC": "bic", "WA": "wa"}
ON_STATISTICS = {"NCM": "ncm", "SLDA": "slda", "RLS": "rls", "FeCAM": "fecam"}  # their size follows from the classes
ON_EXEMPLARS = {"kNN": "knn", "Feature replay": "er_features"}
FIRST_PASSES = 10  # of our head over the first task, where that one is learned offline

# A method of many passes in one, as the online methods learn: plain SGD, small mini-batches, images as they are.
ONE_PASS = {"epochs": 1, "batch_size": 10, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "augment": False}
MANY = {"epochs": 70, "batch_size": 128}


def bytes_of(Q: int, width: int) -> int:
    """Bytes of Q features in float32: what learners without exemplars get where others get Q of them."""
    return 4 * width * Q


def random_features(Q: int, width: int, classes: int = 100) -> int:
    """RanPAC's largest M whose sums, 8 M (M + C) bytes, projection and waiting rows fit into the room of Q features.

    >>> random_features(2000, width=160)
    267
    """
    return _most(lambda M: 8 * M * (M + classes) + 4 * width * M + 500 * (4 * width + 8), bytes_of(Q, width))


def fourier_features(Q: int, width: int, draws: int = 1, classes: int = 100) -> int:
    """The largest M of each draw of KLDA, or of RanDumb, that fits so: sums, counts, projection and waiting rows.

    >>> fourier_features(2000, width=160), fourier_features(2000, width=160, draws=3)
    (431, 210)
    """

    def needed(M: int) -> int:
        draw = 4 * M * (M + classes) + 8 * classes + 4 * M * (width + 1)
        return draws * draw + 128 * (4 * width + 8)

    return _most(needed, bytes_of(Q, width))


def sigmoid_features(Q: int, width: int, classes: int = 100) -> int:
    """F-OAL's largest M that fits so: sums, projection and waiting rows.

    >>> sigmoid_features(2000, width=160)
    432
    """
    return _most(lambda M: 4 * M * (M + classes) + 4 * width * M + 128 * (4 * width + 8), bytes_of(Q, width))


def _most(needed: Callable[[int], int], room: int) -> int:
    """The largest number that needs no more room."""
    M = 1
    while needed(M + 1) <= room:
        M += 1
    return M


def rivals(Q: int | None, stream: str) -> list[Method]:
    """Those of the paper, which train the whole network and keep images, and ER; without Q, fine-tuning."""
    rates = ONLINE_RATES.get(stream, ONLINE_RATES["split-cifar100"])
    if Q is None:
        return [Method("Fine-tuning", "er", {"replay": 0, **_rate("finetune", rates)}, part=stream)]
    made = []
    for label, learner in ONLINE.items():
        # GDumb trains anew for every answer: twenty trainings a run are too much with many images.
        ask = "last" if learner == "gdumb" and stream == "split-cifar100" and Q > 2000 else "each"
        made.append(Method(label, learner, {"budget": Q, **_rate(learner, rates)}, Q, label, ask, part=stream))
        if learner == "gss":
            made.append(_to_the_letter(made[-1], _rate("gss, to the letter", rates)))
    return made


def _to_the_letter(method: Method, rate: Mapping[str, float]) -> Method:
    return replace(method, label=f"{method.label}, to the letter", settings={**method.settings, **PAPER, **rate})


def _rate(learner: str, rates: Mapping[str, float]) -> dict[str, float]:
    return {"lr": rates[learner]} if learner in rates else {}


def ours(Q: int, width: int) -> list[Method]:
    return [
        Method("CandidatesVoting, to the letter", "candidates_voting", {"budget": Q, **PAPER}, Q, "Ours"),
        Method("CandidatesVoting", "candidates_voting", {"budget": Q}, Q, "Ours"),
        Method("GaussianVoting", "gaussian_voting", {"budget_bytes": bytes_of(Q, width)}, Q),
    ]


def careful(Q: int, width: int) -> Method:
    """GaussianVoting on the features of several views and stages, within the same bytes.

    Few rows wait, as directions make better use of the room, and where it is small there are fewer features.
    """
    settings = {"budget_bytes": bytes_of(Q, width), "block": 32}
    stages = "quick" if bytes_of(Q, width) < 1_000_000 else "careful"
    return Method("GaussianVoting, careful", "gaussian_voting", settings, Q, views="careful", stages=stages)


def on_features(Q: int, width: int) -> list[Method]:
    """Rivals on frozen features at the same bytes."""
    return [
        *(Method(label, learner, {"budget": Q}, Q) for label, learner in ON_EXEMPLARS.items()),
        Method("RanPAC", "ranpac", {"projection": random_features(Q, width)}, Q, ask="last"),
    ]


def later_rivals(Q: int, width: int) -> list[Method]:
    """Rivals on frozen features that came after the paper, at the same bytes: with as many random features as fit.

    SRDA is not among them: with a full covariance for every class its size follows from the classes.
    """
    return [
        Method("KLDA", "klda", {"projection": fourier_features(Q, width, draws=3), "draws": 3}, Q, ask="last"),
        Method("RanDumb", "randumb", {"projection": fourier_features(Q, width)}, Q, ask="last"),
        Method("F-OAL", "foal", {"projection": sigmoid_features(Q, width)}, Q, ask="last"),
    ]


def later_rivals_at_their_size() -> list[Method]:
    """With their papers' random features, but for RanDumb: its 25,000 take 2.5 GB."""
    return [
        Method("KLDA, 5 draws of 5000 random features", "klda", {"preset": "paper"}, ask="last"),
        Method("RanDumb, 5000 random features", "randumb", {"projection": 5000}, ask="last"),
        Method("F-OAL, 1000 random features", "foal", {}, ask="last"),
        Method("F-OAL, 1000 random features, two stages", "foal", {}, ask="last", stages="quick"),
    ]


def on_statistics() -> list[Method]:
    return [Method(label, learner) for label, learner in ON_STATISTICS.items()]


def variants(Q: int, paper: bool) -> list[Method]:
    """The ablation study's, each a switch of CandidatesVoting, with the paper's values or with ours."""
    common = {"budget": Q, **(PAPER if paper else {})}
    letter = ", to the letter" if paper else ""
    switches: dict[str, dict[str, Any]] = {
        "Baseline": {"augment": False, "decide": "argmax"},
        "Baseline + EA": {"decide": "argmax"},
        "Baseline + EA + CS(w/o)": {"decide": "nearest"},
        "Baseline + EA + CS(w)": {},
    }
    return [Method(row + letter, "candidates_voting", {**common, **switch}, Q, row) for row, switch in switches.items()]


def without_a_part(Q: int) -> list[Method]:
    """CandidatesVoting's vote less exemplar augmentation, or less what the paper does not have: centring."""
    return [
        Method("Baseline + CS(w)", "candidates_voting", {"budget": Q, "augment": False}, Q),
        Method("Baseline + EA + CS(w), not centred", "candidates_voting", {"budget": Q, "centre": False}, Q),
    ]


def three_pairs(Q: int) -> list[Method]:
    """Learners that pair each sample with one exemplar, with three."""
    pairs = {"Feature replay": "er_features", "CandidatesVoting": "candidates_voting"}
    return [Method(f"{label}, 3 pairs", learner, {"budget": Q, "pairs": 3}, Q) for label, learner in pairs.items()]


# ---- many passes --------------------------------------------------------------------------------


def both_lengths(methods: Iterable[Method]) -> list[Method]:
    """Each with all its passes, and "short"."""
    made = []
    for method in methods:
        short = replace(method, label=f"{method.label}, short", settings={**method.settings, **SHORT}, length="short")
        made += [replace(method, length="full"), short]
    return made


def offline_rivals(Q: int) -> list[Method]:
    """The paper's, and its baselines: they go over each task many times."""
    made = []
    for label, learner in OFFLINE.items():
        method = _offline(label, learner, None if learner == "lwf" else Q)
        if learner in DECAYS:
            chosen = {**method.settings, "weight_decay": DECAYS[learner]}
            made += [replace(method, settings=chosen), replace(method, label=f"{label}, authors' decay")]
        else:
            made.append(method)
        if learner == "wa":
            unclipped = {**method.settings, "clip": False}
            made.append(replace(method, label=f"{label}, without clipping", settings=unclipped))
    return [*made, _offline("CN", "finetune", None), _offline("CN + Exp", "finetune", Q), _offline("KD", "kd", None)]


def _offline(label: str, learner: str, Q: int | None) -> Method:
    settings = {"budget": Q or 0, **_rate(learner, OFFLINE_RATES)}
    return Method(label, learner, settings, Q, label.upper() if label in OFFLINE else label)


def all_at_once() -> Method:
    """The bound: a network trained on all images of the stream, when it is over."""
    return Method("Upper bound: all images at once", "joint_images", _rate("joint_images", OFFLINE_RATES), ask="last")


def first_task_offline(methods: Iterable[Method]) -> list[Method]:
    """The head goes over the first task several times; GaussianVoting keeps sums, which a second pass cannot better."""
    return [replace(m, first_passes=FIRST_PASSES) if m.learner == "candidates_voting" else m for m in methods]


def of_weight_norms(budgets: Iterable[int], width: int) -> list[Method]:
    """CN, CN + Exp, KD, WA and ours, in one pass and, but for ours, in many; those with exemplars for each Q."""
    made = []
    for row, learner, Q in [
        *(("CN", "finetune", None), ("KD", "kd", None)),
        *((row, learner, Q) for Q in budgets for row, learner in (("CN + Exp", "finetune"), ("WA", "wa"))),
    ]:
        kept = {"budget": Q or 0}
        if learner == "finetune":  # one pass of it is experience replay
            replay = {"replay": 10, **kept} if Q else {"replay": 0}
            made.append(Method(f"{row}, online", "er", {"lr": ONE_PASS["lr"], **replay}, Q, row, "last"))
        else:
            made.append(Method(f"{row}, online", learner, {**ONE_PASS, **kept}, Q, row, "last"))
        settings = {**MANY, **kept, **_rate(learner, OFFLINE_RATES)}
        made += both_lengths([Method(f"{row}, offline", learner, settings, Q, row, "last")])
    return [*made, *(replace(m, ask="last") for Q in budgets for m in ours(Q, width)[:2])]


# ---- the grid of learning rates -----------------------------------------------------------------


def of_rates(Q: int) -> list[Method]:
    """Every rival that trains a network, with several learning rates each."""
    made = []
    for label, learner in ONLINE.items():
        grid = (0.005, 0.01, 0.02, 0.05, 0.1) if learner == "gdumb" else (0.003, 0.01, 0.03, 0.1)
        ask = "last" if learner == "gdumb" else "each"
        tried = [Method(label, learner, {"budget": Q, "lr": lr}, Q, ask=ask, part="online") for lr in grid]
        made += tried
        if learner == "gss":
            made += [_to_the_letter(method, {}) for method in tried]
    made += [Method("Fine-tuning", "er", {"replay": 0, "lr": lr}, part="online") for lr in (0.003, 0.01, 0.03, 0.1)]
    for method in offline_rivals(Q):
        if method.label != "CN" and method.settings.get("clip", True):  # which take the rates of CN + Exp and of WA
            own = inspect.signature(LEARNERS[method.learner]).parameters["lr"].default
            made += [
                replace(method, settings={**method.settings, **SHORT, "lr": round(own * share, 6)}, part="offline")
                for share in (0.1, 0.3, 1, 3)
            ]
    return [replace(m, label=f"{m.label}, lr {m.settings['lr']:g}", paper=None, family=m.label) for m in made]
