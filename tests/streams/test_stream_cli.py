"""`votestream stream` tells and draws what a stream brings."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from votestream.cli.main import app
from votestream.cli.stream import STREAMS
from votestream.streams import list_streams
from votestream.streams.plot import class_shares

from .samples import write_cifar10, write_image


def run(*arguments):
    result = CliRunner().invoke(app, ["stream", *map(str, arguments)])
    return result.exit_code, result.output


def test_show_prints_tasks_and_class_order(tmp_path):
    write_cifar10(tmp_path)
    code, text = run("show", "split-cifar10", "--seed", 2, "--data-dir", tmp_path)
    assert code == 0
    stream = vs.stream("split-cifar10", seed=2, data_dir=tmp_path)
    assert str(stream) in text
    assert f"5: 20 samples, new classes {stream.class_order[8]}, {stream.class_order[9]}" in text


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--blurry", 0.2],
        ["--repeated", 0.2],
        ["--long-tail", 10],
        ["--one-class"],
        ["--task-free", 3],
        ["--blurry", 0.1, "--repeated", 0.1, "--long-tail", 2, "--one-class", "--task-free", 2],
    ],
)
def test_plot_draws_every_kind_of_stream(tmp_path, options):
    write_cifar10(tmp_path)
    code, text = run("plot", "split-cifar10", *options, "--out", "plot.png", "--data-dir", tmp_path)
    assert code == 0, text
    assert "Plot: plot.png" in text
    with Image.open("plot.png") as plot:
        colours = np.asarray(plot.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) > 20


def test_shares_add_up_at_every_time():
    stream = vs.blurry(vs.stream_from(np.zeros((60, 1)), np.arange(60) % 6, tasks=3), 0.3)
    shares, edges = class_shares(stream, bins=7)
    assert shares.shape == (6, 7)
    assert np.allclose(shares.sum(0), 1)
    assert (shares * np.diff(edges)).sum(1).tolist() == pytest.approx([10] * 6)


def test_folders_of_any_sizes_can_be_drawn(tmp_path):
    for i, name in enumerate(("cat", "dog")):
        write_image(tmp_path / name / "1.png", 3, (8, 8 + i))
    assert run("plot", f"folder:{tmp_path}", "--tasks", 2)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show", "split-cifar10", "--data-dir", "nowhere"], "votestream data get cifar10"),
        (["show", "split-mnist"], "There is no stream 'split-mnist'"),
        (["plot", "split-cifar10", "--data-dir", "nowhere"], "votestream data get cifar10"),
        (["show", "split-cifar10", "--size", "8"], "works with folder"),
        (["plot", "split-cifar10", "--out", "no/such/folder.png"], "there is no folder"),
    ],
)
def test_errors_are_sentences(arguments, complaint):
    code, text = run(*arguments)
    assert code == 2
    assert complaint in text
    assert "Traceback" not in text


def test_the_help_names_every_stream_there_is() -> None:
    assert list(STREAMS) == list_streams()


def test_a_level_too_high_is_refused_and_yes_takes_it_as_it_is(tmp_path):
    for part in ("round1", "round2"):
        for shade, name in enumerate(("cat", "dog")):
            write_image(tmp_path / part / name / "1.png", shade)
    code, text = run("show", f"folder:{tmp_path}")
    assert code == 2
    assert f"use folder:{tmp_path / 'round1'};" in text
    assert run("show", f"folder:{tmp_path}", "--yes")[0] == 0


def test_thousands_of_classes_do_not_print_thousands_of_names(tmp_path):
    for i in range(220):
        write_image(tmp_path / f"class number {i}" / "1.png", i)
    code, text = run("show", f"folder:{tmp_path}")
    assert code == 0
    assert " ".join(text.split()).count("class number") == 200 + 200
    assert "and 20 more\n" in text
    assert text.endswith("And 10 more tasks.\n")
    assert "and 170 more\n" in run("show", f"folder:{tmp_path}", "--tasks", 1)[1]
