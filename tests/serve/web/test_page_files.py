"""The files of the page: small, complete, and with nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
from importlib import resources

import pytest

from serve.http_client import serving

FILES = {
    file.name: file.read_text(encoding="utf-8")
    for file in (resources.files("votestream.serve") / "page").iterdir()
    if file.is_file()
}
MOST_BYTES = 100_000  # on their way to a browser
MOST_LINES = 400


def test_the_whole_page_is_sent_in_less_than_100_kilobytes():
    assert sum(len(gzip.compress(text.encode())) for text in FILES.values()) < MOST_BYTES


def test_the_page_is_sent_packed_to_those_who_take_it_so(tmp_path):
    with serving(tmp_path) as client:
        packed = client.get("/page/main.js", headers={"accept-encoding": "br, gzip"})
        plain = client.get("/page/main.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(FILES["main.js"]) / 2
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text == FILES["main.js"]
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_the_page_is_long(name):
    assert FILES[name].count("\n") <= MOST_LINES


@pytest.mark.parametrize("name", FILES)
def test_nothing_of_the_page_comes_from_another_host(name):
    # The name of the SVG format looks like an address, and is never asked for.
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w[^\s\"'`)]*", FILES[name])) - {"http://www.w3.org/2000/svg"}
    assert not addresses


def test_the_page_has_no_script_and_no_style_of_its_own_that_the_policy_would_refuse():
    page = FILES["index.html"]
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_labels_of_others_can_only_become_text(name):
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", FILES[name]
    )


def test_every_file_that_the_page_names_is_there_and_every_file_is_used():
    named = set(re.findall(r"(?:href|src)=\"page/([^\"]+)\"", FILES["index.html"]))
    for name, text in FILES.items():
        if name.endswith(".js"):
            named |= set(re.findall(r"from \"\./([^\"]+)\"", text))
    assert named | {"index.html"} == set(FILES)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_every_name_that_a_module_imports_is_exported_where_it_comes_from(name):
    for names, source in re.findall(r"import \{([^}]*)\} from \"\./([^\"]+)\"", FILES[name]):
        exported = set(re.findall(r"export (?:async )?(?:function|class|const) ([\w$]+)", FILES[source]))
        assert {one.strip() for one in names.split(",") if one.strip()} <= exported


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_every_element_that_a_module_looks_for_is_in_the_page(name):
    there = set(re.findall(r"\sid=\"([^\"]+)\"", FILES["index.html"]))
    assert set(re.findall(r"\$\(\"([\w-]+)\"\)", FILES[name])) <= there
