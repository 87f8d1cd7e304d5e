"""The server dies while the page is open, and comes back."""

from __future__ import annotations

from playwright.sync_api import expect

from pictures import uploads
from served import Model

# What Chromium itself says of a request that found no server.
LOST = ("Failed to load resource", "net::ERR")


def test_killed_and_started_again_nothing_counted_is_lost(served, open_page):
    page = open_page(served.address, expected=LOST)
    page.teach("leaf", uploads("leaf", 5))
    page.teach("brick", uploads("brick", 4))
    served.kill()
    banner = page.get_by_role("alert").filter(has_text="The server does not answer")
    expect(banner).to_be_visible()
    expect(page.row("leaf").get_by_role("button", name="Add images: leaf")).to_be_disabled()
    expect(page.locator("#lessons-list button").first).to_be_disabled()
    served.restart()
    expect(banner).to_be_hidden(timeout=40_000)
    assert Model(served).counts() == {"brick": 4, "leaf": 5}
    page.expect_count("leaf", 5)
    page.drop(page.row("leaf"), uploads("leaf", 1, start=20))
    page.expect_count("leaf", 6)


def test_killed_in_the_middle_of_a_large_drop_every_image_is_learned_once(served, open_page):
    page = open_page(served.address, expected=LOST)
    page.fill("#new-name", "leaf")
    page.drop("#new-class", uploads("leaf", 40))
    page.wait_until("document.getElementById('work-bar').value >= 12")
    served.kill()
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    served.restart()
    expect(page.get_by_role("progressbar")).to_be_hidden(timeout=60_000)
    page.expect_count("leaf", 40)
    assert Model(served).counts() == {"leaf": 40}


def test_killed_while_a_class_is_held_the_camera_goes_on_afterwards(served, open_page):
    page = open_page(served.address, expected=LOST)
    page.teach("leaf", uploads("leaf", 2))
    page.start_camera()
    page.row("leaf").get_by_role("button", name="Hold to teach: leaf").hover()
    page.mouse.down()
    expect(page.row("leaf").locator(".added")).to_contain_text("+")
    served.kill()
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    page.mouse.up()
    shown = page.count("leaf")
    served.restart()
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_hidden(timeout=40_000)
    assert Model(served).counts()["leaf"] >= shown
    expect(page.locator("#answer-label")).to_have_text("leaf")
