"""The executors' interface: order, laziness, deaths, threads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

import pytest
import torch

from distributed import work
from votestream.distributed.executor import WorkerDied, executor


@pytest.fixture(scope="module")
def two():
    with executor("processes", 2) as place:
        yield place


@pytest.fixture(params=["here", "processes"])
def place(request, two):
    return two if request.param == "processes" else executor("here")


def test_every_item_has_its_result_under_its_number(place):
    assert sorted(place.run(work.squares, range(7))) == [(i, i * i) for i in range(7)]
    assert list(place.run(work.squares, [])) == []


def test_work_is_done_on_one_thread_and_this_process_keeps_its_own(place):
    before = torch.get_num_threads()
    ((_, (threads, _)),) = place.run(work.threads, [0])
    assert (threads, torch.get_num_threads()) == (1, before)


def test_libraries_of_a_worker_are_loaded_with_one_thread(two):
    assert {told for _, (_, told) in two.run(work.threads, range(4))} == {"1"}


def test_items_are_drawn_as_workers_take_them(place):
    drawn = []
    items = (drawn.append(i) or i for i in range(12))
    for done, _ in enumerate(place.run(work.squares, items)):
        assert len(drawn) <= done + 2 * place.workers


def test_nobody_has_two_items_while_another_has_none(two):
    list(two.run(work.squares, range(4)))
    assert len({pid for _, pid in two.run(work.process, range(2))}) == 2


def test_the_function_is_made_once_in_each_worker(place, tmp_path):
    list(place.run(partial(work.made_once, tmp_path), range(20)))
    assert 1 <= len(list(tmp_path.iterdir())) <= place.workers


def test_a_job_lies_in_one_file_for_all_workers_while_it_runs(two, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    results = two.run(partial(partial, divmod, 7), [2, 3, 4])
    next(results)
    assert len(list(tmp_path.rglob("*.pickle"))) == 1
    assert len(list(results)) == 2
    assert not list(tmp_path.iterdir())
    next(two.run(work.squares, range(9)))  # and nobody asks for the rest
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("on", ["here", "processes"])
def test_an_exception_ends_the_run_and_the_next_run_works(on):
    with executor(on, 1) as one:
        with pytest.raises(ZeroDivisionError):
            list(one.run(work.failing, [0, 1]))
        assert list(one.run(work.squares, [3])) == [(0, 9)]


def test_an_exception_while_the_function_is_made_ends_the_run():
    with pytest.raises(OSError, match="no weights here"):
        list(executor("here").run(work.unmakeable, [1]))


def test_an_item_whose_worker_was_killed_is_given_to_another(two, tmp_path):
    assert sorted(two.run(partial(work.dying, tmp_path, 3, 2), range(8))) == [(i, i) for i in range(8)]
    assert len(list(tmp_path.iterdir())) == 2


def test_an_item_at_which_three_workers_die_is_named(tmp_path):
    with executor("processes", 1) as one, pytest.raises(WorkerDied, match="3 workers died at item 1, 15"):
        list(one.run(partial(work.dying, tmp_path, 15, 99), [14, 15, 16]))


def test_workers_end_with_a_driver_that_was_killed_and_leave_nothing(tmp_path):
    driver = (
        "from distributed import work\n"
        "from votestream.distributed.executor import executor\n"
        "if __name__ == '__main__':\n"
        "    with executor('processes', 1) as place:\n"
        "        for _, pid in place.run(work.process, iter(int, 1)):\n"
        "            print(pid, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        worker = int(running.stdout.readline())
        running.kill()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            assert not list(tmp_path.iterdir())
            return
        time.sleep(0.05)
    pytest.fail("the worker lives on")


@pytest.mark.parametrize(("on", "workers"), [("here", 2), ("processes", 0), ("processes", True), ("clouds", None)])
def test_what_no_executor_is_called_is_refused(on, workers):
    with pytest.raises(ValueError, match=r"workers must be|workers=2 needs|on must be"):
        executor(on, workers)


def test_ray_that_is_not_installed_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "votestream.distributed.ray_executor", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"on='ray' needs the package ray: .*votestream\[ray\]"):
        executor("ray")


WORK = """
from functools import partial
from votestream.distributed.executor import executor
{guard}
    with executor("processes", 2) as place:
        print(sorted(place.run(partial(partial, divmod, 7), [2])))
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_program_without_a_main_guard_is_told_what_to_do(tmp_path):
    for guard, works in (("if True:", False), ("if __name__ == '__main__':", True)):
        (tmp_path / "program.py").write_text(WORK.format(guard=guard))
        ended = subprocess.run(
            [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=60, env=ENVIRONMENT
        )
        assert ended.stdout.endswith("[(0, (3, 1))]\n") is works
        assert (ended.returncode == 0) is works
        assert ("program.py first, but for what stands below `if __name__" in ended.stderr) is not works
        assert "memory" not in ended.stderr
        assert ended.stderr.count("Traceback") == (not works)  # one, and not one of each worker


def test_a_program_from_standard_input_is_told_to_be_a_file():
    ended = subprocess.run(
        [sys.executable, "-"],
        input=WORK.format(guard="if __name__ == '__main__':"),
        capture_output=True,
        text=True,
        timeout=60,
        env=ENVIRONMENT,
    )
    assert ended.returncode == 1
    assert "was not read from a file (<stdin>): save it as a file" in ended.stderr
    assert "memory" not in ended.stderr
