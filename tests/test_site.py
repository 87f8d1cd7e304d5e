"""The site's generators: every public name and every learner has its page, docstrings become text, faults are found."""

from importlib import import_module
from pathlib import Path

import pytest

import votestream
from generators import api, check, docstrings, links, measured, methods

ROOT = Path(__file__).parents[1]
NAMES = [name for name in votestream.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def figures():
    return measured.Measured(ROOT / "results" / "accuracy")


@pytest.fixture(scope="module")
def described():
    """What the pages describe, by full name."""
    fulls = [full for room in api.rooms() for full in api.described(room)]
    things = {full: getattr(import_module(full.rpartition(".")[0]), full.rpartition(".")[2]) for full in fulls}
    return things | {f"votestream.{cls.__name__}": cls for cls in methods.learners().values()}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_in_the_reference_or_has_a_page_of_its_own(name, described):
    assert f"votestream.{name}" in described


@pytest.mark.parametrize("room", [room for room in api.rooms() if "." not in room])
def test_every_name_of_a_public_room_is_described_somewhere(room, described):
    module, known = import_module(f"votestream.{room}"), [id(thing) for thing in described.values()]
    assert [name for name in api.public_names(module) if id(getattr(module, name)) not in known] == []


def test_what_is_described_is_on_a_page(described):
    text = "\n".join(api.pages().values())
    own = {f"votestream.{cls.__name__}" for cls in methods.learners().values()}
    assert [full for full in described if full not in own and f":: {full}\n" not in text] == []


def test_libraries_that_are_not_installed_are_described_from_their_source():
    page = api.pages()["compat"]
    assert ".. py:class:: votestream.compat.river.RiverClassifier(" in page
    assert ".. py:function:: votestream.compat.avalanche.stream_from_avalanche(" in page


@pytest.mark.parametrize("name", methods.learners())
def test_a_learner_s_docstring_has_all_that_its_page_shows(name):
    told = docstrings.parts(methods.learners()[name].__doc__)
    assert told.idea
    assert told.equations, "no equation: write one behind `.. math::`"
    assert told.take, "no paragraph that begins with 'Take it'"
    assert told.reference, "no paragraph that begins with 'Reference:'"
    assert told.parameters
    assert told.example


def test_every_learner_is_in_the_index_of_the_methods():
    page = methods.index()
    assert [name for name in methods.learners() if f"<{name}>`" not in page] == []


def test_a_method_s_page_shows_the_figures_of_the_bench_s_table(figures):
    page = methods.page("slda", methods.learners()["slda"], figures, "")
    table = (ROOT / "docs" / "tables" / "online.md").read_text(encoding="utf-8")
    (line,) = [
        line for line in table.split("### split-cifar10\n")[1].split("###")[0].splitlines() if "| SLDA |" in line
    ]
    avg = line.split("|")[3].strip()
    assert f"- {avg}\n" in page


def test_a_learner_that_was_not_measured_has_a_page_without_figures(figures, tmp_path):
    assert figures.tables("never_run") == []
    assert not figures.draw("never_run", tmp_path / "x.svg")


def test_a_docstring_s_signs_mean_nothing_to_the_site():
    assert docstrings.to_rst("a * b, |x| and x_ in `code *here*`.") == [
        r"a \* b, \|x\| and x\_ in ``code *here*``.",
        "",
    ]


def test_parameters_of_both_styles_become_definitions():
    numpy_style = docstrings.to_rst("Does.\n\nParameters\n----------\na, b : two\n    lines\n")
    assert numpy_style[-3:] == ["``a``, ``b``", "    two lines", ""]
    google_style = docstrings.to_rst("Does.\n\nArgs:\n    a, b: two\n        lines\n")
    assert google_style == numpy_style
    assert docstrings.to_rst("Does.\n\nParameters\n----------\na, b\n    two\n    lines\n") == numpy_style


def test_a_public_class_in_a_docstring_is_a_link():
    assert docstrings.to_rst("As `GDumb`, `Unheard`.") == ["As :py:obj:`GDumb <votestream.GDumb>`, ``Unheard``.", ""]


def test_links_of_every_page_lead_to_files_that_are_there():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    for page in pages:
        for match in links.LINK.finditer(page.read_text(encoding="utf-8")):
            if ":" not in match[2]:
                assert (page.parent / match[2]).exists(), f"{page.name}: {match[2]}"


def site(tmp_path, body):
    (tmp_path / "index.html").write_text(body)
    return list(check.faults(tmp_path, private="/home/me"))


def test_a_sound_site_has_no_faults(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here">')
    assert site(tmp_path, '<a href="a.html#here">x</a> <a href="https://a.org">y</a>') == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('<a href="gone.html">x</a>', "index.html: the link gone.html leads to no file."),
        ('<a href="#gone">x</a>', "index.html: the link #gone leads to a page without that anchor."),
        (
            '<script src="https://cdn.org/x.js"></script>',
            "index.html loads https://cdn.org/x.js, which needs a network.",
        ),
        ("<p>/home/me/src</p>", "index.html tells a path of this machine, /home/me."),
    ],
)
def test_a_fault_of_the_built_site_is_told(tmp_path, body, told):
    assert site(tmp_path, body) == [told]


def test_a_site_that_was_not_built_is_told(tmp_path):
    assert "has no pages" in next(check.faults(tmp_path))


def test_a_page_that_llms_txt_does_not_list_is_told(tmp_path):
    for name in ("index.html", "listed.html", "forgotten.html"):
        (tmp_path / name).write_text("")
    (tmp_path / "llms.txt").write_text("- [Listed](listed.html)")
    assert check.unlisted(tmp_path) == ["forgotten.html"]
