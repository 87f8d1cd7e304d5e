"""The suite that `votestream bench run` runs: changed by the command's options."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from votestream.common.parameters import shown

# Learners and streams import torch, so the functions import them: --help does not wait for it.
if TYPE_CHECKING:
    from votestream.bench.runs import Suite


class SuiteLength(StrEnum):
    """Variants of a suite that take less time."""

    short = "short"


def requested_suite(
    name: str, methods: list[str] | None, streams: list[str] | None, budgets: list[int] | None,
    learners: list[str] | None, settings: list[str] | None, backbone: str | None, preset: SuiteLength | None,
    limit: int | None, validate: bool,
) -> Suite:  # fmt: skip
    """The suite with the methods, streams and settings of the command's options."""
    from votestream.bench.finding import added_methods, is_own_stream, the_backbone
    from votestream.bench.runs import StreamSpec
    from votestream.bench.suites import HELD_OUT, find_suite

    suite = find_suite(name)
    if backbone is not None:  # budgets in bytes depend on the number of features
        suite = replace(find_suite(name, the_backbone(backbone, "cpu").feature_dim), backbone=backbone)
    if settings and not learners:
        raise ValueError("--set needs --learner.")
    extra = [method for each in learners or [] for method in added_methods(each, _settings(settings), suite.budgets)]
    suite = suite.of_length("full" if preset is None else preset.value)
    suite = replace(suite, methods=(*suite.methods, *extra)).only_methods(methods or []).only_budgets(budgets or [])
    own = [spec for spec in streams or [] if is_own_stream(spec)]
    patterns = [spec for spec in streams or [] if spec not in own]
    suite = replace(suite, streams=()) if own and not patterns else suite.only_streams(patterns)
    specs = [*suite.streams, *(StreamSpec(spec) for spec in own)]
    more: dict[str, Any] = {"test_share": HELD_OUT} if validate or suite.chooses else {}
    more |= {} if limit is None else {"limit": limit}
    return replace(suite, streams=tuple(replace(spec, options={**spec.options, **more}) for spec in specs))


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    """Parse NAME=VALUE; values are JSON, or else text."""
    made = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"--set takes NAME=VALUE, not {shown(pair)}.")
        try:
            made[name] = json.loads(value)
        except json.JSONDecodeError:
            made[name] = value
    return made


def with_available_data(suite: Suite, data_dir: Path | None) -> Suite:
    """The suite without the streams whose data is not here; prints their names."""
    from votestream.bench.finding import missing_data

    where = None if data_dir is None else str(data_dir)
    absent = {stream.name: missing_data(stream, where) for stream in suite.streams}
    for why in filter(None, absent.values()):
        typer.echo(f"Left out: {why}", err=True)
    here = tuple(stream for stream in suite.streams if not absent[stream.name])
    if not here:
        raise ValueError(f"None of the streams of {suite.name} has its data here.")
    return replace(suite, streams=here)


def backbone_digest(backbone: str) -> str:
    from votestream.bench.finding import the_backbone

    return the_backbone(backbone, "cpu").digest[:12]


def check_on(on: str) -> None:
    if on not in ("here", "ray") and not on.startswith("ray://"):
        raise ValueError(f"--on must be 'here', 'ray' or 'ray://HOST:PORT', got {on!r}")
