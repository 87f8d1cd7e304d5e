"""Teaching: by drop, paste, choice and folder, from nothing on."""

from __future__ import annotations

from pictures import jpeg, upload, uploads
from playwright.sync_api import expect


def test_an_empty_model_asks_for_one_thing_and_shows_nothing_else(page):
    expect(page.get_by_role("heading", name="Show me something and tell me what it is")).to_be_visible()
    expect(page.get_by_role("button", name="Use the camera")).to_be_visible()
    for part in ("#record-button", "#download-button", "#lessons", "#hint", "#answer", "#search-row", "#kept"):
        expect(page.locator(part)).to_be_hidden()


def test_images_shown_to_an_empty_model_become_its_first_class_by_a_name(page, served):
    page.drop("#stage", uploads("leaf", 3))
    page.get_by_role("textbox", name="Name of the new class").fill("leaf")
    page.get_by_role("button", name="Learn 3 images").click()
    page.expect_count("leaf", 3)
    assert served.counts() == {"leaf": 3}
    expect(page.locator("#answer-label")).to_have_text("leaf")
    expect(page.locator("#answer-next")).to_contain_text("only class so far")


def test_three_classes_are_taught_by_drop_and_the_next_images_are_recognised(page, served):
    for kind in ("leaf", "brick", "water"):
        page.teach(kind, uploads(kind, 8))
    assert served.counts() == {"brick": 8, "leaf": 8, "water": 8}
    expect(page.locator("#counts")).to_have_text("24 images, 3 classes")
    for kind in ("leaf", "brick", "water"):
        page.drop("#stage", uploads(kind, 1, start=50))
        expect(page.locator("#answer-label")).to_have_text(kind)
        expect(page.locator("li.winner .name")).to_have_text(kind)
        page.get_by_role("button", name="Close").click()


def test_images_dropped_pasted_or_chosen_for_a_class_are_learned_as_it(page, served):
    page.teach("leaf", uploads("leaf", 1))
    page.drop(page.row("leaf"), uploads("leaf", 2, start=1))
    page.expect_count("leaf", 3)
    page.paste(page.row("leaf").get_by_role("button", name="More for leaf"), uploads("leaf", 1, start=3))
    page.row("leaf").get_by_role("button", name="More for leaf").focus()
    page.paste(page.row("leaf").get_by_role("button", name="More for leaf"), uploads("leaf", 1, start=4))
    page.expect_count("leaf", 4)
    with page.expect_file_chooser() as chooser:
        page.row("leaf").get_by_role("button", name="Add images: leaf").click()
    chooser.value.set_files([{"name": "leaf.jpg", "mimeType": "image/jpeg", "buffer": jpeg("leaf", 9)}])
    page.expect_count("leaf", 5)
    assert served.counts() == {"leaf": 5}


def test_files_dropped_on_a_new_class_without_a_name_wait_for_one(page, served):
    page.teach("leaf", uploads("leaf", 1))
    page.drop("#new-class", uploads("water", 2))
    page.get_by_role("textbox", name="What is its name?").fill("water")
    page.keyboard.press("Enter")
    page.expect_count("water", 2)
    assert served.counts() == {"leaf": 1, "water": 2}


def test_a_folder_of_folders_becomes_classes_once_they_were_looked_at(page, served, tmp_path):
    for kind in ("leaf", "brick"):
        folder = tmp_path / "things" / "train" / kind
        folder.mkdir(parents=True)
        for number in range(7):
            (folder / f"{number}.jpg").write_bytes(jpeg(kind, number))
    (tmp_path / "things" / "train" / "leaf" / "notes.txt").write_text("no image")
    (tmp_path / "things" / ".DS_Store").write_bytes(b"litter")
    page.drop_folder(tmp_path / "things")
    dialog = page.get_by_role("dialog", name="Learn 14 images as 2 classes?")
    expect(dialog.get_by_role("listitem")).to_have_text(["brick7 images, new class", "leaf7 images, new class"])
    expect(dialog).to_contain_text("1 file that is no image is left out.")
    assert served.counts() == {}
    dialog.get_by_role("button", name="Learn").click()
    page.expect_count("leaf", 7)
    page.expect_count("brick", 7)
    assert served.counts() == {"brick": 7, "leaf": 7}


def test_a_folder_that_is_not_wanted_teaches_nothing(page, served, tmp_path):
    (tmp_path / "leaf").mkdir()
    (tmp_path / "leaf" / "1.jpg").write_bytes(jpeg("leaf", 1))
    page.drop_folder(tmp_path / "leaf")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert served.counts() == {}


def test_a_file_that_is_no_image_is_named_and_the_rest_is_learned(page, served):
    files = uploads("leaf", 3)
    files.insert(1, upload("holiday plans.jpg", b"not an image at all"))
    page.fill("#new-name", "leaf")
    page.drop("#new-class", files)
    page.expect_count("leaf", 3)
    problems = page.get_by_role("region", name="1 file could not be used")
    expect(problems.get_by_role("listitem")).to_contain_text("holiday plans.jpg")
    assert served.counts() == {"leaf": 3}
    problems.get_by_role("button", name="Close").click()
    expect(problems).to_have_count(0)


def test_a_large_drop_shows_how_far_it_is_and_can_be_stopped(page, served):
    page.fill("#new-name", "leaf")
    page.drop("#new-class", uploads("leaf", 90))
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.wait_for_function("document.getElementById('work-bar').value >= 6")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    assert 0 < served.counts()["leaf"] < 90


def test_what_was_learned_is_there_after_reloading(page, served):
    page.teach("leaf", uploads("leaf", 2))
    page.reload()
    page.expect_count("leaf", 2)
    expect(page.locator("#lessons-list li")).to_have_count(2)
    expect(page.locator("#kept")).to_contain_text("The server keeps no image. It keeps statistics of 1 class")
