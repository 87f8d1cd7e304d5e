"""Opening a model of photos: from its file, or as a new model with a backbone and a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from votestream.backbones import Backbone, BackboneUnavailable, create_backbone
from votestream.backbones.default_backbone import FOR_PHOTOS, FOR_SMALL, choose_backbone
from votestream.backbones.presets import resolve_presets
from votestream.backbones.reference import describe
from votestream.backbones.stages import as_names
from votestream.common.validation import as_device
from votestream.core.files import copied
from votestream.images.urls import Place
from votestream.io.model_files import ModelFileError
from votestream.learners import LEARNERS, Learner, create, list_learners, load
from votestream.model_store.paths import ModelStoreError, as_sentence
from votestream.pipeline import ImageClassifier

DEFAULT_LEARNER = "gaussian_voting"
# The device of the learner; a GPU runs only the backbone. Training on one photo is too little work to be sent to a GPU:
# on an H200 it took 3.5 ms and more, and extracting the photo's features 0.1 ms.
LEARNER_DEVICE = "cpu"


class OpenedModel(NamedTuple):
    """A model to train further, and a remark on its backbone for the user."""

    backbone: Backbone
    learner: Learner
    remark: str = ""


def open_model(path: Path, settings: dict[str, Any], seed: int, photos: Sequence[Place]) -> OpenedModel:
    """The model in the file, or a new one with a backbone that suits the photos."""
    device = settings["device"]
    if not path.exists():
        check_device(device)
        learner = new_learner(settings["learner"] or DEFAULT_LEARNER, settings["budget"], seed)
        return _new_model(settings, learner, photos)
    model = load_image_model(path, device)
    check_unchanged(path, describe(model.backbone_), model.learner_, settings)
    check_counts(path, model, "only Python can train it further")
    return OpenedModel(model.backbone_, model.learner_, _better_backbone(path, model.backbone_, photos))


def check_counts(path: Path, model: ImageClassifier, instead: str) -> None:
    """Raise ModelStoreError if the model does not count the photos of each class, as the commands need."""
    if not hasattr(model.learner_, "class_counts_"):
        raise ModelStoreError(f"{path} uses the learner {model.learner_.name}, which counts no photos: {instead}.")


def _new_model(settings: dict[str, Any], learner: Learner, photos: Sequence[Place]) -> OpenedModel:
    name, remark = settings["backbone"], ""
    options = {key: settings[key] for key in ("views", "stages") if settings[key] is not None}
    if name is None:
        choice = choose_backbone(photos)
        name, remark = choice.name, f"The backbone is {choice.name}, because {choice.reason}; --backbone names another."
        if choice.stages is not None and not options and learner.name == DEFAULT_LEARNER:
            options = {"stages": choice.stages}
    try:
        return OpenedModel(create_backbone(name, device=settings["device"] or "auto", **options), learner, remark)
    except (ValueError, BackboneUnavailable) as problem:
        raise ModelStoreError(as_sentence(problem)) from None


def _better_backbone(path: Path, backbone: Backbone, photos: Sequence[Place]) -> str:
    """A hint if the photos are much larger than the images that the model's backbone reads."""
    if backbone.name != FOR_SMALL or choose_backbone(photos).name == FOR_SMALL:
        return ""
    return (
        f"{path} reads photos at {backbone.input_size} x {backbone.input_size} pixels, and these are larger: a new "
        f"model, trained on all photos with --backbone {FOR_PHOTOS}, would use more of them (see docs/photos.md)."
    )


def check_unchanged(path: Path, about: dict[str, Any] | None, learner: Learner, settings: Mapping[str, Any]) -> None:
    """Raise ModelStoreError if a setting differs from what the model was made with, which cannot change.

    `about` describes its backbone, as `describe` does; None if it was trained on rows of numbers.
    """
    budget = getattr(learner, "budget", None)
    given = [name for name in ("backbone", "preset", "views", "stages") if settings.get(name) is not None]
    if about is None:
        made, option = "trained on rows of numbers", f"--{given[0]}" if given else ""
    else:
        made, option = _other_backbone(about, settings)
    if not option and settings["learner"] not in (None, learner.name):
        made, option = f"made with the learner {learner.name}, which cannot change", "--learner"
    elif not option and settings["budget"] not in (None, budget):
        kept = f"a budget of {budget}, which cannot change" if budget else f"{learner.name}, which keeps no exemplars"
        made, option = f"made with {kept}", "--budget"
    if option:
        raise ModelStoreError(f"{path} was {made}: leave {option} out, or name another file for a new model.")


def _other_backbone(about: dict[str, Any], settings: Mapping[str, Any]) -> tuple[str, str]:
    """What a model's backbone is, and the option that asks for another; no option if none does."""
    backbone, own = about["name"], about.get("stages")
    own_views = about.get("views", [str(about["input_size"])])
    if settings["backbone"] not in (None, backbone):
        return f"made with the backbone {backbone}, not {settings['backbone']}", "--backbone"
    try:
        options = resolve_presets(backbone, settings["views"], settings["stages"])
    except ValueError as problem:
        raise ModelStoreError(as_sentence(problem)) from None
    views, stages = (as_names(options[key], key) if key in options else None for key in ("views", "stages"))
    preset = "--preset" if settings.get("preset") else ""  # the views and stages come from it
    if views not in (None, tuple(own_views)):
        return f"made with the views {','.join(own_views)}", preset or "--views"
    if stages not in (None, own and tuple(own)):
        return f"made with {'the stages ' + ','.join(own) if own else 'no stages named'}", preset or "--stages"
    return "", ""


def new_learner(name: str, budget: int | None, seed: int) -> Learner:
    """An untrained learner for photos; where it can, it stores no single photo's features in the file."""
    if name not in LEARNERS or not learns_photos(LEARNERS[name]):
        raise ModelStoreError(f"There is no learner for photos called {name}: choose {', '.join(photo_learners())}.")
    takes = LEARNERS[name]._get_param_names()
    options: dict[str, Any] = {"seed": seed, "device": LEARNER_DEVICE}
    if budget is not None:
        if "budget" not in takes:
            keeping = [choice for choice in photo_learners() if "budget" in LEARNERS[choice]._get_param_names()]
            raise ModelStoreError(
                f"{name} keeps no exemplars, so it has no budget: leave --budget out, or choose a learner that "
                f"keeps them, {' or '.join(keeping)}."
            )
        options["budget"] = budget
    if "track" in takes:
        options["track"] = True  # test each photo before training on it
    if "block" in takes:
        options["block"] = 1  # row by row is slower, but takes little time beside feature extraction
    return create(name, **options)


def photo_learners() -> list[str]:
    """Names of the learners that `votestream learn` accepts.

    >>> {"gaussian_voting", "slda"} <= set(photo_learners()), {"image_classifier", "joint"} & set(photo_learners())
    (True, set())
    """
    return [name for name in list_learners() if learns_photos(LEARNERS[name])]


def learns_photos(learner: type[Learner]) -> bool:
    """Whether the learner takes features and counts its samples, so that the sidecar can be checked against it.

    Learners that store every sample are excluded: their files would hold every photo's features.
    """
    return learner.input == "features" and learner.bounded and hasattr(learner, "class_counts_")


def load_image_model(path: Path, device: str | None) -> ImageClassifier:
    """Load a model of photos, or raise ModelStoreError that says why it cannot be used; `device` is the backbone's."""
    check_device(device)
    try:
        model = load(path, device)
    except (ModelFileError, FileNotFoundError) as problem:
        raise ModelStoreError(as_sentence(problem)) from None
    except (ValueError, BackboneUnavailable, OSError) as problem:
        raise ModelStoreError(f"{path} cannot be used here: {as_sentence(problem)}") from None
    if not isinstance(model, ImageClassifier):
        raise ModelStoreError(f"{path} was trained on features in Python, not on photos: only Python can use it.")
    if as_device(model.learner_.device) != as_device(LEARNER_DEVICE):
        model = ImageClassifier(model.backbone_, copied(model.learner_, LEARNER_DEVICE))
    return model


def check_device(device: str | None) -> None:
    """Raise ModelStoreError if there is no such device here."""
    try:
        as_device(device or "auto")
    except ValueError as problem:
        raise ModelStoreError(as_sentence(problem)) from None
