"""Marks: a journal is trimmed without learning again what was learned before."""

from __future__ import annotations

import numpy as np

import votestream as vs
from votestream.model_store.journal import Journal, fingerprint


def taught(marked_every):
    """A journal of ten calls of ten rows each and the learner it leads to."""
    rng = np.random.default_rng(0)
    learner = vs.GaussianVoting(block=1, track=True, device="cpu")
    journal = Journal(vs.GaussianVoting(block=1, track=True, device="cpu"))
    for _ in range(10):
        rows, labels = rng.normal(size=(10, 6)), rng.integers(0, 3, 10).tolist()
        learner.partial_fit(rows, labels)
        journal.add(rows, labels, None, [""] * 10)
        if marked_every:
            journal.mark(learner, marked_every)
    return journal, learner


def counted(monkeypatch):
    calls = []
    monkeypatch.setattr(vs.GaussianVoting, "_learn_rows", _counting(vs.GaussianVoting._learn_rows, calls))
    return calls


def _counting(lesson, calls):
    def count(self, *arguments):
        calls.append(1)
        return lesson(self, *arguments)

    return count


def test_trimming_to_a_mark_learns_nothing_again_and_leaves_at_least_what_is_kept(monkeypatch):
    journal, learner = taught(marked_every=30)
    lessons = counted(monkeypatch)
    assert journal.trim(25, to_a_mark=True)
    assert len(journal) == 40  # the mark after sixty; the one after ninety would leave ten
    assert not lessons
    assert fingerprint(journal.replayed()) == fingerprint(learner)
    assert not journal.trim(25, to_a_mark=True)


def test_trimming_exactly_begins_at_a_mark_and_ends_as_without_any(monkeypatch):
    (marked, _), (plain, learner) = taught(marked_every=30), taught(marked_every=0)
    lessons = counted(monkeypatch)
    marked.trim(25)
    assert len(lessons) == 1  # from sixty to seventy
    plain.trim(25)
    assert len(lessons) == 1 + 7
    assert len(marked) == len(plain) == 30
    assert fingerprint(marked.base) == fingerprint(plain.base)
    assert fingerprint(marked.replayed()) == fingerprint(learner)
