"""A history of the changes that a served model acknowledged, and the model that should result from it."""

from __future__ import annotations

import io
import time

import numpy as np
from PIL import Image

from votestream.model_store.journal import fingerprint
from votestream.model_store.model_file import new_learner
from votestream.serve.engine.changes import Forget, Learn, Rename, Undo
from votestream.serve.engine.messages import Correction, LearnResult, Upload

WIDTH = 6


def rows_of(label, n=1, seed=0):
    """Rows of a class. Classes are far apart."""
    rng = np.random.default_rng([sum(map(ord, label)), seed])
    middle = np.random.default_rng(sum(map(ord, label))).normal(size=WIDTH) * 3
    return (middle + rng.normal(size=(n, WIDTH))).astype(np.float32)


def png(colour, side=4):
    pixels = np.full((side, side, 3), colour, np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def upload(colour=100, name="a.png"):
    return Upload(png(colour), name)


def learn(*labels, seed=0, task=None):
    rows = np.concatenate([rows_of(label, seed=seed + place) for place, label in enumerate(labels)])
    return Learn(rows, list(labels), task)


def until(condition):
    """Wait until the condition holds, for a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


class History:
    """The acknowledged jobs, by number."""

    def __init__(self):
        self.calls = {}  # the job, by its first number
        self.undone = {}  # the undo, by the number that it undid

    @property
    def number(self):
        return max([0, *self.undone.values(), *(first + size(job) - 1 for first, job in self.calls.items())])

    def note(self, job, outcome):
        if isinstance(outcome, LearnResult):
            self.calls[outcome.lessons[0].lesson] = job
        elif isinstance(outcome, Correction) and isinstance(job, Undo):
            self.undone[outcome.about["lesson"]] = outcome.lesson
        else:
            self.calls[outcome.lesson] = job

    def model(self, number=None, learner=None):
        """A model that learned what was valid after a change, and nothing else."""
        number = self.number if number is None else number
        learner = learner or new_learner("gaussian_voting", None, 0)
        gone = {lesson for lesson, by in self.undone.items() if by <= number}
        for first, job in sorted(self.calls.items()):
            kept = [i for i in range(size(job)) if first + i <= number and first + i not in gone]
            if not kept:
                continue
            if isinstance(job, Learn):
                learner.partial_fit(job.rows[kept], [job.labels[i] for i in kept], task=job.task)
            elif isinstance(job, Rename):
                learner.rename(job.old, job.new)
            elif isinstance(job, Forget):
                learner.forget(job.label)
        return learner

    def fingerprint(self, number=None):
        return fingerprint(self.model(number))


def size(job):
    return len(job.labels) if isinstance(job, Learn) else 1


def do(model, history, *jobs):
    """Do jobs in one group, and add them to the history."""
    outcomes = model.change([(job, None) for job in jobs])
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, Exception):
            raise outcome
        history.note(job, outcome)
    return outcomes
