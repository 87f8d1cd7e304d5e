"""Whatever is acknowledged is on disk: a copy of the files, taken at any write, leads to the state told last."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import votestream
from serve.history import History, do, learn
from votestream.io import model_files
from votestream.learners import load
from votestream.model_store.journal import fingerprint
from votestream.serve.engine.changes import Forget, Learn, Rename, Undo
from votestream.serve.engine.journal import ChangeJournal
from votestream.serve.engine.recovery import open_model
from votestream.serve.engine.settings import EngineSettings

SHORT = EngineSettings(undo_reach=4)


class Crashes:
    """What a folder held before and after every write, as `kill -9` would leave it, and what was told by then."""

    def __init__(self, folder, history, monkeypatch):
        self.folder, self.history, self.images = folder, history, []
        transaction, write = ChangeJournal.transaction, model_files.write

        @contextmanager
        def watched(journal):
            with transaction(journal):
                yield
                self.take("before a commit")
            self.take("after a commit")

        def writing(path, header, arrays):
            self.take("before the model file")
            write(path, header, arrays)
            self.take("after the model file")

        monkeypatch.setattr(ChangeJournal, "transaction", watched)
        monkeypatch.setattr(model_files, "write", writing)

    def take(self, moment):
        held = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        if self.images and self.images[-1][0] == held:
            self.images.pop()  # nothing was written since
        self.images.append((held, moment, self.history.number))


def opened(folder, settings=SHORT):
    return open_model(folder / "m.safetensors", settings)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "models"
    made.mkdir()
    return made


def many_changes(model, history):
    """Every kind of change, and enough lessons that bases move on."""
    do(model, history, learn("cat", "dog"), learn("cat", seed=1))
    model.write_checkpoint()
    do(model, history, learn("dog", seed=2), learn("oak", "oak", seed=3, task="trees"))
    do(model, history, Undo())
    do(model, history, Rename("dog", "hound"))
    model.write_checkpoint()
    do(model, history, learn("cat", "hound", seed=7))
    do(model, history, Undo(4))
    do(model, history, learn("elm", seed=8), Rename("elm", "oak", merge=True))
    do(model, history, learn("cat", seed=10))
    do(model, history, Forget("oak"))
    do(model, history, Undo(model.number))
    model.write_checkpoint()
    for seed in range(20, 24):
        do(model, history, learn("cat", "hound", seed=seed))
    do(model, history, Undo(model.number - 3))
    do(model, history, learn("fir", seed=30))


def test_a_copy_of_the_files_at_any_write_leads_to_the_state_acknowledged_last(folder, monkeypatch):
    history = History()
    with monkeypatch.context() as patched:
        crashes = Crashes(folder, history, patched)
        model, _ = opened(folder)
        many_changes(model, history)
        model.write_checkpoint()
        model.journal.close()
    assert len(crashes.images) > 30
    fingerprints = {}
    for place, (held, moment, acknowledged) in enumerate(crashes.images):
        copy = folder.with_name(f"copy {place}")
        copy.mkdir()
        for name, data in held.items():
            (copy / name).write_bytes(data)
        again, remarks = opened(copy)
        n = again.number
        assert remarks == []
        assert acknowledged <= n <= acknowledged + 4, moment
        if n not in fingerprints:
            fingerprints[n] = history.fingerprint(n)
        assert fingerprint(again.learner) == fingerprints[n], (moment, n)
        assert fingerprint(again.view.learner) == fingerprints[n]
        if place % 5 == 0 and n > 1:  # it goes on as if nothing had been
            do(again, History(), learn("new", seed=99))
            expected = history.model(n)
            expected.partial_fit(learn("new", seed=99).rows, ["new"])
            assert fingerprint(again.learner) == fingerprint(expected)
        again.journal.close()


TEACHING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from serve.history import rows_of
from votestream.serve.engine import Engine
from votestream.serve.engine.settings import EngineSettings

engine = Engine.open(sys.argv[1], EngineSettings(backbone="reduced_resnet18", checkpoint_changes=3))
def teach(n):
    label = ("cat", "dog", "oak", "elm")[n % 4]
    lesson = engine.learn_features(rows_of(label, seed=n), [label]).result().lessons[0].lesson
    sys.stdout.write(f"{lesson} {label} {n}\\n")
    sys.stdout.flush()
ThreadPoolExecutor(4).map(teach, range(10_000))
"""


def test_what_a_process_acknowledged_survives_kill_9(folder):
    tests, source = Path(__file__).parents[2], Path(votestream.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{tests}"}
    command = [sys.executable, "-c", TEACHING, str(folder / "m.safetensors")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        said = [process.stdout.readline() for _ in range(25)]
        process.kill()
        said += process.stdout.readlines()
    history = History()
    for line in said:
        if line.endswith("\n"):
            lesson, label, seed = line.split()
            history.calls[int(lesson)] = learn(label, seed=int(seed))
    model, remarks = opened(folder, EngineSettings())
    assert remarks == []
    assert history.number <= model.number <= history.number + 4  # each thread may have had one under way
    standing = {entry.number: entry for entry in model.journal.entries(0)}
    for number, job in history.calls.items():
        assert standing[number].features.tobytes() == job.rows.tobytes()
    for number, entry in standing.items():
        history.calls.setdefault(number, Learn(entry.features[None], [entry.about["label"]]))
    assert fingerprint(model.learner) == history.fingerprint()
    model.journal.close()


def test_a_restart_gives_the_same_state_as_going_on(folder):
    history = History()
    model, _ = opened(folder)
    many_changes(model, history)
    before = fingerprint(model.learner)
    assert before == history.fingerprint()
    model.journal.close()  # without folding
    again, _ = opened(folder)
    assert fingerprint(again.learner) == before
    again.write_checkpoint()
    assert fingerprint(load(folder / "m.safetensors")) == before
    again.journal.close()


def test_every_number_identifies_a_state_that_predicts_the_same_when_replayed(folder):
    history, views = History(), []
    model, _ = opened(folder)
    rows = learn("cat", "dog", "oak", seed=5).rows
    for jobs in (
        [learn("cat")],
        [learn("dog", "oak")],
        [Undo(2)],
        [learn("dog", seed=4), Rename("oak", "elm")],
        [Undo()],
    ):
        do(model, history, *jobs)
        views.append(model.view)
    for view in views:
        replayed = history.model(view.number)
        answers = view.predict(rows, [9] * 3, [None] * 3, 0.05)
        shares = replayed.predict_proba(rows)
        for answer, share in zip(answers, shares, strict=True):
            assert answer.lesson == view.number
            assert dict(answer.probabilities) == {
                label: round(float(p), 6) for label, p in zip(replayed.classes_.tolist(), share, strict=True)
            }
    model.journal.close()


def test_a_restart_starts_from_the_model_file_where_it_can(folder, monkeypatch):
    model, _ = opened(folder, EngineSettings())
    history = History()
    do(model, history, learn("cat", "dog"))
    model.write_checkpoint()
    do(model, history, learn("oak"))
    model.journal.close()
    made_again = []
    from votestream.serve.engine import recovery

    real = recovery.replay
    monkeypatch.setattr(recovery, "replay", lambda *call: made_again.append(call) or real(*call))
    again, _ = opened(folder, EngineSettings())
    assert len(made_again) == 1
    assert fingerprint(again.learner) == history.fingerprint()
    again.journal.close()


def test_an_undo_of_what_the_model_file_has_survives_a_restart(folder):
    history = History()
    model, _ = opened(folder, EngineSettings())
    do(model, history, learn("cat", "dog", "oak"))
    model.write_checkpoint()
    do(model, history, Undo(2))
    do(model, history, learn("elm"))
    model.journal.close()
    again, remarks = opened(folder, EngineSettings())
    assert remarks == []
    assert fingerprint(again.learner) == history.fingerprint()
    again.journal.close()


def test_a_model_whose_only_lessons_were_undone_is_new_again(folder):
    history = History()
    model, _ = opened(folder)
    do(model, history, learn("cat"))
    model.write_checkpoint()
    assert (folder / "m.safetensors").exists()
    do(model, history, Undo())
    model.write_checkpoint()
    assert not (folder / "m.safetensors").exists()
    model.journal.close()
    again, remarks = opened(folder)
    assert remarks == []
    assert not again.view.fitted
    do(again, history, learn("dog"))
    assert again.view.number == 3
    again.journal.close()


def test_the_journal_and_its_log_stop_growing(folder):
    model, _ = opened(folder)
    sizes = []
    for seed in range(60):
        do(model, History(), learn("cat", "dog", seed=seed))
        if seed % 20 == 19:
            assert model.journal.bytes_on_disk() > (folder / "m.safetensors.lessons").stat().st_size
            model.write_checkpoint()
            assert (folder / "m.safetensors.lessons-wal").stat().st_size == 0
            sizes.append(model.journal.bytes_on_disk())
    assert sizes[1] == sizes[2]
    model.journal.close()
