"""How commands end: the same code for the same fault, sentences in place of tracebacks and Python's warnings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import votestream as vs
from painted import paint, run
from streams.samples import write_cifar10
from votestream.bench.results import Results, folder_here
from votestream.photos import training

CHECKOUT = Path(__file__).parents[1]
SOURCE = {"PYTHONPATH": str(Path(vs.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Photos, a model of them, files that are broken, and rows of a suite."""
    folder = tmp_path_factory.mktemp("place")
    for label in ("red", "green"):
        paint(folder / "photos", label, 3)
        paint(folder / "some broken", label, 3)
        (folder / "all broken" / label).mkdir(parents=True)
        (folder / "all broken" / label / "1.jpg").write_text("text")
    (folder / "some broken" / "red" / "broken.jpg").write_text("text")
    (folder / "damaged").write_bytes(b"some bytes")
    run("learn", folder / "photos", "--model", folder / "model", "--backbone", "pixels")
    (folder / "results").mkdir()
    (folder / "results" / "smoke.csv").write_text("no,rows\n")
    return folder


FAULTS = {
    "a folder that is not there": (
        2,
        [
            "learn {0}/none --model {0}/m",
            "stream show folder:{0}/none",
            "stream plot folder:{0}/none",
            "bench show smoke --results {0}/none",
            "bench report --results {0}/none",
            "demo --out {0}/none/demo.png",
            "stream plot folder:{0}/photos --out {0}/none/s.png",
            "bench table smoke --out {0}/none/t.md",
        ],
    ),
    "a file that is not there": (
        2,
        ["predict {0}/none {0}/photos", "predict {0}/model {0}/none.jpg", "inspect {0}/none"],
    ),
    "a file that is damaged": (
        2,
        [
            "learn {0}/photos --model {0}/damaged",
            "predict {0}/damaged {0}/photos",
            "inspect {0}/damaged",
            "bench show smoke --results {0}/results",
            "bench run smoke --results {0}/results",
        ],
    ),
    "no photo that can be read": (
        2,
        [
            "learn {0}/all~broken --model {0}/m --backbone pixels",
            "predict {0}/model {0}/all~broken",
            "stream show folder:{0}/all~broken",
        ],
    ),
    "one photo that cannot be read": (
        1,
        [
            "learn {0}/some~broken --model {0}/m2 --backbone pixels",
            "learn {0}/some~broken --model {0}/m3 --backbone pixels --dry-run",
            "predict {0}/model {0}/some~broken",
            "stream show folder:{0}/some~broken",
            "stream plot folder:{0}/some~broken --out {0}/s.png",
        ],
    ),
    "one file of results that cannot be read": (
        1,
        ["bench list --results {0}/results"],
    ),
    "a value that makes no sense": (
        2,
        [
            "learn {0}/photos --model {0}/m --device abacus",
            "learn {0}/photos --model {0}/m --budget 0",
            "predict {0}/model {0}/photos --device abacus",
            "stream show folder:{0}/photos --blurry 3",
            "stream show folder:{0}/photos --size 0",
            "stream show no-such-stream",
            "data get no-such-data",
            "bench run smoke --device abacus",
            "bench run no-such-suite",
            "bench table no-such-suite",
        ],
    ),
    "data that is not here": (2, ["stream show split-cifar10 --data-dir {0}", "bench run online --data-dir {0}"]),
    "a place where nothing can be written": (
        2,
        [
            "learn {0}/photos --model {0}",
            "bench report --out {0}",
            "stream plot folder:{0}/photos --out {0}",
            "demo --out {0}",
        ],
    ),
    "nothing to do": (0, ["learn {0}/photos --model {0}/model", "cache clear --folder {0}/none", "data list"]),
}


@pytest.mark.parametrize(
    ("fault", "command"), [(fault, command) for fault, (_, commands) in FAULTS.items() for command in commands]
)
def test_the_same_fault_has_the_same_code_in_every_command_and_is_told_in_words(place, fault, command):
    arguments = [part.format(place).replace("~", " ") for part in command.split()]
    result = run(*arguments)
    assert result.exit_code == FAULTS[fault][0], result.output
    assert "Traceback" not in result.output
    assert ".py:" not in result.output
    assert (result.stderr.strip() == "") == (FAULTS[fault][0] == 0)


def test_a_stream_that_is_left_out_of_a_bench_is_as_a_photo_that_is_skipped(monkeypatch):
    from votestream.bench.runner import Progress

    write_cifar10(Path("data"))
    monkeypatch.setattr("votestream.bench.runner.run_all", lambda runs, *_, **__: Progress(len(runs), len(runs)))
    for streams, code in (((), 1), (("--stream", "split-cifar10"), 0)):
        result = run("bench", "run", "online", "--data-dir", "data", *streams)
        assert result.exit_code == code
        assert ("Left out: cifar100 is not in data" in result.stderr) == bool(code)


def test_the_help_of_every_command_that_can_fail_tells_the_codes():
    for command in ("learn", "predict", "inspect", "stream show", "data get", "bench run", "bench table"):
        assert "1 something was skipped" in " ".join(run(*command.split(), "--help").stdout.split())


def test_the_documented_table_is_that_of_the_module():
    from votestream.common import exits

    codes = re.findall(r"^\| (\d+) \|", (CHECKOUT / "docs" / "photos.md").read_text(), re.MULTILINE)
    assert list(map(int, codes)) == [0, exits.PARTLY, exits.NOTHING, exits.INTERRUPTED]


# ---- warnings -----------------------------------------------------------------------------------


def test_a_warning_is_one_plain_line_however_often_it_was_given(place, monkeypatch):
    from votestream.photos import predictions

    real = predictions.decode_photos

    def warning(*arguments):
        for reading in real(*arguments):
            warnings.warn("this plot is odd,\nbut was read", stacklevel=1)
            warnings.warn("for programmers", DeprecationWarning, stacklevel=1)
            yield reading

    monkeypatch.setattr(predictions, "decode_photos", warning)
    result = run("predict", place / "model", place / "photos")
    assert (result.exit_code, result.stderr) == (0, "note: this plot is odd, but was read\n")


# ---- results of the checkout --------------------------------------------------------------------


@pytest.fixture
def from_checkout(monkeypatch):
    """As where the package was installed with -e, whatever it was installed from here."""
    monkeypatch.setattr("votestream.bench.results.CHECKOUT", CHECKOUT)


def test_the_checkouts_results_are_found_from_any_folder_and_that_is_said(from_checkout):
    result = run("bench", "table", "smoke")
    assert result.exit_code == 0
    assert (
        result.stderr
        == f"note: results are read from {CHECKOUT / 'results' / 'accuracy'}: there are none in this folder.\n"
    )
    assert "| GaussianVoting |" in result.stdout
    assert not Path("results").exists()


def test_without_a_checkout_it_is_said_where_to_stand(tmp_path, monkeypatch):
    monkeypatch.setattr("votestream.bench.results.CHECKOUT", tmp_path)
    for command in (["show", "smoke"], ["table", "smoke"], ["plot", "smoke"], ["report"], ["report", "smoke"]):
        result = run("bench", *command)
        assert result.exit_code == 2
        assert "There is no folder `results` here" in result.stderr
        assert "name it by --results" in result.stderr
    assert run("bench", "list").exit_code == 0


def test_results_of_this_folder_come_first_and_those_of_the_checkout_are_named(from_checkout):
    Results("results/smoke.csv").append({"method": "mine", "seed": 0, "Last": 48.7, "stream": "sample"})
    result = run("bench", "table", "online")
    assert result.exit_code == 2
    assert "There are no rows in results/online.csv" in result.stderr
    assert f"The checkout's are in {CHECKOUT / 'results' / 'accuracy'}" in result.stderr
    assert "note" not in run("bench", "table", "smoke").stderr


def test_in_a_checkout_rows_are_written_beside_those_of_the_other_suites():
    assert folder_here() == Path("results")
    Path("results/accuracy").mkdir(parents=True)
    assert folder_here() == Path("results/accuracy")
    Results("results/accuracy/smoke.csv").append({"method": "mine", "seed": 0, "Last": 48.7, "stream": "sample"})
    assert "| mine |" in run("bench", "table", "smoke").stdout
    result = run("bench", "table", "online")
    assert "There are no rows in results/accuracy/online.csv: `votestream bench run online` makes" in result.stderr


# ---- Ctrl-C -------------------------------------------------------------------------------------

STOPPED = """
import signal, sys
from votestream.photos import training

def press(*arguments, real=training.decode_photos):
    signal.raise_signal(signal.SIGINT)
    return real(*arguments)

training.decode_photos = press
from votestream.cli.main import app
app(sys.argv[1:])
"""


@pytest.fixture
def interruptible():
    """Ctrl-C is heard, also where the tests run behind a shell that has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pressed(monkeypatch, function):
    """Ctrl-C just before a function is called."""
    real = getattr(training, function)

    def press(*arguments, **how):
        signal.raise_signal(signal.SIGINT)
        return real(*arguments, **how)

    monkeypatch.setattr(training, function, press)


@pytest.mark.parametrize("function", ["check_model_path", "open_model", "decode_photos"])
@pytest.mark.parametrize("there", [False, True])
def test_ctrl_c_before_the_first_batch_claims_nothing(place, tmp_path, monkeypatch, interruptible, function, there):
    model = tmp_path / "model"
    if there:
        model.write_bytes((place / "model").read_bytes())
        paint(tmp_path / "more", "blue", 2)
    pressed(monkeypatch, function)
    result = run("learn", tmp_path / "more" if there else place / "photos", "--model", model)
    state = f"{model} is unchanged" if there else "there is no model yet"
    told = f"Interrupted before anything was learned: {state}.\n" if function == "decode_photos" else "Interrupted.\n"
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", told)
    assert {path.name for path in tmp_path.iterdir()} == ({"model", "more"} if there else set())
    if there:
        assert model.read_bytes() == (place / "model").read_bytes()


def test_a_process_stopped_before_the_first_batch_says_so_and_leaves_nothing(place, tmp_path):
    command = [sys.executable, "-c", STOPPED, "learn", str(place / "photos"), "--model", str(tmp_path / "m")]
    done = subprocess.run(command, env={**os.environ, **SOURCE}, capture_output=True, text=True, timeout=100)
    told = "Interrupted before anything was learned: there is no model yet.\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", told)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_elsewhere_is_the_same_word_and_code(monkeypatch, place):
    def press(*_, **__):
        raise KeyboardInterrupt

    for name in ("streams.stream", "streams.get.get_data", "model_store.model_file.load", "photos.report.read"):
        monkeypatch.setattr(f"votestream.{name}", press)
    for command in ("stream show x", "data get cifar10", "predict {0}/model {0}/photos", "inspect {0}/model"):
        result = run(*(part.format(place) for part in command.split()))
        assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")
