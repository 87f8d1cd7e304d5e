"""Model files with a right checksum and something wrong in them, one thing at a time, for tests of loading."""

from __future__ import annotations

import copy
import warnings

import numpy as np

import golden_files
import votestream as vs
from conftest import ON_FEATURES, same_model

# Every learner, and some of them with other settings.
ON_IMAGES = set(vs.list_learners()).difference(ON_FEATURES)
OFFLINE = {**golden_files.OFFLINE, "budget": 12}
MODELS = {
    **golden_files.MODELS,
    "agem": lambda: vs.AGEM(budget=12, **golden_files.TRAINED),
    "mir": lambda: vs.MIR(budget=12, candidates=8, replay=3, **golden_files.TRAINED),
    "aser": lambda: vs.ASER(budget=12, replay=3, **golden_files.TRAINED),
    "er_without_replay": lambda: vs.ExperienceReplay(replay=0, **golden_files.TRAINED),
    **{name: (lambda name=name: vs.create(name, **OFFLINE)) for name in ("lwf", "eeil", "wa", "kd", "finetune")},
    "joint_images": lambda: vs.JointTraining(**{k: v for k, v in golden_files.OFFLINE.items() if k != "max_waiting"}),
}


def taught(name):
    return golden_files.taught(MODELS[name](), on_images(name))


def on_images(name):
    return name in ON_IMAGES or name == "er_without_replay"


JUNK = [None, True, -1, 0, 1, 7, 10**8, 10**9, 2**63, 10**30, -0.5, 1e300, float("nan"), float("inf"), "", "junk"]
JUNK += [[], [1], [[0, 0]], {}, {"a": 1}]
HUGE = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e300, -1.0, 0.0, 3.5]
INTEGERS = [-1, -(2**62), 0, 3, 10**8, 2**62]
DTYPES = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool", "complex64"]


def mutated(header, arrays, rng):
    """The same with one thing changed, and what was."""
    header, arrays = copy.deepcopy(header), dict(arrays)
    return _in_header(header, arrays, rng) if rng.random() < 0.45 else _in_arrays(header, arrays, rng)


def _in_arrays(header, arrays, rng):
    name = str(rng.choice(sorted(arrays)))
    array = arrays.pop(name)
    how = str(rng.choice(["drop", "rename", "dtype", "shape", "value", "value", "noise", "swap", "extra"]))
    if how == "rename":
        arrays[name[:-1]] = array
    elif how == "dtype":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = array.astype(rng.choice(DTYPES))
    elif how == "shape":
        ways = [array[None], array.reshape(-1), array[:0] if array.ndim else array[None][:0], array[..., None]]
        if array.ndim:
            ways += [array[1:], np.concatenate((array, array)), array.T]
        arrays[name] = ways[rng.integers(len(ways))]
    elif how == "value":
        arrays[name] = _with_values(array, rng)
    elif how == "noise":
        arrays[name] = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
    elif how == "swap":
        other = str(rng.choice(sorted(arrays))) if arrays else name
        arrays[name] = arrays.get(other, array)
    elif how == "extra":
        arrays |= {name: array, f"{name}x": array}
    return header, arrays, f"{how} {name}"


def _with_values(array, rng):
    array = array.copy()
    choices = {"f": HUGE, "i": INTEGERS, "u": [0, 255], "b": [False, True]}[array.dtype.kind]
    value = choices[rng.integers(len(choices))]
    if array.dtype.kind == "i":
        value = int(np.clip(value, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
    with np.errstate(all="ignore"):
        if rng.random() < 0.5 or not array.size:
            array[...] = value
        else:
            array.reshape(-1)[rng.integers(array.size)] = value
    return array


def _in_header(header, arrays, rng):
    places = [place for place in _places(header) if place[-1] != "version"]
    place = places[rng.integers(len(places))]
    holder = header
    for key in place[:-1]:
        holder = holder[key]
    key, old = place[-1], holder[place[-1]]
    how = str(rng.choice(["junk", "junk", "junk", "drop", "twice", "more"]))
    if how == "drop":
        del holder[key]
    elif how == "twice" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(old))
    elif how == "more" and isinstance(old, dict):
        old["more"] = 1
    else:
        how = "junk"
        holder[key] = copy.deepcopy(JUNK[rng.integers(len(JUNK))])
    return header, arrays, f"{how} {'.'.join(map(str, place))} = {holder[key] if how == 'junk' else ''!r}"


def _places(tree, above=()):
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from _places(value, (*above, key))


def check_loads_or_is_refused(path, name):
    """A ModelFileError, or a model that predicts, gives probabilities, learns a row, saves and loads again.

    A network that diverges, by a learning rate out of the file, says so instead.
    """
    try:
        model = vs.load(path, device="cpu")
    except vs.ModelFileError:
        return False
    try:
        _check_works(model, path, name)
    except ValueError as refusal:
        if not (on_images(name) and "has diverged" in str(refusal)):
            raise
    return True


def _check_works(model, path, name):
    X = golden_files.queries(on_images(name))[:3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _check_answers(model, X)
        model.partial_fit(X[:1], model.classes_[-1:].tolist())
        _check_answers(model, X)
    model.save(path)
    assert same_model(model, vs.load(path, device="cpu"))


def _check_answers(model, X):
    shares = model.predict_proba(X)
    assert shares.shape == (len(X), len(model.classes_))
    assert np.isfinite(shares).all()
    assert np.allclose(shares.sum(1), 1)
    assert set(model.predict(X).tolist()) <= set(model.classes_.tolist())
