"""`votestream bench run --on`, as far as it goes without Ray; with it, see tests_ray/."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from votestream._version import __version__
from votestream.bench.ray_workers import cpus_each
from votestream.cli.main import app
from votestream.distributed.ray_cluster import ClusterError, check_version


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", "run", "smoke", "--seeds", "1", "--method", "NCM", *arguments])


def test_a_place_that_is_none_is_refused_before_anything_runs():
    told = bench("--on", "clouds")
    assert told.exit_code == 2
    assert "--on must be 'here', 'ray' or 'ray://HOST:PORT', got 'clouds'" in told.stderr


def test_ray_that_is_not_installed_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    told = bench("--on", "ray")
    assert told.exit_code == 2
    assert "needs the package ray: `pip install 'votestream[ray]'`" in told.stderr


@pytest.mark.parametrize("nodes", [[16], [4, 2], [1, 1, 1], [8, 8, 3], [64] * 4])
def test_as_many_jobs_as_asked_for_fit_on_the_nodes_at_once(nodes):
    for jobs in range(1, 3 * sum(nodes)):
        cpus = cpus_each(nodes, jobs)
        assert sum(int(node / cpus + 1e-9) for node in nodes) >= jobs


@pytest.mark.parametrize(("theirs", "told"), [("0.0.1", "has votestream 0.0.1"), (None, "has no votestream")])
def test_a_node_with_another_votestream_or_none_is_named(theirs, told):
    check_version(__version__, "10.0.0.7")
    with pytest.raises(ClusterError, match=rf"node 10\.0\.0\.7 {told}, this program has votestream {__version__}"):
        check_version(theirs, "10.0.0.7")
