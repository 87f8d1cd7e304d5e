"""Undo: the newest change, whatever it was; any of the last ones; and nothing of the page is covered meanwhile."""

from __future__ import annotations

from base64 import b64decode

import pytest
from playwright.sync_api import expect

from pictures import uploads


def test_undo_takes_back_the_newest_change_of_every_kind(page, model):
    page.drop(page.row("leaf"), uploads("leaf", 1, start=20))
    page.expect_count("leaf", 7)
    page.menu("brick", "rename")
    page.get_by_role("textbox", name="New name of brick").fill("leaf")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Merge").click()
    page.expect_count("leaf", 13)
    page.keyboard.press("u")
    page.expect_count("brick", 6)
    page.expect_count("leaf", 7)
    page.menu("brick", "forget")
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.row("brick")).to_have_count(0)
    page.keyboard.press("u")
    page.expect_count("brick", 6)
    page.keyboard.press("u")
    page.expect_count("leaf", 6)
    assert model.counts() == {"brick": 6, "leaf": 6}


COVERED = """() => {
  const toast = [...document.querySelectorAll("#toasts > *")].find((node) => node.checkVisibility());
  const place = toast.getBoundingClientRect();
  const hit = (other) => other.left < place.right && other.right > place.left
    && other.top < place.bottom && other.bottom > place.top;
  return [...document.querySelectorAll("button, input, #answer, #stage, #kept")]
    .filter((node) => node.checkVisibility() && !toast.contains(node) && hit(node.getBoundingClientRect()))
    .map((node) => node.id || node.textContent);
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_what_is_said_of_an_undo_that_fails_covers_nothing(model, open_page, width):
    page = open_page(model.page, expected=("409",), viewport={"width": width, "height": 800})
    page.drop("#stage", uploads("leaf", 8))
    page.get_by_role("button", name="Learn 8 images: leaf").click()
    page.expect_count("leaf", 14)
    page.route("**/undo", lambda route: route.fulfill(status=409, json={"error": "Lesson 3 was taken back already."}))
    page.locator("#hint").click()
    page.keyboard.press("u")
    expect(page.get_by_role("alert").filter(has_text="taken back already")).to_be_visible()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    assert page.evaluate(COVERED) == []


def test_with_the_keyboard_alone_a_model_is_taught_corrected_and_undone(empty, served):
    """From nothing: photos chosen by a file dialog, two classes, a mistake moved to its class, and all of it undone."""
    files = [
        {"name": each["name"], "mimeType": "image/jpeg", "buffer": b64decode(each["data"])}
        for each in [*uploads("leaf", 3), *uploads("brick", 3)]
    ]
    for name, chosen in (("leaf", files[:3]), ("brick", files[2:])):
        tab_to(empty, "Name of the new class")
        empty.keyboard.type(name)
        with empty.expect_file_chooser() as chooser:
            empty.keyboard.press("Enter")
        chooser.value.set_files(chosen)
        empty.expect_count(name, len(chosen))
    tab_to(empty, "Choose images")
    with empty.expect_file_chooser() as chooser:
        empty.keyboard.press("Enter")
    chooser.value.set_files(files[:2])
    expect(empty.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    empty.keyboard.press("Control+a")
    empty.keyboard.press("2")
    empty.expect_count("leaf", 5)
    empty.keyboard.press("Control+a")
    empty.keyboard.press("1")
    empty.expect_count("brick", 6)
    empty.expect_count("leaf", 3)
    for _ in range(2):
        before = empty.count("brick")
        empty.keyboard.press("u")
        empty.expect_count("brick", before - 1)
    expect(empty.locator("#counts")).to_have_text("7 images, 2 classes")


def tab_to(page, name: str) -> None:
    for _ in range(60):
        focused = page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
        )
        if focused == name:
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {name}")
