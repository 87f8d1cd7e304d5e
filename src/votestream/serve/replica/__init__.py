"""A read-only copy of a model that another service trains."""

from votestream.serve.replica.follower import Follower
from votestream.serve.replica.upstream import Upstream

__all__ = ["Follower", "Upstream"]
