"""Opening the model that photos are taught to or asked of: the one in the file, or a new one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from votestream.backbones import Backbone, BackboneUnavailable, create_backbone
from votestream.backbones.choosing import FOR_PHOTOS, FOR_SMALL, choose_backbone
from votestream.backbones.looks import chosen
from votestream.backbones.reference import describe
from votestream.backbones.stages import as_names
from votestream.common.validation import as_device
from votestream.core.files import copied
from votestream.images.urls import Place
from votestream.io.model_files import ModelFileError
from votestream.learners import LEARNERS, Learner, create, list_learners, load
from votestream.photos.finding import PhotoError
from votestream.pipeline import ImageClassifier

LEARNER = "gaussian_voting"
# Where photos are learned; a GPU is for the network. A photo brings too little work to be sent there: on an H200 a
# photo's lesson took 3.5 ms and more, and looking at it 0.1 ms.
LEARNS_ON = "cpu"


def check_target(path: Path) -> None:
    """Complain about a place that no model can be written to, before any photo is read."""
    if path.is_dir():
        raise PhotoError(f"{path} is a folder: name the model file, such as {path / 'model.safetensors'}.")
    if path.is_symlink():
        raise PhotoError(f"{path} is a link that leads back to itself: name the model file.")
    if not path.parent.is_dir():
        raise PhotoError(f"There is no folder {path.parent} for the model {path.name}.")
    for place in (path.parent, path):
        if place.exists() and not os.access(place, os.W_OK):
            raise PhotoError(f"{place} is write-protected: the model could not be saved.")


class Opened(NamedTuple):
    """A model to go on with, and what is to be said about the way it looks at these photos."""

    backbone: Backbone
    learner: Learner
    remark: str = ""


def open_model(path: Path, settings: dict[str, Any], seed: int, photos: Sequence[Place]) -> Opened:
    """The model in the file with the backbone it was taught through, or a new one that suits the photos."""
    device = settings["device"]
    if not path.exists():
        check_device(device)
        learner = new_learner(settings["learner"] or LEARNER, settings["budget"], seed)
        return _new(settings, learner, photos)
    model = load_on_photos(path, device)
    check_unchanged(path, describe(model.backbone_), model.learner_, settings)
    if not hasattr(model.learner_, "class_counts_"):
        raise PhotoError(f"{path} was begun with {model.learner_.name}, which counts no photos: only Python can go on.")
    return Opened(model.backbone_, model.learner_, _better(path, model.backbone_, photos))


def _new(settings: dict[str, Any], learner: Learner, photos: Sequence[Place]) -> Opened:
    name, remark = settings["backbone"], ""
    look = {key: settings[key] for key in ("views", "stages") if settings[key] is not None}
    if name is None:
        choice = choose_backbone(photos)
        name, remark = choice.name, f"The backbone is {choice.name}, as {choice.reason}; --backbone names another."
        if choice.stages is not None and not look and learner.name == LEARNER:
            look = {"stages": choice.stages}
    try:
        return Opened(create_backbone(name, device=settings["device"] or "auto", **look), learner, remark)
    except (ValueError, BackboneUnavailable) as problem:
        raise PhotoError(as_sentence(problem)) from None


def _better(path: Path, backbone: Backbone, photos: Sequence[Place]) -> str:
    """A word about photos that the model's backbone sees much less of than another one would."""
    if backbone.name != FOR_SMALL or choose_backbone(photos).name == FOR_SMALL:
        return ""
    return (
        f"{path} looks at photos in {backbone.input_size} x {backbone.input_size} pixels, and these are larger: a new "
        f"model, taught all photos anew with --backbone {FOR_PHOTOS}, would see more (docs/photos.md tells how)."
    )


def check_unchanged(path: Path, about: dict[str, Any] | None, learner: Learner, settings: Mapping[str, Any]) -> None:
    """What a model was begun with stays: a wish for something else is not passed over.

    `about` is what `describe` says of its backbone; None where it was taught rows of numbers.
    """
    budget = getattr(learner, "budget", None)
    wished = [name for name in ("backbone", "views", "stages") if settings[name] is not None]
    if about is None:
        begun, option = "taught rows of numbers", f"--{wished[0]}" if wished else ""
    else:
        begun, option = _other_look(about, settings)
    if not option and settings["learner"] not in (None, learner.name):
        begun, option = f"begun with the learner {learner.name}, which stays", "--learner"
    elif not option and settings["budget"] not in (None, budget):
        kept = f"a budget of {budget}, which stays" if budget else f"{learner.name}, which keeps no exemplars"
        begun, option = f"begun with {kept}", "--budget"
    if option:
        raise PhotoError(f"{path} was {begun}: leave {option} out, or name another file for a new model.")


def _other_look(about: dict[str, Any], settings: Mapping[str, Any]) -> tuple[str, str]:
    """What a model's backbone is, and the option that asks for another; no option where none does."""
    backbone, own = about["name"], about.get("stages")
    own_views = about.get("views", [str(about["input_size"])])
    if settings["backbone"] not in (None, backbone):
        return f"taught through the backbone {backbone}, not {settings['backbone']}", "--backbone"
    look = chosen(backbone, settings["views"], settings["stages"])
    views, stages = (as_names(look[key], key) if key in look else None for key in ("views", "stages"))
    if views not in (None, tuple(own_views)):
        return f"taught with the views {','.join(own_views)}", "--views"
    if stages not in (None, own and tuple(own)):
        return f"taught with {'the stages ' + ','.join(own) if own else 'no stages named'}", "--stages"
    return "", ""


def new_learner(name: str, budget: int | None, seed: int) -> Learner:
    """A learner that has learned nothing yet, and that lets no photo's features wait in the file if it can."""
    if name not in LEARNERS or not learns_photos(LEARNERS[name]):
        raise PhotoError(f"No learner for photos is called {name}: there are {', '.join(photo_learners())}.")
    takes = LEARNERS[name]._get_param_names()
    options: dict[str, Any] = {"seed": seed, "device": LEARNS_ON}
    if budget is not None:
        if "budget" not in takes:
            keeping = [choice for choice in photo_learners() if "budget" in LEARNERS[choice]._get_param_names()]
            raise PhotoError(
                f"{name} keeps no exemplars that a budget could count: leave --budget out, or choose a learner that "
                f"keeps them, {' or '.join(keeping)}."
            )
        options["budget"] = budget
    if "track" in takes:
        options["track"] = True  # tested on each photo before it is learned
    if "block" in takes:
        options["block"] = 1  # folding rows in one by one is slower, but next to looking at a photo it is nothing
    return create(name, **options)


def photo_learners() -> list[str]:
    """Names of the learners that `votestream learn` takes.

    >>> {"gaussian_voting", "slda"} <= set(photo_learners()), {"image_classifier", "joint"} & set(photo_learners())
    (True, set())
    """
    return [name for name in list_learners() if learns_photos(LEARNERS[name])]


def learns_photos(learner: type[Learner]) -> bool:
    """Whether it takes a backbone's features, and counts them: so we know which photos are learned.

    Not those without bounds, whose files would hold every photo's features.
    """
    return learner.input == "features" and learner.bounded and hasattr(learner, "class_counts_")


def load_on_photos(path: Path, device: str | None) -> ImageClassifier:
    """A saved model on photos, or a sentence that says why there is none; the device is the network's."""
    check_device(device)
    try:
        model = load(path, device)
    except (ModelFileError, FileNotFoundError) as problem:
        raise PhotoError(as_sentence(problem)) from None
    except (ValueError, BackboneUnavailable, OSError) as problem:
        raise PhotoError(f"{path} cannot be used here: {as_sentence(problem)}") from None
    if not isinstance(model, ImageClassifier):
        raise PhotoError(f"{path} was taught on features from Python, not on photos: only Python can go on with it.")
    if as_device(model.learner_.device) != as_device(LEARNS_ON):
        model = ImageClassifier(model.backbone_, copied(model.learner_, LEARNS_ON))
    return model


def check_device(device: str | None) -> None:
    try:
        as_device(device or "auto")
    except ValueError as problem:
        raise PhotoError(as_sentence(problem)) from None


def as_sentence(problem: Exception) -> str:
    text = str(problem)
    return text if text.endswith(".") else f"{text}."
