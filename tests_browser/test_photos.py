"""The photos of a class: kept in the browser alone, looked through, moved and deleted with their lessons."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pictures import uploads

STORED = """() => new Promise((done) => {
  const open = indexedDB.open("votestream", 1);
  open.onsuccess = () => {
    const count = open.result.transaction("photos").objectStore("photos").index("at").count(IDBKeyRange.lowerBound(1));
    count.onsuccess = () => { open.result.close(); done(count.result); };
  };
})"""


@pytest.fixture
def taught(page):
    """Four photos of water and three of leaf were taught on this page."""
    page.teach("water", uploads("water", 4))
    page.drop(page.row("leaf"), uploads("leaf", 3, start=20))
    page.expect_count("leaf", 9)
    expect(page.row("leaf").locator(".photos img")).to_have_count(3)
    return page


def look(page, label: str):
    page.row(label).get_by_role("button", name=f"Photos of {label}").click()
    return page.get_by_role("dialog", name=label)


def tiles(dialog):
    return dialog.locator("#photos-list li")


def test_a_class_shows_its_photos_also_after_reloading_and_the_server_has_none(taught, model):
    for _ in range(2):
        dialog = look(taught, "leaf")
        expect(tiles(dialog)).to_have_count(3)
        expect(dialog).to_contain_text("9 images learned. 3 photos of them in this browser.")
        first = dialog.locator("img").first
        assert first.evaluate("node => node.complete && node.naturalWidth") == 96
        taught.keyboard.press("Escape")
        taught.reload()
    expect(taught.locator("#lessons-list li").first.locator("img")).to_be_visible()
    assert model.counts() == {"brick": 6, "leaf": 9, "water": 4}


def test_photos_move_to_another_class_with_what_was_learned_of_them(taught, model):
    dialog = look(taught, "leaf")
    tiles(dialog).nth(0).click()
    tiles(dialog).nth(1).click(modifiers=["Shift"])
    dialog.get_by_role("combobox", name="Class to move to").select_option("brick")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(tiles(dialog)).to_have_count(1)
    taught.keyboard.press("Escape")
    taught.expect_count("brick", 8)
    taught.expect_count("leaf", 7)
    expect(taught.row("brick").locator(".photos img")).to_have_count(2)
    assert model.counts() == {"brick": 8, "leaf": 7, "water": 4}


def test_photos_are_deleted_with_what_was_learned_of_them_by_the_keyboard(taught, model):
    dialog = look(taught, "water")
    taught.keyboard.press("Home")
    taught.keyboard.press("Shift+ArrowRight")
    taught.keyboard.press("Delete")
    question = taught.get_by_role("dialog", name="Delete 2 photos of water?")
    question.get_by_role("button", name="Delete").press("Enter")
    expect(tiles(dialog)).to_have_count(2)
    taught.expect_count("water", 2)
    assert model.counts()["water"] == 2


def test_photos_follow_a_renamed_a_merged_a_forgotten_and_a_restored_class(taught):
    taught.menu("water", "rename")
    taught.get_by_role("textbox", name="New name of water").fill("sea")
    taught.keyboard.press("Enter")
    expect(taught.row("sea").locator(".photos img")).to_have_count(3)
    taught.menu("sea", "rename")
    taught.get_by_role("textbox", name="New name of sea").fill("leaf")
    taught.keyboard.press("Enter")
    taught.get_by_role("dialog").get_by_role("button", name="Merge").click()
    taught.expect_count("leaf", 13)
    taught.reload()
    dialog = look(taught, "leaf")
    expect(tiles(dialog)).to_have_count(7)
    taught.keyboard.press("Escape")
    taught.keyboard.press("u")
    taught.expect_count("sea", 4)
    expect(taught.row("sea").locator(".photos img")).to_have_count(3)
    taught.menu("sea", "forget")
    taught.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(taught.row("sea")).to_have_count(0)
    taught.keyboard.press("u")
    expect(taught.row("sea").locator(".photos img")).to_have_count(3)
    expect(tiles(look(taught, "leaf"))).to_have_count(3)


def test_an_undone_lesson_leaves_no_photo(taught):
    taught.locator("#hint").click()
    taught.keyboard.press("u")
    expect(taught.row("leaf").locator(".photos img")).to_have_count(2)
    assert taught.evaluate(STORED) == 6


def test_photos_that_undo_no_longer_reaches_can_only_be_looked_at(taught, model):
    def aged(route) -> None:
        answer = route.fetch()
        route.fulfill(json={**answer.json(), "undo_reaches": 2})

    taught.route(f"{model.routes}model", aged)
    taught.reload()
    dialog = look(taught, "leaf")
    expect(dialog).to_contain_text("1 photo can only be looked at")
    taught.keyboard.press("ControlOrMeta+a")
    dialog.get_by_role("button", name="Delete").click()
    taught.get_by_role("dialog", name="Delete 2 photos of leaf?").get_by_role("button", name="Delete").click()
    taught.expect_count("leaf", 7)
    expect(tiles(dialog)).to_have_count(1)


FILL = """() => new Promise((done) => {
  const open = indexedDB.open("votestream", 1);
  open.onsuccess = () => {
    const transaction = open.result.transaction("photos", "readwrite");
    for (let lesson = 1; lesson <= 2500; lesson++) {
      const blob = new Blob(["x"]);
      transaction.objectStore("photos").put({ model: "another", lesson, label: "x", blob, at: lesson });
    }
    transaction.oncomplete = () => { open.result.close(); done(); };
  };
})"""


def test_at_most_two_thousand_photos_are_kept_and_the_oldest_go_first(taught):
    taught.evaluate(FILL)
    taught.teach("leaf", uploads("leaf", 1, start=50))
    taught.wait_until(f"({STORED})().then((n) => n <= 2000)")
    assert taught.evaluate(STORED) == 2000
    taught.reload()
    expect(tiles(look(taught, "leaf"))).to_have_count(4)


def test_photos_need_not_be_kept(taught):
    dialog = look(taught, "leaf")
    dialog.get_by_role("checkbox", name="Keep small copies").uncheck()
    assert taught.evaluate(STORED) == 0
    taught.reload()
    expect(taught.row("leaf").locator(".about")).to_contain_text("9 images")
    expect(taught.row("leaf").locator(".photos")).to_be_hidden()
    taught.teach("leaf", uploads("leaf", 1, start=40))
    expect(taught.row("leaf").locator(".photos img")).to_have_count(1)
    assert taught.evaluate(STORED) == 0
