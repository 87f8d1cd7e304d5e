"""What was moved keeps working for one version, and says where it is now."""

from __future__ import annotations

import pytest

import votestream as vs


def test_an_argument_that_never_was_is_refused():
    with pytest.raises(TypeError, match="yong"):
        vs.GaussianVoting(yong=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="yong"):
        vs.GaussianVoting().set_params(yong=3)


def test_the_sample_is_found_at_its_old_place():
    from votestream.demo import sample

    with pytest.warns(DeprecationWarning, match="sample_images"):
        assert len(sample("test")[0]) == 500


def test_the_image_classifier_is_found_at_its_old_place():
    from votestream import learners

    with pytest.warns(DeprecationWarning, match=r"votestream\.ImageClassifier"):
        assert learners.ImageClassifier is vs.ImageClassifier
