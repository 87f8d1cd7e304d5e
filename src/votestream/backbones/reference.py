"""The description of a backbone in a model file, and the backbone made again from it."""

from __future__ import annotations

from typing import Any

from votestream.backbones import Backbone, create_backbone
from votestream.io.file_header import checked_backbone
from votestream.io.model_files import ModelFileError


def describe(backbone: Backbone) -> dict[str, Any]:
    """Describe a backbone for a model file: its name and options to make it again, and its digest to check it."""
    about = {"name": backbone.name, "digest": backbone.digest, "input_size": backbone.input_size}
    if not backbone.plain:
        about["views"] = [str(view) for view in backbone.views]
    if backbone.stages is not None:
        about["stages"] = list(backbone.stages)
    return about


def find_again(
    about: dict[str, Any], given: str | Backbone | None, device: str | None
) -> tuple[Backbone, str | Backbone]:
    """Make the backbone that `describe` described; also returns its source: `given`, its name, or the backbone."""
    about = checked_backbone(about)
    options: dict[str, Any] = {key: about[key] for key in ("views", "stages") if key in about}
    source = about["name"] if given is None else given
    backbone = _make(source, device, options) if isinstance(source, str) else source
    if backbone.digest != about["digest"]:
        raise ModelFileError(
            f"the model was trained with the backbone {about['name']!r} (digest {about['digest'][:12]}), "
            f"but this is {backbone.name!r} (digest {backbone.digest[:12]}), whose features are different"
        )
    return backbone, backbone if options else source


def _make(name: str, device: str | None, options: dict[str, Any]) -> Backbone:
    try:
        return create_backbone(name, device=device or "auto", **options)
    except ValueError as problem:
        raise ModelFileError(
            f"the model was trained with the backbone {name!r}, which cannot be made here ({problem}); pass "
            "it as vs.load(path, backbone=...)"
        ) from None
