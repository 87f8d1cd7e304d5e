"""The site: `make docs` builds it into build/docs, to be opened from disk."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import votestream  # noqa: E402
from generators import api, docstrings, links, llms, methods  # noqa: E402
from generators.measured import Measured  # noqa: E402

project = "VoteStream"
author = "The VoteStream team"
copyright = f"2026, {author}"
version = release = votestream.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery", "generators.mathml"]
exclude_patterns = ["gallery", "generators"]
suppress_warnings = [
    "myst.header",  # tables begin at the second level, as their commands print them
    "toc.not_readable",  # a page may be listed before it is there; a page that is not listed is an error
]
# Names of other libraries, whose sites cannot be asked here, and of modules inside rooms, which are not public.
nitpick_ignore_regex = [("py:.*", r"(?!votestream\.).*"), ("py:.*", r"votestream\.\w+\.\w+\..*")]

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 90
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "NDArray": "NDArray"}  # which are long where they are written out
add_module_names = False
default_role = "code"

html_theme = "furo"
html_title = f"VoteStream {version}"
pygments_dark_style = "monokai"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # which a page opened from disk may not fetch

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": "plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e6,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
}


def write_pages(app: Any) -> None:
    """Pages that nobody types, anew for each build."""
    for name in ("methods", "api", "figures", "project"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    measured = Measured(HERE.parent / "results" / "accuracy")
    methods.write(HERE / "methods", measured)
    measured.write_figures(HERE / "figures")
    api.write(HERE / "api")
    links.write(HERE / "project")


def relink(app: Any, name: str, source: list[str]) -> None:
    """Links to pages outside docs/ lead to the site's own."""
    if name.split("/")[0] not in ("methods", "api", "figures", "project", "examples"):
        page = f"docs/{name}.md"
        source[0] = links.relinked(source[0], page, page)


def describe(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings, which are plain text, as reStructuredText; of a method, whose page tells the rest, the parameters."""
    text = "\n".join(lines)
    if what == "class" and thing in methods.learners().values():
        lines[:] = docstrings.parts(text).parameters
    else:
        lines[:] = docstrings.to_rst(text)


def shorten(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> Any:
    """Types by the names that `autodoc_type_aliases` gives them, also where they stand beside None."""
    texts = [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returns)]
    return tuple(texts)


def skip(app: Any, what: str, name: str, thing: Any, skipped: bool, options: Any) -> bool | None:
    """Without what scikit-learn's metadata routing adds to learners, and a named tuple's fields: they are arguments."""
    routing = name.startswith("set_") and name.endswith("_request")
    return True if routing or type(thing).__name__ == "_tuplegetter" else None


def setup(app: Any) -> None:
    app.connect("builder-inited", write_pages, priority=100)
    app.connect("source-read", relink)
    app.connect("autodoc-process-docstring", describe)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-skip-member", skip)
    app.connect("build-finished", llms.write)
