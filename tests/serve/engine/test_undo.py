"""Taking lessons back, and what else changes a model that was taught."""

from __future__ import annotations

import numpy as np
import pytest

from serve.history import History, do, learn
from votestream.model_store.journal import fingerprint
from votestream.serve.engine import served_model
from votestream.serve.engine.changes import Forget, Learn, Rename, Undo
from votestream.serve.engine.journal import ChangeJournal, JournalEntry
from votestream.serve.engine.messages import BadRequest, Conflict, NotFound
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.settings import EngineSettings


@pytest.fixture
def opened(tmp_path):
    models = []

    def open_one(**settings):
        for model in models:
            model.journal.close()
        models[:] = [open_model(tmp_path / "m.safetensors", EngineSettings(**settings))[0]]
        return models[0]

    yield open_one
    models[0].journal.close()


def test_undoing_the_newest_lesson_equals_never_having_learned_it(opened):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog"), learn("cat", seed=3))
    before = fingerprint(model.learner)
    do(model, history, learn("oak", seed=4))
    (change,) = do(model, history, Undo())
    assert change.about == {"lesson": 4, "kind": "learn", "label": "oak"}
    assert fingerprint(model.learner) == before == history.fingerprint()


@pytest.mark.parametrize("near", [1, 50])
def test_undoing_an_older_lesson_equals_never_having_learned_it(opened, monkeypatch, near):
    monkeypatch.setattr(served_model, "VIEW_INTERVAL", near)
    model, history = opened(undo_reach=5), History()
    for seed in range(4):
        do(model, history, learn("cat", "dog", "oak", seed=seed))
    for lesson in (11, 8, 12, 7):
        do(model, history, Undo(lesson))
        assert fingerprint(model.learner) == history.fingerprint()
    do(model, history, learn("elm"))
    assert fingerprint(model.learner) == history.fingerprint()


def test_a_kept_view_makes_undoing_quick(opened, monkeypatch):
    model, history = opened(), History()
    for seed in range(12):
        do(model, history, learn("cat", "dog", "oak", "elm", "fir", seed=seed))
    read = []
    real = model.journal.entries
    monkeypatch.setattr(model.journal, "entries", lambda after: read.append(after) or real(after))
    do(model, history, Undo())
    assert read == [50]
    assert fingerprint(model.learner) == history.fingerprint()


def test_renames_and_forgets_can_be_undone(opened):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog", "oak"), Rename("cat", "dog", merge=True))
    do(model, history, Forget("oak"))
    assert model.learner.classes_.tolist() == ["dog"]
    do(model, history, Undo(5))
    do(model, history, Undo(4))
    assert model.learner.classes_.tolist() == ["cat", "dog", "oak"]
    assert fingerprint(model.learner) == history.fingerprint()


@pytest.mark.parametrize("newest", [Rename("cat", "dog", merge=True), Rename("cat", "lion"), Forget("cat")])
def test_without_a_number_the_newest_change_is_undone_whatever_it_is(opened, newest):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog", "oak"))
    before = fingerprint(model.learner)
    do(model, history, newest)
    (change,) = do(model, history, Undo())
    assert change.about["lesson"] == 4
    assert fingerprint(model.learner) == before
    (change,) = do(model, history, Undo())
    assert change.about == {"lesson": 3, "kind": "learn", "label": "oak"}


def test_a_lesson_that_a_later_change_needs_is_not_undone_alone(opened):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog"), Rename("cat", "lion"))
    before = fingerprint(model.learner)
    with pytest.raises(Conflict, match=r"Lesson 1 cannot be undone alone: change 3 \(rename\) needs it"):
        do(model, history, Undo(1))
    assert fingerprint(model.learner) == before
    assert model.number == 3


@pytest.mark.parametrize(
    ("lesson", "kind", "why"),
    [
        (99, NotFound, "There is no lesson 99"),
        (0, NotFound, "There is no lesson 0"),
        (-3, NotFound, "There is no lesson -3"),
        (1, NotFound, "the oldest that can be undone is 5"),
        (7, Conflict, "itself an undo"),
        (6, Conflict, "undone already"),
    ],
)
def test_what_cannot_be_undone_is_said(opened, lesson, kind, why):
    model, history = opened(undo_reach=2), History()
    for seed in range(3):
        do(model, history, learn("cat", "dog", seed=seed))
    do(model, history, Undo())
    do(model, history, learn("cat", seed=9))
    with pytest.raises(kind, match=why):
        do(model, history, Undo(lesson))


def test_nothing_to_take_back_is_a_conflict(opened):
    with pytest.raises(Conflict, match="no lesson to undo"):
        do(opened(), History(), Undo())


def test_undo_reaches_at_least_as_far_as_asked_for(opened):
    model, history = opened(undo_reach=5), History()
    for seed in range(23):
        do(model, history, learn("cat", seed=seed))
        assert min(model.number, 5) <= model.view.undo_reaches <= 10
    do(model, history, Undo(model.number - 4))
    assert fingerprint(model.learner) == history.fingerprint()


def test_features_are_kept_only_as_long_as_an_undo_may_need_them(opened):
    model, history = opened(undo_reach=3), History()
    for seed in range(9):
        do(model, history, learn("cat", seed=seed))
    do(model, history, Undo(8))
    assert [entry.number for entry in model.journal.entries(0) if entry.features is not None] == [7, 9]
    assert model.log_needs_truncation


def test_features_that_were_deleted_are_gone_from_the_disk(tmp_path):
    journal = ChangeJournal(tmp_path / "m.lessons")
    rows = np.random.default_rng(0).normal(size=(4, 3000)).astype(np.float32)  # several pages of the database each

    def pieces_on_disk(row):
        held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        return sum(row[start : start + 10].tobytes() in held for start in range(0, 3000, 10))

    with journal.transaction():
        journal.add(JournalEntry(n, n, "learn", {}, row) for n, row in enumerate(rows, 1))
    assert all(pieces_on_disk(row) > 250 for row in rows)
    with journal.transaction():
        journal.mark_undone(3, 5)
    with journal.transaction():
        journal.drop_changes(1)
    journal.truncate_log()
    assert [pieces_on_disk(row) > 250 for row in rows] == [False, True, False, True]
    assert pieces_on_disk(rows[0]) == pieces_on_disk(rows[2]) == 0
    journal.close()


def test_a_name_that_is_taken_needs_a_merge(opened):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog"))
    with pytest.raises(Conflict, match="There is a class dog already"):
        do(model, history, Rename("cat", "dog"))
    with pytest.raises(NotFound, match="has no class lion: its classes are cat, dog"):
        do(model, history, Rename("lion", "cat"))
    with pytest.raises(Conflict, match="called cat already"):
        do(model, history, Rename("cat", "cat"))
    with pytest.raises(NotFound):
        do(model, history, Forget("lion"))
    (change,) = do(model, history, Rename("cat", "dog", merge=True))
    assert change.about == {"old": "cat", "new": "dog", "merged": True}
    with pytest.raises(Conflict, match="only class"):
        do(model, history, Forget("dog"))


def test_a_refused_job_leaves_the_others_of_its_group_alone(opened):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog"))
    good, bad, also_good = learn("oak"), learn("elm"), learn("fir")
    bad.rows[0, 0] = np.nan
    outcomes = model.change([(good, None), (bad, None), (also_good, None)])
    assert isinstance(outcomes[1], BadRequest)
    assert "NaN" in str(outcomes[1])
    history.note(good, outcomes[0])
    history.note(also_good, outcomes[2])
    assert [outcomes[0].lessons[0].lesson, outcomes[2].lessons[0].lesson] == [3, 4]
    assert fingerprint(model.learner) == history.fingerprint()


def test_a_job_that_breaks_the_learner_leaves_the_others_of_its_group_alone(opened, monkeypatch):
    model, history = opened(), History()
    do(model, history, learn("cat", "dog"))
    real = type(model.learner).learn

    def breaking(learner, rows, classes, offset):
        real(learner, rows, classes, offset)
        if "elm" in learner.state_.numbers:
            raise MemoryError("no room")

    monkeypatch.setattr(type(model.learner), "learn", breaking)
    jobs = [learn("oak"), learn("elm"), learn("fir")]
    outcomes = model.change([(job, None) for job in jobs])
    assert "MemoryError: no room" in str(outcomes[1])
    monkeypatch.undo()
    history.note(jobs[0], outcomes[0])
    history.note(jobs[2], outcomes[2])
    assert fingerprint(model.learner) == history.fingerprint()


def test_classes_that_are_numbers_may_be_given_as_text(opened):
    model, history = opened(), History()
    rows = learn("a", "b").rows
    do(model, history, Learn(rows, [3, 7]))
    do(model, history, Learn(rows[:1], ["3"]), Rename("7", "8"))
    assert model.learner.classes_.tolist() == [3, "8"]
    assert model.view.description["images"] == 3
