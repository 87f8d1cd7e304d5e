"""The programs of the site's gallery run as they stand, and their pictures say what they show."""

import runpy
from pathlib import Path

import pytest

import votestream as vs
from votestream.testing import check_learner

GALLERY = sorted((Path(__file__).parents[1] / "docs" / "gallery").glob("plot_*.py"))


def test_there_are_six_programs():
    assert len(GALLERY) == 6


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_program_of_the_gallery_runs_with_named_axes_and_learners_that_keep_the_contract(path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    with plt.rc_context({"backend": "agg"}):
        defined = runpy.run_path(str(path))
    try:
        plots = [axes for number in plt.get_fignums() for axes in plt.figure(number).axes]
        assert plots
        assert not [axes for axes in plots if axes.axison and not (axes.get_xlabel() and axes.get_ylabel())]
    finally:
        plt.close("all")
    for learner in defined.values():
        if isinstance(learner, type) and learner.__module__ == defined["__name__"] and issubclass(learner, vs.Learner):
            check_learner(learner)
