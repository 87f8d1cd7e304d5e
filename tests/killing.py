"""A command that is killed while it writes."""

from __future__ import annotations

from painted import run
from votestream.model_store import stored_model
from votestream.model_store.sidecar import LearnedPhotos
from votestream.pipeline import ImageClassifier


class Killed(BaseException):
    pass


STEPS = (LearnedPhotos, "write"), (stored_model, "write_journal"), (ImageClassifier, "save")


def run_and_kill(monkeypatch, step, moment, *arguments):
    """Run a command that dies before or after its step-th writing; how many it would have made."""
    made = 0

    def deadly(real):
        def write(*args):
            nonlocal made
            made += 1
            if made == step and moment == "before":
                raise Killed
            real(*args)
            if made == step:
                raise Killed

        return write

    with monkeypatch.context() as patched:
        for owner, name in STEPS:
            patched.setattr(owner, name, deadly(getattr(owner, name)))
        try:
            run(*arguments, catch_exceptions=False)
        except Killed:
            return step
    return made
