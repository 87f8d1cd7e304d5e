"""Images dropped together: what is selected is taught, moved or removed, and a new class takes nothing else."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pictures import jpeg, uploads
from served import Model


def wait_for_answers(page) -> None:
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)


@pytest.fixture
def batch(page):
    """Eight water images dropped on the stage of a model that knows brick and leaf."""
    page.drop("#stage", uploads("water", 8))
    wait_for_answers(page)
    return page


def selected(page) -> int:
    return page.locator("#batch-list [aria-selected=true]").count()


def test_a_new_class_asks_for_its_images_and_leaves_those_of_the_class_before(empty, served):
    empty.drop("#stage", uploads("leaf", 3))
    empty.keyboard.type("leaf")
    empty.keyboard.press("Enter")
    empty.expect_count("leaf", 3)
    for name in ("brick", "water"):
        empty.fill("#new-name", name)
        with empty.expect_file_chooser() as chooser:
            empty.press("#new-name", "Enter")
        assert Model(served).counts()["leaf"] == 3
        chooser.value.set_files([{"name": f"{name}.jpg", "mimeType": "image/jpeg", "buffer": jpeg(name, 0)}])
        empty.expect_count(name, 1)
    assert Model(served).counts() == {"brick": 1, "leaf": 3, "water": 1}


def test_a_dropped_batch_becomes_a_new_class_as_a_whole(batch, model):
    expect(batch.locator("#batch-count")).to_have_text("8 selected")
    batch.fill("#new-name", "water")
    expect(batch.get_by_role("button", name="Learn 8 images", exact=True)).to_be_visible()
    batch.press("#new-name", "Enter")
    batch.expect_count("water", 8)
    assert model.counts() == {"brick": 6, "leaf": 6, "water": 8}
    expect(batch.locator("#batch-list li").filter(has_text="learned")).to_have_count(8)
    assert selected(batch) == 0
    batch.drop("#stage", uploads("leaf", 2, start=30))
    expect(batch.locator("#batch-list li")).to_have_count(2)


def test_images_are_selected_by_click_shift_ctrl_and_the_mark_in_the_corner(batch, model):
    tiles = batch.locator("#batch-list li")
    tiles.nth(1).click()
    assert selected(batch) == 1
    tiles.nth(3).click(modifiers=["Shift"])
    assert selected(batch) == 3
    tiles.nth(2).click(modifiers=["ControlOrMeta"])
    assert selected(batch) == 2
    tiles.nth(5).locator(".check").click()
    assert selected(batch) == 3
    batch.keyboard.press("ControlOrMeta+a")
    assert selected(batch) == 8
    tiles.nth(0).click()
    tiles.nth(1).click(modifiers=["Shift"])
    batch.get_by_role("button", name="Learn 2 images: brick").click()
    batch.expect_count("brick", 8)
    assert selected(batch) == 0
    batch.get_by_role("button", name="Select 6 not learned").click()
    assert selected(batch) == 6
    assert model.counts() == {"brick": 8, "leaf": 6}


def test_a_rectangle_drawn_with_the_mouse_selects_what_it_touches(batch):
    tiles = batch.locator("#batch-list li")
    first, third = tiles.nth(0).bounding_box(), tiles.nth(2).bounding_box()
    batch.mouse.move(first["x"] + 20, first["y"] + 20)
    batch.mouse.down()
    batch.mouse.move(third["x"] + 20, third["y"] + 30, steps=4)
    batch.mouse.up()
    expect(batch.locator("#batch-count")).to_have_text("3 selected")
    expect(batch.locator(".band")).to_have_count(0)


def test_selected_images_move_to_another_class_are_taken_back_or_removed(batch, model):
    tiles = batch.locator("#batch-list li")
    batch.get_by_role("button", name="Learn 8 images: brick").click()
    batch.expect_count("brick", 14)
    tiles.nth(0).click()
    tiles.nth(2).click(modifiers=["Shift"])
    batch.get_by_role("button", name="Move here, 3 images: leaf").click()
    batch.expect_count("leaf", 9)
    batch.expect_count("brick", 11)
    batch.keyboard.press("ControlOrMeta+a")
    batch.get_by_role("button", name="Take back 8").click()
    batch.expect_count("leaf", 6)
    batch.expect_count("brick", 6)
    expect(tiles.filter(has_text="learned")).to_have_count(0)
    batch.get_by_role("button", name="Remove", exact=True).click()
    expect(batch.locator("#batch")).to_be_hidden()
    assert model.counts() == {"brick": 6, "leaf": 6}


def test_a_batch_is_selected_taught_moved_and_taken_back_with_the_keyboard(batch, model):
    batch.locator("#batch-list li").first.focus()
    batch.keyboard.press("Home")
    assert selected(batch) == 1
    batch.keyboard.press("Shift+ArrowRight")
    batch.keyboard.press("Control+ArrowRight")
    batch.keyboard.press("Control+ArrowRight")
    batch.keyboard.press("Space")
    assert selected(batch) == 3
    batch.keyboard.press("1")
    batch.expect_count("brick", 9)
    batch.keyboard.press("Home")
    batch.keyboard.press("2")
    batch.expect_count("leaf", 7)
    batch.keyboard.press("Control+a")
    batch.keyboard.press("Delete")
    expect(batch.locator("#batch-list li").filter(has_text="learned")).to_have_count(0)
    batch.expect_count("brick", 6)
    assert model.counts() == {"brick": 6, "leaf": 6}


def test_the_field_of_a_new_class_says_what_it_would_take(page):
    field = page.locator("#new-name")
    expect(field).to_have_attribute("placeholder", "New class")
    page.drop("#stage", uploads("water", 3))
    expect(field).to_have_attribute("placeholder", "New class for these 3 images")
    page.locator("#batch-list li").first.click()
    expect(field).to_have_attribute("placeholder", "New class for this image")
    expect(page.locator("#new-button")).to_have_text("Learn this image")


def test_a_new_class_whose_name_differs_only_in_case_is_pointed_out(page):
    page.teach("Leaf", uploads("water", 2))
    expect(page.get_by_role("alert").filter(has_text="there is leaf too")).to_be_visible()


SLOWLY = """() => {
  const real = window.fetch;
  window.fetch = async (...request) => {
    if (String(request[0]).includes("learn")) await new Promise((done) => setTimeout(done, 250));
    return real(...request);
  };
}"""


def test_a_batch_whose_learning_is_stopped_can_be_taught_again(page, model):
    page.drop("#stage", uploads("water", 60))
    wait_for_answers(page)
    page.evaluate(SLOWLY)
    page.fill("#new-name", "water")
    page.press("#new-name", "Enter")
    page.wait_until("document.querySelectorAll('#batch-list .dim').length >= 6")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    expect(page.locator("#batch-list li").filter(has_text="learning")).to_have_count(0)
    expect(page.locator("#batch-list li").filter(has_text="not usable")).to_have_count(0)
    page.get_by_role("button", name="not learned").click()
    page.row("water").locator(".teach").click()
    expect(page.locator("#batch-list .dim")).to_have_count(60, timeout=20_000)
    assert model.counts()["water"] >= 60


def test_a_batch_larger_than_the_grid_is_taught_whole(page, model):
    page.drop("#stage", [*uploads("water", 105), *uploads("water", 105, start=200)])
    expect(page.locator("#batch-list")).to_contain_text("and 10 more images")
    page.fill("#new-name", "water")
    page.press("#new-name", "Enter")
    page.expect_count("water", 210)
    assert model.counts()["water"] == 210
