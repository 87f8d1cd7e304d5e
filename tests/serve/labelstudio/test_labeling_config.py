"""Which choices of a labeling interface belong to which image."""

from __future__ import annotations

import pytest

from votestream.serve.engine.messages import BadRequest
from votestream.serve.labelstudio.labeling_config import choices_of


@pytest.mark.parametrize(
    "config",
    [
        None,
        "",
        "<View>",
        "<View></View>",
        '<!DOCTYPE a [<!ENTITY b "c">]><View/>',
        '<View><Text name="t" value="$t"/><Choices name="c" toName="t"/></View>',
        '<View><Image name="i" value="$i"/><Choices name="c" toName="i" choice="multiple"/></View>',
    ],
)
def test_a_labeling_interface_without_choices_for_an_image_is_refused(config):
    with pytest.raises(BadRequest):
        choices_of(config)


ALIASES = (
    '<View><Image name="image" value="$image"/><Choices name="choice" toName="image">'
    '<Choice value="Rot" alias="red"/><View><Choice value="Grün" alias="green"/></View><Choice value="blue" alias=""/>'
    "</Choices></View>"
)


def test_a_choice_with_an_alias_goes_by_its_alias_as_in_label_studio():
    assert choices_of(ALIASES).values == {"red", "green", "blue"}
