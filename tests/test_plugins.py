"""What another package brings by entry points is known everywhere; what is broken in it harms nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from votestream.bench.suites import all_suites, find_suite
from votestream.cli.main import app
from votestream.common.plugins import Registry
from votestream.learners import LEARNERS

MODULE = '''
import numpy as np
import torch

import votestream as vs


class Means(vs.NearestClassMean):
    """A learner; its entry point gives it its name."""


@vs.register_keep("last_in")  # a decorator that says the same does no harm
class LastIn:
    """The newest samples stay."""

    class_by_class = False

    def __init__(self, quota, statistics, generator):
        pass

    def grow(self, store, n_classes):
        pass

    def offer(self, store, items, labels, means):
        for item, label in zip(items, labels.tolist()):
            if store.full:
                store.replace(int(store.arrivals.argmin()), item, label)
            else:
                store.add(item, label)

    def state(self):
        return {}

    def restore(self, state, store, n_classes):
        pass


def colours(name, **options):
    pool = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    return vs.from_module(pool, input_size=4, name=name, **options)


def squares(file, **options):
    return vs.from_module(torch.nn.Flatten(), input_size=int(file), name=f"squares:{file}", **options)


def shades(seed, backbone=None, tasks=2, test_share=0.25):
    y = np.repeat(["night", "dusk", "dawn", "day"], 12)
    bright = np.repeat([20, 90, 160, 230], 12)[:, None, None, None]
    X = (bright + np.random.default_rng(0).integers(-20, 21, (48, 4, 4, 3))).astype(np.uint8)
    return vs.stream_from(X, y, tasks=tasks, seed=seed, backbone=backbone, test_share=test_share, name="shades")


def shady(width):
    methods = (vs.Method("Means", "means"), vs.Method("kNN, newest", "knn", {"keep": "last_in", "budget": width}))
    return vs.Suite("shady", "Shades of grey", methods, (vs.StreamSpec("shades"),), backbone="colours", seeds=1)
'''

ENTRY_POINTS = {
    "votestream.learners": {"means": "my_plugin:Means"},
    "votestream.keep_rules": {"last_in": "my_plugin:LastIn"},
    "votestream.backbones": {"colours": "my_plugin:colours", "squares:SIZE": "my_plugin:squares"},
    "votestream.streams": {"shades": "my_plugin:shades"},
    "votestream.suites": {"shady": "my_plugin:shady"},
}


def install(folder: Path, module: str, entry_points: dict, name: str = "my_plugin") -> None:
    """What pip leaves behind: a module, and what it offers."""
    (folder / f"{name}.py").write_text(module)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in entry_points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.setenv("VOTESTREAM_CACHE", str(tmp_path / "cache"))
    install(tmp_path, MODULE, ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_plugin", None)


def command(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


# ---- each kind, everywhere ------------------------------------------------------------------------


def test_a_plug_ins_learner_is_created_saved_loaded_and_listed(plugin, stream, tmp_path):
    model = vs.create("means", device="cpu").partial_fit(stream.X, stream.y)
    model.save(tmp_path / "m.safetensors")
    assert type(vs.load(tmp_path / "m.safetensors")).__module__ == "my_plugin"
    assert "means" in vs.list_learners()


def test_a_file_of_a_plug_ins_learner_is_loaded_before_anything_was_asked_by_name(plugin, stream, tmp_path):
    vs.create("means", device="cpu").partial_fit(stream.X, stream.y).save(tmp_path / "m.safetensors")
    LEARNERS._known.pop("means")
    LEARNERS._tried.clear()  # as in a new process
    assert type(vs.load(tmp_path / "m.safetensors")).__name__ == "Means"


def test_photos_are_taught_to_a_plug_ins_learner_through_a_plug_ins_backbone(plugin):
    for name, shade in (("dark", 30), ("light", 220)):
        Path("photos", name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (8, 8), (shade + i,) * 3).save(f"photos/{name}/{i}.png")
    told = command("learn", "photos", "--model", "m.safetensors", "--learner", "means", "--backbone", "colours")
    assert told.exit_code == 0, told.output
    assert "light" in command("predict", "m.safetensors", "photos/light/0.png").output
    assert vs.load("m.safetensors").learner_.name == "means"


def test_a_plug_ins_backbones_are_created_and_listed_families_too(plugin):
    images = np.zeros((2, 8, 8, 3), np.uint8)
    assert vs.create_backbone("colours", device="cpu")(images).shape == (2, 12)
    assert vs.create_backbone("squares:3", device="cpu")(images).shape == (2, 27)
    assert {"colours", "squares:SIZE"} <= set(vs.list_backbones())


def test_a_plug_ins_stream_is_made_by_name_and_listed(plugin):
    assert len(vs.stream("shades", tasks=4)) == 4
    assert "shades" in vs.list_streams()
    shown = command("stream", "show", "shades", "--tasks", 4)
    assert shown.exit_code == 0, shown.output
    assert "shades: 4 tasks, 4 classes, 36 samples" in shown.output


def test_an_option_that_a_plug_ins_stream_does_not_take_is_named(plugin):
    with pytest.raises(ValueError, match=r"'shades' is shades\(seed, .*unexpected keyword argument 'order'"):
        vs.stream("shades", order=1993)
    told = command("stream", "show", "shades", "--order", 1993)
    assert told.exit_code == 2
    assert "unexpected keyword argument 'order'" in told.output


def test_a_plug_ins_keep_rule_keeps_in_every_learner_that_takes_one(plugin, stream, tmp_path):
    for name in ("candidates_voting", "knn", "er_features"):
        model = vs.create(name, keep="last_in", budget=20, device="cpu").partial_fit(stream.X, stream.y)
        kept = model.exemplars_.features
        assert np.array_equal(kept[np.lexsort(kept.T)], stream.X[-20:][np.lexsort(stream.X[-20:].T)])
        model.save(tmp_path / "m.safetensors")
        assert vs.load(tmp_path / "m.safetensors").keep == "last_in"
    assert "last_in" in vs.list_keep_rules()


def test_a_plug_ins_suite_is_listed_and_run_with_methods_of_the_plug_in(plugin):
    assert "shady" in vs.list_suites()
    assert "Shades of" in command("bench", "list").output
    ended = command("bench", "run", "shady", "--method", "means", "--method", "kNN*", "--jobs", 1)
    assert "2 done in" in ended.output, ended.output
    table = command("bench", "table", "shady").output
    assert "| Means |" in table
    assert "| kNN, newest |" in table


# ---- when, and what if ----------------------------------------------------------------------------


def test_plug_ins_are_neither_searched_nor_imported_before_they_are_needed(plugin):
    script = """
import sys, votestream as vs
import votestream.cli.main
assert "importlib.metadata" not in sys.modules, "entry points were searched"
import numpy as np, votestream.common.plugins
def never(**_): raise AssertionError("entry points were searched")
votestream.common.plugins.entry_points = never
model = vs.create("knn", budget=5, device="cpu").partial_fit(np.eye(4), [0, 1, 2, 3])
model.save("m.safetensors")
vs.load("m.safetensors")
vs.create_backbone("reduced_resnet18", device="cpu")
from votestream.bench.suites import find_suite
find_suite("smoke")
from votestream.model_store.model_file import new_learner
new_learner("slda", None, 0)
print("none was needed", "my_plugin" in sys.modules)
"""
    paths = os.pathsep.join([str(Path(vs.__file__).parents[1]), str(plugin)])
    how = {"cwd": plugin, "env": {**os.environ, "PYTHONPATH": paths}, "timeout": 120}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, **how)
    assert ended.stdout.strip() == "none was needed False", ended.stderr


BROKEN = {
    "does not import": (
        "import no_such_package_at_all",
        "ModuleNotFoundError: No module named 'no_such_package_at_all'",
    ),
    "fails": ("1 / 0", "ZeroDivisionError: division by zero"),
    "leaves": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "has no such thing": ("", "AttributeError: .*no attribute 'Thing'"),
    "is of another kind": ("class Thing: pass", "TypeError: a learner must be a subclass of votestream.Learner"),
    "is nothing to call": ("Thing = 3", "TypeError: it must be a class or a function, got 3"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_named_once_and_the_others_go_on(tmp_path, plugin, case):
    module, complaint = BROKEN[case]
    install(tmp_path, module, {"votestream.learners": {"broken": "bad_plugin:Thing"}}, name="bad_plugin")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vs.create("means")  # another plug-in's name does not even touch it
    with pytest.warns(UserWarning, match=rf"the package bad_plugin brings a learner 'broken' .*{complaint}"):
        known = vs.list_learners()
    assert {"means", "slda"} <= set(known)
    assert "broken" not in known
    with pytest.raises(ValueError, match="no learner is called 'broken'"):
        vs.create("broken")  # and no second warning
    sys.modules.pop("bad_plugin", None)


def test_a_plug_in_cannot_take_a_name_that_comes_with_the_package(tmp_path, monkeypatch):
    points = {
        "votestream.learners": {"slda": "thief:Mine"},
        "votestream.streams": {"split-cifar10": "thief:anything"},
        "votestream.suites": {"online": "thief:anything"},
        "votestream.backbones": {"reduced_resnet18": "thief:anything"},
        "votestream.keep_rules": {"reservoir": "thief:anything"},
    }
    module = "import votestream as vs\nclass Mine(vs.StreamingLDA): pass\ndef anything(*_, **__): pass\n"
    install(tmp_path, module, points, name="thief")
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = (vs.list_learners, vs.list_streams, vs.list_suites, vs.list_backbones, vs.list_keep_rules)
    for names in asked:
        with pytest.warns(UserWarning, match="the package thief brings .* that cannot be used: ValueError"):
            names()
    assert type(vs.create("slda")) is vs.StreamingLDA
    assert vs.StreamingLDA.name == "slda"


def test_a_learner_has_one_name():
    with pytest.raises(ValueError, match="StreamingLDA is registered already, as 'slda'"):
        vs.register("slda_again")(vs.StreamingLDA)
    assert vs.StreamingLDA.name == "slda"
    assert "slda_again" not in vs.list_learners()


def test_threads_that_look_a_plug_in_up_at_once_all_get_it(tmp_path, monkeypatch):
    module = "import time, votestream as vs\ntime.sleep(0.2)\nclass Slow(vs.StreamingLDA): pass\n"
    install(tmp_path, module, {"votestream.learners": {"slow": "slow_plugin:Slow"}}, name="slow_plugin")
    monkeypatch.syspath_prepend(str(tmp_path))
    with ThreadPoolExecutor(4) as threads:
        made = [threads.submit(vs.create, "slow") for _ in range(4)]
    assert [type(each.result()).__name__ for each in made] == ["Slow"] * 4
    sys.modules.pop("slow_plugin", None)


def test_a_plug_in_may_look_names_up_while_it_is_imported(tmp_path, monkeypatch):
    module = "import votestream as vs\nvs.list_learners()\nclass Mine(type(vs.create('slda'))): pass\n"
    install(tmp_path, module, {"votestream.learners": {"curious": "curious_plugin:Mine"}}, name="curious_plugin")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(vs.create("curious")).__name__ == "Mine"
    sys.modules.pop("curious_plugin", None)


def test_a_suite_that_cannot_be_made_is_told_and_the_others_are_listed():
    @vs.register_suite("cracked")
    def cracked(width):
        raise RuntimeError("no such luck")

    with pytest.warns(UserWarning, match="the suite 'cracked' cannot be made: RuntimeError: no such luck"):
        known = all_suites()
    assert "smoke" in [suite.name for suite in known]


def test_a_suite_under_another_name_than_its_own_is_refused():
    vs.register_suite("one")(lambda width: vs.Suite("other", "", (), ()))
    with pytest.raises(ValueError, match="'one' must be made as a Suite of that name"):
        find_suite("one")


def test_what_is_looked_up_may_be_of_any_kind():
    assert [1] not in Registry("thing", {"a": len})
    with pytest.raises(ValueError, match=r"keep must be one of .*, got \['reservoir'\]"):
        vs.NearestNeighbours(keep=["reservoir"]).partial_fit(np.eye(3), [0, 1, 2])
