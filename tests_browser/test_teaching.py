"""Teaching: by drop, paste, choice and folder, from nothing on."""

from __future__ import annotations

from playwright.sync_api import expect

from pictures import jpeg, upload, uploads
from served import Model


def test_an_empty_model_asks_for_one_thing_and_its_first_images_become_a_class_by_a_name(empty, served):
    expect(empty.get_by_role("heading", name="Show me something and tell me what it is")).to_be_visible()
    expect(empty.get_by_role("button", name="Use the camera")).to_be_visible()
    for part in ("#record-button", "#download-button", "#lessons", "#hint", "#answer", "#search-row", "#kept"):
        expect(empty.locator(part)).to_be_hidden()
    empty.drop("#stage", uploads("leaf", 3))
    empty.get_by_label("Name of the new class").fill("leaf")
    empty.get_by_role("button", name="Learn 3 images").click()
    empty.expect_count("leaf", 3)
    expect(empty.locator("#answer-label")).to_have_text("leaf")
    expect(empty.locator("#answer-next")).to_contain_text("only class so far")
    assert Model(served).counts() == {"leaf": 3}


def test_three_classes_are_taught_by_drop_and_the_next_images_are_recognised(empty, served):
    for kind in ("leaf", "brick", "water"):
        empty.teach(kind, uploads(kind, 8))
    assert Model(served).counts() == {"brick": 8, "leaf": 8, "water": 8}
    expect(empty.locator("#counts")).to_have_text("24 images, 3 classes")
    for kind in ("leaf", "brick", "water"):
        empty.drop("#stage", uploads(kind, 1, start=50))
        expect(empty.locator("#answer-label")).to_have_text(kind)
        expect(empty.locator("li.winner .name")).to_have_text(kind)
        empty.get_by_role("button", name="Close").click()
        expect(empty.locator("#answer")).to_be_hidden()


def test_images_dropped_pasted_or_chosen_for_a_class_are_learned_as_it(page, model):
    page.drop(page.row("leaf"), uploads("leaf", 2, start=10))
    page.expect_count("leaf", 8)
    page.row("leaf").get_by_role("button", name="More for leaf").focus()
    page.paste(page.row("leaf"), uploads("leaf", 1, start=13))
    page.expect_count("leaf", 9)
    with page.expect_file_chooser() as chooser:
        page.row("leaf").get_by_role("button", name="Add images: leaf").click()
    chooser.value.set_files([{"name": "leaf.jpg", "mimeType": "image/jpeg", "buffer": jpeg("leaf", 19)}])
    page.expect_count("leaf", 10)
    assert model.counts() == {"brick": 6, "leaf": 10}


def test_files_dropped_on_a_new_class_without_a_name_wait_for_one(page, model):
    page.drop("#new-class", uploads("water", 2))
    page.get_by_role("textbox", name="What is its name?").fill("water")
    page.keyboard.press("Enter")
    page.expect_count("water", 2)
    assert model.counts() == {"brick": 6, "leaf": 6, "water": 2}


def test_a_folder_of_folders_becomes_classes_once_they_were_looked_at(page, model, tmp_path):
    for kind in ("leaf", "water"):
        folder = tmp_path / "things" / "train" / kind
        folder.mkdir(parents=True)
        for number in range(7):
            (folder / f"{number}.jpg").write_bytes(jpeg(kind, 20 + number))
    (tmp_path / "things" / "train" / "leaf" / "notes.txt").write_text("no image")
    (tmp_path / "things" / ".DS_Store").write_bytes(b"litter")
    for button, counts in (("Cancel", {"brick": 6, "leaf": 6}), ("Learn", {"brick": 6, "leaf": 13, "water": 7})):
        page.drop_folder(tmp_path / "things")
        dialog = page.get_by_role("dialog", name="Learn 14 images as 2 classes?")
        expect(dialog.get_by_role("listitem")).to_have_text(["leaf7 images", "water7 images, new class"])
        expect(dialog).to_contain_text("Left out: 1 file of other kinds.")
        dialog.get_by_role("button", name=button, exact=True).click()
        for label, count in counts.items():
            page.expect_count(label, count)
        assert model.counts() == counts


def test_a_file_that_is_no_image_is_named_and_the_rest_is_learned(page, model):
    files = uploads("water", 3)
    files.insert(1, upload("holiday plans.jpg", b"not an image at all"))
    page.fill("#new-name", "water")
    page.drop("#new-class", files)
    page.expect_count("water", 3)
    problems = page.get_by_role("region", name="1 file could not be used")
    expect(problems.get_by_role("listitem")).to_contain_text("holiday plans.jpg")
    assert model.counts()["water"] == 3
    problems.get_by_role("button", name="Close").click()
    expect(problems).to_have_count(0)


def test_a_large_drop_shows_how_far_it_is_and_can_be_stopped(page, model):
    page.fill("#new-name", "water")
    page.drop("#new-class", uploads("water", 90))
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.wait_until("document.getElementById('work-bar').value >= 6")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    assert 0 < model.counts()["water"] < 90


def test_of_several_models_one_is_chosen(page, model):
    page.teach("water", uploads("water", 1))
    page.get_by_role("combobox", name="Model").select_option("untouched")
    page.wait_for_url("**model=untouched")
    expect(page.locator("#counts")).to_have_text("12 images, 2 classes")
    assert model.counts()["water"] == 1


def test_what_was_learned_is_there_after_reloading(page):
    page.teach("water", uploads("water", 2))
    page.reload()
    page.expect_count("water", 2)
    expect(page.locator("#lessons-list li")).to_have_count(2)
    expect(page.locator("#kept")).to_contain_text("The server keeps no image. It keeps statistics of 3 classes")
