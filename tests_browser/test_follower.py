"""The page of a follower: it predicts, and says where the model is taught."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pictures import uploads
from served import Served

LOST = ("Failed to load resource", "net::ERR")


@pytest.fixture
def copy(served, tmp_path):
    """A follower of the service, once that has learned something."""
    opened = []

    def follow():
        opened.append(Served(tmp_path / "copy.safetensors", "--follow", served.address.rstrip("/")).ready())
        return opened[0]

    yield follow
    for one in opened:
        one.close()


def test_a_copy_predicts_and_names_the_place_where_it_is_taught(served, copy, open_page):
    writer = open_page(served.address)
    for kind in ("leaf", "brick"):
        writer.teach(kind, uploads(kind, 4))
    page = open_page(copy().address)
    expect(page.get_by_text("Read-only copy of")).to_be_visible()
    link = page.get_by_role("link", name=served.address.rstrip("/"))
    expect(link).to_have_attribute("href", re.compile(re.escape(served.address.rstrip("/"))))
    for control in ("#new-class", ".teach", ".more"):
        for node in page.locator(control).all():
            expect(node).to_be_hidden()
    page.drop(page.row("brick"), uploads("leaf", 1, start=20))  # on a class: it is asked about, not taught
    expect(page.locator("#answer-label")).to_have_text("leaf")
    page.keyboard.press("u")
    page.keyboard.press("1")
    writer.teach("leaf", uploads("leaf", 1, start=30))
    page.expect_count("leaf", 5)
    page.expect_count("brick", 4)


def test_a_copy_whose_writer_is_gone_says_so_and_predicts_on(served, copy, open_page):
    writer = open_page(served.address, expected=LOST)
    writer.teach("leaf", uploads("leaf", 4))
    page = open_page(copy().address, expected=LOST)
    served.kill()
    page.reload()
    expect(page.get_by_role("alert").filter(has_text=re.compile("cannot be reached|has ended"))).to_be_visible()
    page.drop("#stage", uploads("leaf", 1, start=20))
    expect(page.locator("#answer-label")).to_have_text("leaf")
