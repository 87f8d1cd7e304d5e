"""Asking and correcting: unsure images first, one tap teaches, undo takes back; rename, merge, forget."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from pictures import jpeg, upload, uploads


def test_images_without_a_class_are_answered_in_a_list_with_the_unsure_ones_first(page):
    page.drop("#stage", [*uploads("brick", 3, start=40), *uploads("leaf", 3, start=40), *uploads("water", 2)])
    tiles = page.locator("#batch-list li")
    expect(tiles).to_have_count(8)
    expect(tiles.filter(has_text="…")).to_have_count(0)

    def sureness(words: str) -> float:
        return -1 if "unknown" in words else float(words.split()[-2])

    sure = [sureness(tile) for tile in tiles.all_inner_texts()]
    assert sure == sorted(sure)
    assert page.locator("#picture").get_attribute("alt") in tiles.first.get_attribute("aria-label")


def test_what_is_unlike_everything_is_called_unknown_and_taught_as_a_new_class(page, model):
    for number in range(6, 60):
        for kind in ("brick", "leaf"):
            model.post(f"learn?label={kind}", jpeg(kind, number), "image/jpeg")
    page.drop("#stage", uploads("water", 1, start=70))
    expect(page.locator("#answer")).to_contain_text("This is unknown")
    expect(page.locator("li.class.unknown")).to_have_class(re.compile("winner"))
    expect(page.locator("li.class:not(.unknown).winner")).to_have_count(0)
    page.fill("#new-name", "water")
    page.press("#new-name", "Enter")
    page.expect_count("water", 1)
    expect(page.locator("#answer-label")).to_have_text("water")


def test_one_tap_on_the_right_class_teaches_the_image_and_goes_to_the_next(page, model):
    page.drop("#stage", uploads("brick", 2, start=40))
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    page.locator("#batch-list li").first.click()
    before = page.locator("#picture").get_attribute("alt")
    page.row("brick").get_by_role("button", name="It is this: brick").click()
    page.expect_count("brick", 7)
    assert page.locator("#picture").get_attribute("alt") != before
    expect(page.locator("#batch-list li").last).to_contain_text("learned")
    expect(page.get_by_role("button", name="It is this: brick")).to_be_enabled()
    assert model.counts() == {"brick": 7, "leaf": 6}


def test_a_second_thought_about_an_image_takes_the_first_lesson_back(page, model):
    page.drop("#stage", uploads("brick", 1, start=40))
    page.row("leaf").get_by_role("button", name="It is this: leaf").click()
    page.expect_count("leaf", 7)
    page.locator("#batch-list li").click()
    page.row("brick").get_by_role("button", name="Move here: brick").click()
    page.expect_count("brick", 7)
    page.expect_count("leaf", 6)
    assert model.counts() == {"brick": 7, "leaf": 6}


def test_a_file_that_cannot_be_read_is_told_once_and_does_not_stop_the_others(page):
    page.drop("#stage", [*uploads("brick", 2, start=40), upload("plans.txt", b"hello", "text/plain")])
    expect(page.locator("#problems-list li")).to_have_count(1)
    expect(page.locator("#problems-list li")).to_contain_text("plans.txt")
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    page.wait_for_timeout(500)
    expect(page.locator("#problems-list li")).to_have_count(1)


def test_every_one_of_the_last_lessons_can_be_taken_back(page, model):
    page.drop(page.row("brick"), uploads("brick", 3, start=20))
    page.expect_count("brick", 9)
    page.drop(page.row("leaf"), uploads("leaf", 3, start=20))
    page.expect_count("leaf", 9)
    lessons = page.locator("#lessons-list li")
    expect(lessons).to_have_count(6)
    lessons.nth(4).get_by_role("button", name="Undo").click()
    page.expect_count("brick", 8)
    expect(page.locator("#lessons-list li.undone")).to_contain_text("taken back")
    page.keyboard.press("u")
    page.expect_count("leaf", 8)
    assert model.counts() == {"brick": 8, "leaf": 8}


def test_a_lesson_says_what_the_model_thought_before(page):
    page.drop(page.row("brick"), uploads("leaf", 1, start=60))
    page.expect_count("brick", 7)
    expect(page.locator("#lessons-list li").first).to_contain_text("was: leaf")


def test_a_class_is_renamed_in_place_and_escape_leaves_it(page, model):
    page.menu("brick", "rename")
    field = page.get_by_role("textbox", name="New name of brick")
    field.fill("stone")
    field.press("Escape")
    expect(page.row("brick")).to_be_visible()
    page.menu("brick", "rename")
    field.fill("stone")
    field.press("Enter")
    page.expect_count("stone", 6)
    assert model.counts() == {"leaf": 6, "stone": 6}


def test_renaming_to_a_class_that_is_there_asks_before_merging(page, model):
    for button, counts in (("Cancel", {"brick": 6, "leaf": 6}), ("Merge", {"leaf": 12})):
        page.menu("brick", "rename")
        field = page.get_by_role("textbox", name="New name of brick")
        field.fill("leaf")
        field.press("Enter")
        dialog = page.get_by_role("dialog", name="Merge brick into leaf?")
        expect(dialog).to_contain_text("6 images")
        dialog.get_by_role("button", name=button).click()
        page.expect_count("leaf", counts["leaf"])
        assert model.counts() == counts
    expect(page.row("brick")).to_have_count(0)


def test_forgetting_asks_with_the_count_and_says_what_is_lost(page, model):
    for button, counts in (("Cancel", {"brick": 6, "leaf": 6}), ("Forget", {"leaf": 6})):
        page.menu("brick", "forget")
        dialog = page.get_by_role("dialog", name="Forget brick?")
        expect(dialog).to_contain_text("6 images")
        expect(dialog).to_contain_text("images are not kept")
        dialog.get_by_role("button", name=button).click()
        expect(page.locator("#counts")).to_contain_text(f"{len(counts)} class")
        assert model.counts() == counts
    expect(page.row("brick")).to_have_count(0)
    page.locator("#lessons-list li").first.get_by_role("button", name="Undo").click()
    page.expect_count("brick", 6)


def test_the_track_record_shows_a_curve_and_what_is_mixed_up(page):
    page.drop(page.row("brick"), uploads("leaf", 3, start=60))
    page.expect_count("brick", 9)
    page.drop(page.row("leaf"), uploads("leaf", 30, start=70))
    page.expect_count("leaf", 36)
    page.get_by_role("button", name="right lately").click()
    dialog = page.get_by_role("dialog", name="How well it has done")
    expect(dialog.get_by_role("img", name="Accuracy from")).to_be_visible()
    expect(dialog).to_contain_text("brick was taken for leaf")
    expect(dialog.get_by_role("rowheader", name="brick")).to_be_visible()


def test_the_model_can_be_downloaded_and_loaded(page, tmp_path):
    import votestream as vs

    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Model file").click()
    assert download.value.suggested_filename.startswith("shop-")
    download.value.save_as(tmp_path / "shop.safetensors")
    assert sorted(vs.load(tmp_path / "shop.safetensors").classes_) == ["brick", "leaf"]
