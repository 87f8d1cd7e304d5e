"""Settings of an engine: the names of version 0.2 still work."""

from __future__ import annotations

import pytest

from votestream.serve.engine import EngineSettings
from votestream.serve.engine.settings import RENAMED


@pytest.mark.parametrize("old", RENAMED)
def test_a_setting_is_found_by_its_old_name_with_a_warning(old):
    with pytest.warns(DeprecationWarning, match=f"{old} is now {RENAMED[old]}"):
        settings = EngineSettings(**{old: 7})
    assert settings == EngineSettings(**{RENAMED[old]: 7})
    with pytest.warns(DeprecationWarning, match=RENAMED[old]):
        assert getattr(settings, old) == 7


def test_a_setting_that_never_was_is_refused():
    with pytest.raises(TypeError, match="fold_minutes"):
        EngineSettings(**{"fold_minutes": 1})
    assert not hasattr(EngineSettings(), "fold_minutes")
