"""What a suite is made of: methods, streams, and the runs that follow from them."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from votestream.backbones.presets import has_presets, resolve_presets
from votestream.bench.columns import key_of
from votestream.common.suggestions import begun


@dataclass(frozen=True)
class Method:
    """A learner with its settings, under the name that tables give it.

    `learner` is a name that `votestream.create` knows, or `module:Class`. `Q` is the budget it stands for in
    tables, None where it has none. `paper` is the row of the paper's tables that it is compared with.
    `ask` is "each" to be tested after each task, "last" where an answer costs too much for that. `first_passes` is how
    often the first task is gone over (`fit_task`). `length` tells the "full" and the "short" variant of a method of
    many passes apart. `part` is for suites in parts: a method runs on the streams of its own. `family` is what plots
    call it together with those that differ from it in their learning rate only. `views` and `stages` are
    what its backbone is made with (`create_backbone`), where that differs from the suite's.
    """

    label: str
    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    Q: int | None = None
    paper: str | None = None
    ask: str = "each"
    first_passes: int = 1
    length: str = ""
    part: str = ""
    family: str = ""
    views: str | None = None
    stages: str | None = None

    @property
    def look(self) -> dict[str, str]:
        """The options that the backbone is made with."""
        given = {"views": self.views, "stages": self.stages}
        return {name: value for name, value in given.items() if value is not None}

    def looking_through(self, backbone: str) -> Method:
        """The same, with the views and stages that "careful" and "quick" stand for there: results tell them in full."""
        return replace(self, **resolve_presets(backbone, **self.look)) if self.look else self

    @property
    def settings_json(self) -> str:
        """Its settings as the results tell them."""
        passes = {} if self.first_passes == 1 else {"first_passes": self.first_passes}
        return as_json({**self.settings, **passes, **self.look})


@dataclass(frozen=True)
class StreamSpec:
    """A stream by name (or `module:function`) and the options it is made with, for any seed.

    Besides those of `votestream.stream`, `limit` lets only so many samples of each class arrive. `label` is what
    tables call it, where its name is not enough to tell it from others; `part` as for methods.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    part: str = ""

    @property
    def title(self) -> str:
        return self.label or self.name


@dataclass(frozen=True)
class Run:
    """One method on one stream with one seed: all that decides the outcome."""

    method: Method
    stream: StreamSpec
    seed: int
    backbone: str
    digest: str  # of the backbone's weights
    keeps: tuple[str, ...] = ()  # columns that are large, and filled only where asked for: "confusion", "norms"
    anytime: int = 0  # samples from one test to the next; 0 where it is tested after tasks only

    @property
    def columns(self) -> dict[str, str]:
        """What its row holds before it is carried out, the key among it."""
        anytime = {"anytime": self.anytime} if self.anytime else {}
        return {
            "method": self.method.label,
            "learner": self.method.learner,
            "settings": self.method.settings_json,
            "stream": self.stream.name,
            "options": as_json({**self.stream.options, **anytime}),
            "backbone": self.backbone,
            "digest": self.digest,
            "seed": str(self.seed),
            "Q": "" if self.method.Q is None else str(self.method.Q),
            "paper row": self.method.paper or "",
        }

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.columns)

    def __str__(self) -> str:
        Q = "" if self.method.Q is None else f", Q {self.method.Q}"
        return f"{self.method.label}{Q} on {self.stream.title}, seed {self.seed}"


@dataclass(frozen=True)
class Suite:
    """Methods and streams that belong together, and how their table looks.

    `metrics` are the columns of the table, of `metrics.METRICS`; `plot` is one of `kinds.KINDS`, or nothing; `keeps`
    are the large columns that it shows (`Run`). `anytime` is how many samples are learned from one test to the next; 0
    tests after tasks only. `budgets` are what a learner added by `--learner` runs with. A suite that `chooses` settings
    never sees a test part: it is tested on a fifth of the training part, on seeds from `first_seed` on, which tables do
    not have. `remark` stands below its tables.
    """

    name: str
    title: str
    methods: tuple[Method, ...]
    streams: tuple[StreamSpec, ...]
    backbone: str = "reduced_resnet18"
    metrics: tuple[str, ...] = ("Avg", "Last")
    plot: str = "curves"
    keeps: tuple[str, ...] = ()
    anytime: int = 0
    budgets: tuple[int, ...] = ()
    seeds: int = 5
    first_seed: int = 0
    chooses: bool = False
    remark: str = ""
    held_out: bool = False  # its rows are of `--validate`: tested on a fifth of the training part

    def runs(self, digest: str, seeds: range) -> Iterator[Run]:
        """All of them, seed by seed, so that a series cut short has whole seeds."""
        for seed in seeds:
            for stream in self.streams:
                for method in self.methods_on(stream):
                    if has_presets(self.backbone, method.look):
                        seen = method.looking_through(self.backbone)
                        yield Run(seen, stream, seed, self.backbone, digest, self.keeps, self.anytime)

    def methods_on(self, stream: StreamSpec) -> list[Method]:
        """Those of the stream's part, and of none; on a stream of no part all, once: as their first part has them."""
        fitting = [m for m in self.methods if m.part == stream.part or not (m.part and stream.part)]
        first: dict[tuple[str, str, int | None], Method] = {}
        for method in fitting:
            first.setdefault((method.label, method.learner, method.Q), method)
        return fitting if stream.part else list(first.values())

    def of_length(self, length: str) -> Suite:
        """The part with the methods of many passes in this length, "full" or "short", and with all the others."""
        if length not in ("full", *(m.length for m in self.methods)):
            raise ValueError(f"{self.name} has no method of many passes that could be {length}.")
        return replace(self, methods=tuple(m for m in self.methods if m.length in ("", length)))

    def only_methods(self, patterns: list[str]) -> Suite:
        """The part whose methods (label or learner) fit one of the patterns; all where there are none."""
        unknown = [p for p in patterns if not any(_fits([p], m.label, m.learner) for m in self.methods)]
        if unknown:
            labels = dict.fromkeys(m.label for m in self.methods)
            raise ValueError(f"No method of {self.name} is called {begun(unknown)}. Known: {', '.join(labels)}.")
        return replace(self, methods=tuple(m for m in self.methods if _fits(patterns, m.label, m.learner)))

    def only_budgets(self, budgets: list[int]) -> Suite:
        """The part whose methods have one of these budgets, or none; all where there are none."""
        chosen = tuple(m for m in self.methods if not budgets or m.Q is None or m.Q in budgets)
        unknown = set(budgets) - {m.Q for m in self.methods}
        if unknown:
            raise ValueError(f"No method of {self.name} has a budget of {', '.join(map(str, sorted(unknown)))}.")
        return replace(self, methods=chosen)

    def only_streams(self, patterns: list[str]) -> Suite:
        """The part whose streams fit one of the patterns; all where there are none."""
        unknown = [p for p in patterns if not any(_fits([p], s.name, s.title) for s in self.streams)]
        if unknown:
            known = "; ".join(s.title for s in self.streams)
            raise ValueError(f"No stream of {self.name} is called {begun(unknown)}. Known: {known}.")
        return replace(self, streams=tuple(s for s in self.streams if _fits(patterns, s.name, s.title)))


def _fits(patterns: list[str], *names: str) -> bool:
    return not patterns or any(fnmatch.fnmatch(n.lower(), p.lower()) for n in names for p in patterns)


def as_json(value: Any) -> str:
    """The same text for the same value: settings are told apart by it.

    >>> as_json({"b": 1, "a": None})
    '{"a": null, "b": 1}'
    """
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, sort_keys=True)
