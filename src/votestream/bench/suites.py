"""The suites, as data: what the paper compares, with our learners and the rivals on frozen features added."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from votestream.bench.methods import (
    PAPER,
    all_at_once,
    both_lengths,
    careful,
    first_task_offline,
    later_rivals,
    later_rivals_at_their_size,
    of_rates,
    of_weight_norms,
    offline_rivals,
    on_features,
    on_statistics,
    ours,
    rivals,
    three_pairs,
    variants,
    without_a_part,
)
from votestream.bench.paper import FEATURES, STEPS, in_steps
from votestream.bench.runs import Method, StreamSpec, Suite
from votestream.common.parameters import shown
from votestream.common.plugins import Registry
from votestream.common.suggestions import did_you_mean

BUDGETS = (1000, 2000, 5000, 10_000)
CIFAR10 = StreamSpec("split-cifar10", {"tasks": 5})
CIFAR100 = StreamSpec("split-cifar100", {"tasks": 20})
CORE50 = StreamSpec("core50-nc")
PAPERS_STREAMS = (CIFAR10, CIFAR100, CORE50)
IN_STEPS = tuple(StreamSpec("split-cifar100", {"tasks": 100 // step}, in_steps(step)) for step in STEPS)
HELD_OUT = 0.2  # of the training part, where settings are chosen
CAREFUL_TOLD = (
    "Careful: the same network looks at each image in several sizes, mirrored too, and features of its last but one "
    "stage stand beside those of the last."
)
SHORT_TOLD = "Short methods make a fifth of their passes."
SRDA = Method("SRDA", "srda")
UPPER_BOUND = Method("Upper bound: linear, on all features", "joint", {}, None, "Upper-bound")


def suites(width: int = FEATURES) -> dict[str, Suite]:
    """Those of this package; budgets in bytes are those of exemplars with `width` features, the backbone's."""
    made = (
        Suite(
            "online",
            "Online methods by exemplar budget",
            (
                *on_statistics(),
                SRDA,
                *(m for stream in PAPERS_STREAMS for m in rivals(None, stream.name)),
                *(
                    m
                    for Q in BUDGETS
                    for m in (
                        *(m for stream in PAPERS_STREAMS for m in rivals(Q, stream.name)),
                        *on_features(Q, width),
                        *later_rivals(Q, width),
                        *ours(Q, width),
                        careful(Q, width),
                    )
                ),
            ),
            tuple(replace(stream, part=stream.name) for stream in PAPERS_STREAMS),
            budgets=BUDGETS,
            remark="The learning rates of the rivals that train a network are those of the suite rates. "
            f"{CAREFUL_TOLD}",
        ),
        Suite(
            "ablation",
            "What each part of the method is worth",
            (
                *variants(2000, paper=True),
                *variants(2000, paper=False),
                *without_a_part(2000),
                *ours(2000, width)[2:],
                UPPER_BOUND,
            ),
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
            plot="",
            budgets=BUDGETS,
            seeds=1,
            remark="100 samples of each class fill every budget.",
        ),
        Suite(
            "confusion",
            "Where the answers go: confusion matrices of the ablation's variants",
            (*variants(2000, paper=False), *ours(2000, width)[2:]),
            (CIFAR100,),
            plot="confusion",
            keeps=("confusion",),
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
            "offline",
            "Methods that go over each task many times, by classes a task",
            (
                *both_lengths([*offline_rivals(2000), all_at_once()]),
                *first_task_offline(ours(2000, width)),
                careful(2000, width),
            ),
            IN_STEPS,
            metrics=("Avg", "Avg after the first", "Last"),
            budgets=(2000,),
            seeds=3,
            remark=f"{SHORT_TOLD} CandidatesVoting's head goes over the first task 10 times; all else of it, and "
            f"GaussianVoting, learns in one pass. {CAREFUL_TOLD}",
        ),
        Suite(
            "weight-norms",
            "Norms of the head's rows, online and offline",
            tuple(of_weight_norms((1000, 5000, 10_000), width)),
            IN_STEPS[:3],
            metrics=("drift", "newest", "Last"),
            plot="norms",
            keeps=("norms",),
            budgets=(1000, 5000, 10_000),
            seeds=1,
            remark=f"Drift is how far the least-squares line through the norms rises over all classes, in order of "
            f"learning, over their mean: 0 favours no class. Newest is the mean norm of the last task's rows over that "
            f"of the others. Offline is 70 passes. {SHORT_TOLD}",
        ),
        Suite(
            "rates",
            "Learning rates of the rivals that train a network",
            tuple(of_rates(2000)),
            tuple(
                replace(stream, options={**stream.options, "test_share": HELD_OUT}, part=part)
                for stream, part in ((CIFAR10, "online"), (CIFAR100, "online"), (IN_STEPS[2], "offline"))
            ),
            plot="rates",
            budgets=(2000,),
            seeds=1,
            first_seed=9,
            chooses=True,
            remark="Tested on a fifth of the training part. Those that go over each task many times are short, a fifth "
            "of their passes. Best is the highest Last.",
        ),
        Suite(
            "bytes",
            "Accuracy against bytes, learners on frozen features",
            (
                *on_statistics(),
                SRDA,
                Method("GaussianVoting, no limit", "gaussian_voting"),
                Method("RanPAC, 2000 random features", "ranpac", {}, ask="last"),
                *later_rivals_at_their_size(),
                *(
                    m
                    for Q in BUDGETS
                    for m in (*on_features(Q, width), *later_rivals(Q, width), *three_pairs(Q), *ours(Q, width)[1:])
                ),
                *(careful(Q, width) for Q in BUDGETS),
                replace(
                    careful(2000, width),
                    label="GaussianVoting, careful, 3 MB",
                    settings={"budget_bytes": 3_000_000, "block": 32},
                    Q=None,
                ),
                replace(UPPER_BOUND, paper=None, ask="last"),
            ),
            (CIFAR10, CIFAR100),
            metrics=("bytes", "Avg", "Last", "forgetting"),
            plot="bytes",
            budgets=BUDGETS,
        ),
        Suite(
            "anytime",
            "Accuracy at any time, learners on frozen features",
            (*on_statistics(), *(replace(m, ask="each") for m in (*on_features(2000, width), *ours(2000, width)))),
            (CIFAR100,),
            metrics=("AAA", "WC-Acc", "prequential", "Avg", "Last", "BWT"),
            plot="anytime",
            anytime=500,
            budgets=(2000,),
            seeds=3,
            remark="Tested after every 500 samples, or what --anytime says, on all classes so far; AAA is the mean of "
            "these tests. WC-Acc takes of each task but the last its lowest accuracy while later ones were learned. "
            "Prequential: each sample is predicted before it is learned. BWT: what earlier tasks gained since.",
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


def _built_in(name: str) -> Callable[[int], Suite]:
    def made(width: int) -> Suite:
        return SUITES[name] if width == FEATURES else suites(width)[name]

    return made


MAKERS: Registry[Callable[[int], Suite]] = Registry("suite", {name: _built_in(name) for name in SUITES})
M = TypeVar("M", bound=Callable[[int], Suite])


def register_suite(name: str) -> Callable[[M], M]:
    """Decorator: makes a function of the backbone's number of features, which returns a `Suite`, known by name.

    >>> @register_suite("means")
    ... def means(width):
    ...     return Suite("means", "Class means", (Method("NCM", "ncm"),), (StreamSpec("sample"),))
    >>> find_suite("means").title
    'Class means'
    """
    return MAKERS.decorator(name)


def list_suites() -> list[str]:
    """Names that `votestream bench` takes, ours first.

    >>> list_suites()[:3]
    ['online', 'ablation', 'augmentation']
    """
    return list(MAKERS)


def all_suites() -> list[Suite]:
    """Every suite; one from outside that cannot be made is told and left out."""
    found = []
    for name in list_suites():
        try:
            found.append(find_suite(name))
        except Exception as error:  # whatever another package's code may do
            warnings.warn(f"the suite {name!r} cannot be made: {type(error).__name__}: {error}", stacklevel=2)
    return found


def find_suite(name: str, width: int = FEATURES) -> Suite:
    """The suite of that name, for features of that width.

    >>> find_suite("smok")
    Traceback (most recent call last):
    ...
    ValueError: There is no suite 'smok'. Did you mean 'smoke'?
    """
    if name not in MAKERS:
        raise ValueError(f"There is no suite {shown(name)}. {did_you_mean(name, MAKERS)}")
    made = MAKERS[name](width)
    if not isinstance(made, Suite) or made.name != name:
        raise ValueError(f"The suite {name!r} must be made as a Suite of that name, got {made!r:.60}.")
    return made
