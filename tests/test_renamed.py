"""What was renamed since 0.1.0 keeps working for one version, and says what it is called now."""

from __future__ import annotations

import pytest

import votestream as vs


@pytest.mark.parametrize(
    ("make", "old", "new"), [(vs.GaussianVoting, "young", "close_task_after"), (vs.ICaRL, "room", "max_waiting")]
)
def test_an_old_argument_is_taken_with_a_warning(make, old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        model = make(**{old: 7})
    assert model.get_params()[new] == 7
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        model.set_params(**{old: 9})
    assert getattr(model, new) == 9


def test_an_argument_that_never_was_is_refused():
    with pytest.raises(TypeError, match="yong"):
        vs.GaussianVoting(yong=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="yong"):
        vs.GaussianVoting().set_params(yong=3)


def test_a_learner_from_outside_may_have_an_argument_of_such_a_name():
    class Rooms(vs.NearestClassMean):
        def __init__(self, room=3, seed=0, device="auto", batch_size=10, close_task_after=20):
            super().__init__(close_task_after=close_task_after, batch_size=batch_size, seed=seed, device=device)
            self.room = room

    assert Rooms(room=4).set_params(room=5).room == 5


def test_the_sample_is_found_at_its_old_place():
    from votestream.demo import sample

    with pytest.warns(DeprecationWarning, match="sample_images"):
        assert len(sample("test")[0]) == 500


def test_the_image_classifier_is_found_at_its_old_place():
    from votestream import learners

    with pytest.warns(DeprecationWarning, match=r"votestream\.ImageClassifier"):
        assert learners.ImageClassifier is vs.ImageClassifier
