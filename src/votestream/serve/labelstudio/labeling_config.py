"""Label Studio's labeling interface: its choices, and the image that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from votestream.serve.engine.messages import BadRequest

MAX_CONFIG_LENGTH = 1_000_000


@dataclass(frozen=True)
class Choices:
    """A `<Choices>` tag that classifies an `<Image>`."""

    name: str
    image: str  # the name of the image tag
    key: str  # the field with the image in the data of a task
    values: frozenset[str] | None  # the choices, as in results; None if each task has its own

    def image_of(self, task: dict[str, Any]) -> object:
        """The image of a task, as its data gives it."""
        data = task.get("data")
        return data.get(self.key) if isinstance(data, dict) else None

    def label_of(self, annotation: dict[str, Any]) -> str | None:
        """The label of an annotation. None if it is skipped or empty. Raises BadRequest if it has no single choice."""
        results = annotation.get("result", [])
        if annotation.get("was_cancelled"):
            return None
        for result in results if isinstance(results, list) else [results]:
            if not isinstance(result, dict):
                raise BadRequest("The results of an annotation must be JSON objects.")
            if result.get("from_name") == self.name and result.get("type") == "choices":
                value = result.get("value")
                chosen = value.get("choices") if isinstance(value, dict) else None
                if isinstance(chosen, list) and len(chosen) == 1 and isinstance(chosen[0], str):
                    return chosen[0]
                raise BadRequest("An annotation must choose one class.")
        return None


def choices_of(config: object) -> Choices:
    """The first choices for an image in a labeling interface.

    A choice with an alias has that name in results, while users see its value.

    >>> choices_of('<View><Image name="i" value="$photo"/><Choices name="c" toName="i">'
    ...            '<Choice value="Eiche" alias="oak"/></Choices></View>')
    Choices(name='c', image='i', key='photo', values=frozenset({'oak'}))
    """
    if not isinstance(config, str) or len(config) > MAX_CONFIG_LENGTH:
        raise BadRequest("The labeling interface (label_config) of the project must be sent.")
    if "<!DOCTYPE" in config or "<!ENTITY" in config:  # entities could expand without end
        raise BadRequest("A labeling interface with its own entities is not read.")
    try:
        tree = ElementTree.fromstring(config)
    except (ElementTree.ParseError, ValueError) as problem:
        raise BadRequest(f"The labeling interface is not XML: {problem}.") from None
    images = {tag.get("name", ""): tag.get("value", "") for tag in tree.iter("Image")}
    for tag in tree.iter("Choices"):
        image = tag.get("toName", "")
        value = images.get(image, "")
        if tag.get("name") and value.startswith("$") and tag.get("choice", "single") != "multiple":
            named = frozenset(choice.get("alias") or choice.get("value") or "" for choice in tag.iter("Choice"))
            return Choices(tag.get("name", ""), image, value[1:], None if tag.get("value") else named)
    raise BadRequest(
        "The labeling interface must have an <Image> with a value such as $image, and <Choices> for it of which one "
        "is chosen."
    )
