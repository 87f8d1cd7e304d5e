"""The suites, as data: what the paper compares, with our learners and the rivals on frozen features added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from votestream.backbones.registry import did_you_mean
from votestream.bench.paper import FEATURES
from votestream.bench.runs import Method, StreamSpec, Suite

BUDGETS = (1000, 2000, 5000, 10_000)
CIFAR10 = StreamSpec("split-cifar10", {"tasks": 5})
CIFAR100 = StreamSpec("split-cifar100", {"tasks": 20})
CORE50 = StreamSpec("core50-nc")
PAPERS_STREAMS = (CIFAR10, CIFAR100, CORE50)
PAPER: dict[str, Any] = {"preset": "paper"}

# Label, learner, learning rate. The rates are the best of those tried on a fifth of CIFAR-10's training part
# (results/online_rivals_validation.csv); gdumb has a schedule of its own.
RIVALS = (
    ("A-GEM", "agem", 0.01),
    ("MIR", "mir", 0.03),
    ("GSS", "gss", 0.03),
    ("ASER", "aser", 0.03),
    ("GDUMB", "gdumb", None),
    ("ER", "er", 0.03),
)
ON_STATISTICS = {"NCM": "ncm", "SLDA": "slda", "RLS": "rls", "FeCAM": "fecam"}  # their size follows from the classes
ON_EXEMPLARS = {"kNN": "knn", "Feature replay": "er_features"}


def room(Q: int, width: int) -> int:
    """Bytes of Q features in float32: what learners without exemplars get where others get Q of them."""
    return 4 * width * Q


def random_features(Q: int, width: int, classes: int = 100) -> int:
    """RanPAC's largest M whose sums, 8 M (M + C) bytes, projection and waiting rows fit into the room of Q features.

    >>> random_features(2000, width=160)
    267
    """
    M = 1
    while 8 * (M + 1) * (M + 1 + classes) + 4 * width * (M + 1) + 500 * (4 * width + 8) <= room(Q, width):
        M += 1
    return M


def rivals(Q: int) -> list[Method]:
    """Those of the paper, which train the whole network and keep images, and ER."""
    made = []
    for label, learner, lr in RIVALS:
        settings = {"budget": Q} if lr is None else {"budget": Q, "lr": lr}
        made.append(Method(label, learner, settings, Q, label))
    return made


def ours(Q: int, width: int) -> list[Method]:
    return [
        Method("CandidatesVoting, to the letter", "candidates_voting", {"budget": Q, **PAPER}, Q, "Ours"),
        Method("CandidatesVoting", "candidates_voting", {"budget": Q}, Q, "Ours"),
        Method("GaussianVoting", "gaussian_voting", {"budget_bytes": room(Q, width)}, Q),
    ]


def on_features(Q: int, width: int) -> list[Method]:
    """Rivals on frozen features at the same bytes."""
    return [
        *(Method(label, learner, {"budget": Q}, Q) for label, learner in ON_EXEMPLARS.items()),
        Method("RanPAC", "ranpac", {"projection": random_features(Q, width)}, Q, ask="last"),
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


UPPER_BOUND = Method("Upper bound: linear, on all features", "joint", {}, None, "Upper-bound")


def suites(width: int = FEATURES) -> dict[str, Suite]:
    """All of them; budgets in bytes are those of exemplars with `width` features, the backbone's."""
    made = (
        Suite(
            "online",
            "Online methods by exemplar budget",
            (*on_statistics(), *(m for Q in BUDGETS for m in (*rivals(Q), *on_features(Q, width), *ours(Q, width)))),
            PAPERS_STREAMS,
            budgets=BUDGETS,
        ),
        Suite(
            "ablation",
            "What each part of the method is worth",
            (*variants(2000, paper=True), *variants(2000, paper=False), *ours(2000, width)[2:], UPPER_BOUND),
            PAPERS_STREAMS,
            budgets=(2000,),
        ),
        Suite(
            "augmentation",
            "Exemplar augmentation by budget",
            tuple(m for Q in (1000, 5000, 10_000) for paper in (True, False) for m in variants(Q, paper)[:2]),
            PAPERS_STREAMS,
            budgets=(1000, 5000, 10_000),
        ),
        Suite(
            "storage",
            "Bytes kept against the paper's formulas",
            # Budgets are full after 100 samples a class, and bytes do not depend on what was learned.
            (
                *(Method("ER", "er", {"budget": Q}, Q, "images", ask="last") for Q in (1000, 2000)),
                *(replace(m, paper="features", ask="last") for Q in BUDGETS for m in ours(Q, width)[1:2]),
                Method("FeCAM", "fecam", {}, None, "statistics", ask="last"),
                Method("GaussianVoting", "gaussian_voting", {}, None, "statistics", ask="last"),
            ),
            (StreamSpec("split-cifar100", {"tasks": 20, "limit": 100}),),
            metrics=("bytes",),
            plot="bytes",
            budgets=BUDGETS,
            seeds=1,
        ),
        Suite(
            "confusion",
            "Where the answers go: confusion matrices of the ablation's variants",
            (*variants(2000, paper=False), *ours(2000, width)[2:]),
            (CIFAR100,),
            plot="confusion",
            budgets=(2000,),
            seeds=1,
        ),
        Suite(
            "beta",
            "beta fixed at 0.5 against the pilot set's estimate",
            tuple(
                Method(label, "candidates_voting", {"budget": Q, **settings}, Q, paper)
                for Q in BUDGETS
                for label, settings, paper in (
                    ("to the letter, beta 0.5", PAPER, "Ours"),
                    ("to the letter, pilot", {"scale": None, "centre": False}, None),
                    ("our defaults, beta 0.5", {"beta": 0.5}, "Ours"),
                    ("our defaults, pilot", {}, None),
                )
            ),
            PAPERS_STREAMS,
            budgets=BUDGETS,
        ),
        Suite(
            "bytes",
            "Accuracy against bytes, learners on frozen features",
            (
                *on_statistics(),
                Method("GaussianVoting, no limit", "gaussian_voting"),
                Method("RanPAC, 2000 random features", "ranpac", {}, ask="last"),
                *(m for Q in BUDGETS for m in (*on_features(Q, width), *ours(Q, width)[1:])),
                replace(UPPER_BOUND, paper=None, ask="last"),
            ),
            (CIFAR10, CIFAR100),
            metrics=("bytes", "Avg", "Last", "forgetting"),
            plot="bytes",
            budgets=BUDGETS,
        ),
        Suite(
            "smoke",
            "The images that come with the package",
            (
                Method("NCM", "ncm"),
                Method("SLDA", "slda"),
                *(replace(m, settings={**m.settings, "budget": 200}, Q=200) for m in variants(2000, paper=False)),
                Method("GaussianVoting", "gaussian_voting"),
            ),
            (StreamSpec("sample", {"tasks": 5}),),
            metrics=("Avg", "Last", "forgetting", "bytes"),
            budgets=(200,),
            seeds=3,
        ),
    )
    return {suite.name: suite for suite in made}


SUITES = suites()


def find_suite(name: str, width: int = FEATURES) -> Suite:
    """The suite of that name, for features of that width.

    >>> find_suite("smok")
    Traceback (most recent call last):
    ...
    ValueError: There is no suite 'smok'. Did you mean 'smoke'?
    """
    if name not in SUITES:
        raise ValueError(f"There is no suite {name!r}. {did_you_mean(name, SUITES)}")
    return suites(width)[name]
