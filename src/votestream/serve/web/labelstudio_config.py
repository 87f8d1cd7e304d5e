"""Label Studio's labeling interface: which of its choices belong to which image."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from votestream.serve.messages import BadRequest

LONGEST = 1_000_000


@dataclass(frozen=True)
class Choices:
    """A `<Choices>` tag that classifies an `<Image>`."""

    name: str
    image: str  # the image tag's name
    key: str  # the field of a task's data that holds the image
    values: frozenset[str] | None  # the choices; None where each task brings its own


def choices_of(config: object) -> Choices:
    """The first choices in a labeling interface that are about an image.

    >>> choices_of('<View><Image name="i" value="$photo"/><Choices name="c" toName="i"><Choice value="oak"/></Choices>'
    ...            '</View>')
    Choices(name='c', image='i', key='photo', values=frozenset({'oak'}))
    """
    if not isinstance(config, str) or len(config) > LONGEST:
        raise BadRequest("The labeling interface (label_config) of the project must be sent.")
    if "<!DOCTYPE" in config or "<!ENTITY" in config:  # entities can be made to expand without end
        raise BadRequest("A labeling interface with its own entities is not read.")
    try:
        tree = ElementTree.fromstring(config)
    except (ElementTree.ParseError, ValueError) as problem:
        raise BadRequest(f"The labeling interface is no XML: {problem}.") from None
    images = {tag.get("name", ""): tag.get("value", "") for tag in tree.iter("Image")}
    for tag in tree.iter("Choices"):
        image = tag.get("toName", "")
        value = images.get(image, "")
        if tag.get("name") and value.startswith("$") and tag.get("choice", "single") != "multiple":
            named = frozenset(choice.get("value", "") for choice in tag.iter("Choice"))
            return Choices(tag.get("name", ""), image, value[1:], None if tag.get("value") else named)
    raise BadRequest(
        "The labeling interface must have an <Image> with a value such as $image, and <Choices> for it of which one "
        "is chosen."
    )
