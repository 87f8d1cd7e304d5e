"""How a model file names the backbone it was trained with, and how that backbone is found when the file is loaded."""

from __future__ import annotations

from typing import Any

from votestream.backbones import Backbone, create_backbone
from votestream.io.file_header import checked_backbone
from votestream.io.model_files import ModelFileError


def describe(backbone: Backbone) -> dict[str, Any]:
    """What a model file says of the backbone: enough to make it anew by name, and to tell another one."""
    about = {"name": backbone.name, "digest": backbone.digest, "input_size": backbone.input_size}
    if not backbone.plain:
        about["views"] = [str(view) for view in backbone.views]
    if backbone.stages is not None:
        about["stages"] = list(backbone.stages)
    return about


def find_again(
    about: dict[str, Any], given: str | Backbone | None, device: str | None
) -> tuple[Backbone, str | Backbone]:
    """The backbone that `describe` described, and what it was made from: `given`, or else its name, if that is all."""
    about = checked_backbone(about)
    look: dict[str, list[str]] = {key: about[key] for key in ("views", "stages") if key in about}
    source = about["name"] if given is None else given
    backbone = _make(source, device, look) if isinstance(source, str) else source
    if backbone.digest != about["digest"]:
        raise ModelFileError(
            f"the model was taught through the backbone {about['name']!r} (digest {about['digest'][:12]}), "
            f"but this is {backbone.name!r} (digest {backbone.digest[:12]}), whose features mean something else"
        )
    return backbone, backbone if look else source


def _make(name: str, device: str | None, look: dict[str, list[str]]) -> Backbone:
    try:
        return create_backbone(name, device=device or "auto", **look)
    except ValueError as problem:
        raise ModelFileError(
            f"the model was taught through the backbone {name!r}, which cannot be made here ({problem}); pass "
            "it as vs.load(path, backbone=...)"
        ) from None
