"""A connection to a Ray cluster: quiet, closed by whoever opened it, the same VoteStream on every node."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from votestream._version import __version__
from votestream.common.extras import install_extra


class ClusterError(RuntimeError):
    """The cluster is not one that the work can be done on."""


def import_ray(on: str) -> ModuleType:
    """The package ray, or a sentence that says how to install it."""
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise  # it is installed, and something that it needs is not
        raise ModuleNotFoundError(f"on={on!r} needs the package ray: {install_extra('ray')}.", name="ray") from None
    return ray


class RayCluster:
    """The cluster that `on` names: "ray", or "ray://host:10001" for Ray Client.

    "ray" is the cluster this program is connected to already, else the one at RAY_ADDRESS or on this machine, else one
    that is started here and ends with the connection. `cpus` is how many CPUs a cluster that is started here offers.
    """

    def __init__(self, on: str = "ray", cpus: int | None = None) -> None:
        self.ray = import_ray(on)
        self._opened = not self.ray.is_initialized()
        if self._opened:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody asked for a report to Ray's makers
            os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of calls that nobody waits for any more
            _connect(self.ray, on, cpus)
        self._quiet(True)

    def close(self) -> None:
        """Disconnect, if this opened the connection; a cluster that was started for it ends."""
        if self._opened:
            self.ray.shutdown()  # first: notes of a worker that died a moment ago still arrive until then
        self._quiet(False)

    @property
    def deadly(self) -> tuple[type[Exception], ...]:
        """Errors by which a worker or its node is gone, or a result with the node that held it."""
        errors = self.ray.exceptions
        return errors.RayActorError, errors.WorkerCrashedError, errors.OutOfMemoryError, errors.ObjectLostError

    @property
    def node_cpus(self) -> list[int]:
        """CPUs of each node that has any."""
        cpus = (int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"])
        return [count for count in cpus if count > 0]

    @property
    def gpus(self) -> int:
        return int(self.ray.cluster_resources().get("GPU", 0))

    def gpu_share(self, workers: int) -> float:
        """The part of a GPU that each of so many workers gets; 0 where the cluster has none."""
        return share(self.gpus, workers)

    def _quiet(self, quiet: bool) -> None:
        # What becomes of a worker that died is told by whoever started it. Ray has no public switch for its own notes.
        worker = self.ray._private.worker
        if hasattr(worker, "_worker_logs_enabled"):
            worker._worker_logs_enabled = not quiet


def share(units: int, workers: int) -> float:
    """The equal part of some whole units, none of them divided between units.

    >>> share(1, 4), share(2, 3), share(8, 3), share(0, 3)
    (0.25, 0.5, 1.0, 0.0)
    """
    return 1 / math.ceil(workers / units) if units else 0.0


def _connect(ray: ModuleType, on: str, cpus: int | None) -> None:
    how: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if on != "ray":
        try:
            ray.init(on, **how)
        except ImportError as error:  # Ray Client is an extra of Ray's own
            raise ModuleNotFoundError(f"{on} needs Ray Client: {install_extra('ray')}.") from error
        return
    try:
        ray.init("auto", **how)
    except ConnectionError as error:
        if "any running Ray instance" not in str(error):  # there is one, and it does not let this program in
            raise ConnectionError(f"{error}: is it running, and has this program its token (docs/scale.md)?") from error
        ray.init("local", num_cpus=cpus, include_dashboard=False, **how)


def version_probe() -> Callable[[], tuple[str | None, str]]:
    """A function that tells, in a worker, the VoteStream of its node (None without any) and the node's address.

    Made in a function, as whatever is sent to a node before its VoteStream is known: Ray sends the code of those along,
    while of a module's functions it sends the name only.
    """

    def probe() -> tuple[str | None, str]:
        import ray

        node = ray.util.get_node_ip_address()
        try:
            from votestream._version import __version__ as found
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "votestream":
                raise
            return None, node
        return found, node

    return probe


def check_version(theirs: str | None, node: str) -> None:
    """Complain of a node whose workers have another VoteStream than this program, or none (None)."""
    if theirs != __version__:
        has = "no votestream" if theirs is None else f"votestream {theirs}"
        raise ClusterError(
            f"The Ray node {node} has {has}, this program has votestream {__version__}: "
            "the same version must be installed on every node (docs/scale.md says how)."
        )
