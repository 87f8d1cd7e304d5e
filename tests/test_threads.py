"""Threads may predict while another learns: answers are those of some whole call, and nothing leaks."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

import votestream as vs
from conftest import ON_FEATURES, Stream, make_on_features, same_model
from painted import run
from votestream.backbones import from_torch
from votestream.common.cores import WAITING
from votestream.compute.place import one_thread, torch_threads


def together(*jobs):
    """Run them at once; the first error of any."""
    errors = []

    def run(job):
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("name", ON_FEATURES)
def test_answers_during_learning_are_those_of_a_model_between_two_calls(name):
    stream = Stream(n=40)
    calls = [(stream.X[i : i + 8], stream.y[i : i + 8]) for i in range(0, len(stream.X), 8)]
    model, steady, allowed = make_on_features(name)(), make_on_features(name)(), set()
    queries = stream.X[::30]
    for X, y in calls:
        allowed.add(steady.partial_fit(X, y).predict_proba(queries).tobytes())
    model.partial_fit(*calls[0])
    done, given = threading.Event(), []

    def learn():
        try:
            for X, y in calls[1:]:
                model.partial_fit(X, y)
        finally:
            done.set()

    def ask():
        while not done.is_set():
            given.append(model.predict_proba(queries).tobytes())
            model.classes_, model.memory_bytes()

    together(learn, ask, ask)
    assert set(given) <= allowed
    assert same_model(model, steady)
    assert model.predict_proba(queries).tobytes() == steady.predict_proba(queries).tobytes()


def test_two_threads_that_learn_lose_nothing():
    stream = Stream()
    model = vs.NearestClassMean(device="cpu")

    def learn(rows):
        for i in rows:
            model.partial_fit(stream.X[i : i + 1], stream.y[i : i + 1])

    together(*(lambda part=part: learn(range(part, len(stream.X), 4)) for part in range(4)))
    assert model.class_counts_.sum() == len(stream.X)


def test_a_file_saved_during_learning_is_a_model_between_two_calls(tmp_path):
    stream = Stream()
    model = vs.CandidatesVoting(device="cpu").partial_fit(stream.X[:10], stream.y[:10])
    done, counts = threading.Event(), []

    def learn():
        for i in range(10, len(stream.X), 10):
            model.partial_fit(stream.X[i : i + 10], stream.y[i : i + 10])
        done.set()

    def save():
        while not done.is_set():
            model.save(tmp_path / "m.safetensors")
            counts.append(int(vs.load(tmp_path / "m.safetensors").class_counts_.sum()))

    together(learn, save)
    assert all(count % 10 == 0 for count in counts)


def test_a_network_that_learns_is_not_asked_half_trained(stream):
    from conftest import ImageStream, make_on_network

    images = ImageStream(n=30)
    model, steady, allowed = make_on_network("er")(), make_on_network("er")(), []
    for X, y in images.batches(15):
        steady.partial_fit(X, y)
        allowed.append(steady.predict_proba(images.X[:3]).tobytes())
    first, *rest = images.batches(15)
    model.partial_fit(*first)
    done, given = threading.Event(), []

    def learn():
        for X, y in rest:
            model.partial_fit(X, y)
        done.set()

    def ask():
        while not done.is_set():
            given.append(model.predict_proba(images.X[:3]).tobytes())

    together(learn, ask)
    assert set(given) <= set(allowed)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_its_threads_back_whatever_order_threads_come_and_go():
    before = blas_threads()
    with one_thread(), one_thread():
        assert set(blas_threads()) == {1}
    for first_leaves_first in (True, False):
        first_in, second_in, first_out, second_out = (threading.Event() for _ in range(4))

        def first(first_leaves_first=first_leaves_first, events=(first_in, second_in, first_out, second_out)):
            with one_thread():
                events[0].set()
                events[1 if first_leaves_first else 3].wait(10)
            events[2].set()

        def second(first_leaves_first=first_leaves_first, events=(first_in, second_in, first_out, second_out)):
            events[0].wait(10)
            with one_thread():
                events[1].set()
                if first_leaves_first:
                    events[2].wait(10)
            events[3].set()

        together(first, second)
        assert blas_threads() == before
        other = threading.Thread(target=second)
        other.start()
        first()  # in the thread that set the limit before
        other.join()
        assert blas_threads() == before


@pytest.mark.parametrize("name", ON_FEATURES)
def test_predicting_writes_nothing_into_what_was_learned(name, stream):
    """As joblib hands models to its workers: every array a read-only memory map."""
    model = make_on_features(name)().partial_fit(stream.X, stream.y)
    frozen = pickle.loads(pickle.dumps(model))
    for array in arrays_of(frozen, set()):
        array.flags.writeable = False
    assert np.array_equal(frozen.predict_proba(stream.X), model.predict_proba(stream.X))
    assert same_model(copy.deepcopy(frozen), model)


def arrays_of(value, seen):
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    for part in (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, (list, tuple))
        else vars(value).values()
        if type(value).__module__.startswith("votestream.")
        else ()
    ):
        yield from arrays_of(part, seen)


@pytest.mark.parametrize(
    ("chosen", "used"),
    [({}, {"GOMP_SPINCOUNT": "3000"}), ({"OMP_WAIT_POLICY": "active"}, {}), ({"GOMP_SPINCOUNT": "7"}, {})],
)
def test_the_command_has_threads_wait_in_peace_unless_somebody_chose(monkeypatch, chosen, used):
    others = {name: value for name, value in os.environ.items() if name not in WAITING}
    monkeypatch.setattr(os, "environ", {**others, **chosen})
    assert run("cache", "list").exit_code == 0
    assert {name: value for name, value in os.environ.items() if name in WAITING} == {**chosen, **used}


def test_a_backbone_is_made_on_one_thread_and_leaves_as_many_as_it_found(monkeypatch):
    seen, fold = [], from_torch.fold_batch_norms
    monkeypatch.setattr(
        from_torch, "fold_batch_norms", lambda *given: seen.append(torch.get_num_threads()) or fold(*given)
    )
    with torch_threads(2):
        vs.create_backbone("reduced_resnet18", device="cpu")
        assert torch.get_num_threads() == 2
    assert seen == [1]


def test_threads_that_limit_torch_at_once_leave_the_usual_number_behind():
    first_in, both_in, left = threading.Event(), threading.Event(), []

    def first():
        with torch_threads(1):
            first_in.set()
            both_in.wait(10)

    def second():
        first_in.wait(10)
        with torch_threads(1):
            both_in.set()
            one.join(10)  # the first leaves before
            with torch_threads(2):
                pass
            left.append(torch.get_num_threads())

    one, other = threading.Thread(target=first), threading.Thread(target=second)
    after = threading.Thread(target=lambda: left.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(3)  # what is usual
    try:
        for thread in (one, other):
            thread.start()
        other.join(20)
        after.start()
        after.join()
    finally:
        torch.set_num_threads(before)
    assert left == [1, 3]


def forked(job):
    """What job() returns in a forked process, a small number; None if it hangs."""
    child = os.fork()
    if not child:
        try:
            os._exit(job())
        finally:
            os._exit(99)
    for _ in range(1000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


RIGHT, REFUSED = 1, 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_process_forked_while_a_thread_learns_never_hangs_and_answers_right_or_refuses(stream):
    model = make_on_features("gaussian_voting")().partial_fit(stream.X, stream.y)
    snapshot, expected = model.snapshot(), model.predict(stream.X)
    over = threading.Event()

    def learn():
        while not over.is_set():
            model.partial_fit(stream.X, stream.y)

    def ask():
        with one_thread():
            handed_over = (snapshot.predict(stream.X) == expected).all()
            afresh = make_on_features("gaussian_voting")().fit(stream.X, stream.y).predict(stream.X)
        if not (handed_over and (afresh == expected).all()):
            return 0
        refusals = 0
        for call in (
            model.predict,
            model.predict_proba,
            lambda X: model.partial_fit(X, stream.y),
            copy.deepcopy(model).predict,
        ):
            try:
                call(stream.X)
            except RuntimeError as refusal:
                refusals += "forked while another thread used this GaussianVoting" in str(refusal)
        known = model.fit(stream.X, stream.y).predict(stream.X)  # forgets everything, so it may
        return {0: RIGHT, 4: REFUSED}.get(refusals, 0) if (known == expected).all() else 0

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        told = [forked(ask) for _ in range(15)]
    finally:
        over.set()
        thread.join()
    assert set(told) <= {RIGHT, REFUSED}
    assert REFUSED in told
