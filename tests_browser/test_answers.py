"""What the page says of an answer: no percentage where it means nothing, and no two sums in one."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from pictures import jpeg, uploads


def test_with_one_class_the_page_says_that_it_cannot_know_yet(empty):
    empty.teach("leaf", uploads("leaf", 5))
    empty.drop("#stage", uploads("brick", 2))
    expect(empty.locator("#answer-next")).to_contain_text("cannot know yet: leaf is the only class so far")
    expect(empty.locator("#batch-list li")).to_contain_text(["not sure yet"] * 2)
    assert "%" not in empty.locator("main").inner_text()


def test_where_a_class_has_one_image_no_percentage_is_shown(page):
    page.teach("water", uploads("water", 1))
    page.drop("#stage", uploads("water", 1))
    expect(page.locator("#answer-next")).to_contain_text("cannot know yet how sure this is: water has one image")
    expect(page.locator("#answer-share")).to_be_empty()
    expect(page.row("water").locator(".share")).to_be_empty()
    page.teach("water", uploads("water", 4, start=10))
    expect(page.locator("#answer-share")).to_contain_text("%")


def test_unknown_is_told_in_words_and_the_shares_add_up_to_one_hundred(page):
    page.drop("#stage", uploads("leaf", 1, start=30))
    unknown = page.locator("li.class.unknown")
    expect(unknown).to_contain_text(re.compile("Yes|No"))
    expect(unknown.locator(".bar")).to_have_count(0)
    shares = [float(words.split()[-2]) for words in page.locator(".share").all_inner_texts() if words]
    assert 99 <= sum(shares) <= 101


def test_more_than_99_percent_leaves_a_row_as_high_as_it_was(page, model):
    for number in range(10, 30):
        model.post("learn?label=leaf", jpeg("leaf", number), "image/jpeg")
        model.post("learn?label=brick", jpeg("brick", number), "image/jpeg")
    page.expect_count("leaf", 26)
    page.expect_count("brick", 26)
    before = page.row("leaf").bounding_box()["height"]
    page.drop("#stage", uploads("leaf", 1, start=12))
    expect(page.locator(".winner .share")).to_have_text("> 99 %")
    assert page.row("leaf").bounding_box()["height"] == before


@pytest.mark.parametrize("how", ["click", "key"])
def test_learning_without_a_name_says_what_is_missing(page, how):
    page.drop("#stage", uploads("water", 2))
    if how == "click":
        page.click("#new-button")
    else:
        page.press("#new-name", "Enter")
    expect(page.get_by_role("alert").filter(has_text="Type the name of the class first.")).to_be_visible()
    expect(page.locator("#new-name")).to_be_focused()
    page.keyboard.type("w")
    expect(page.locator("#name-missing")).to_be_hidden()


def test_help_is_one_key_away_and_leads_to_the_documentation(page):
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Help")
    expect(dialog).to_contain_text("undo the newest change")
    expect(dialog.get_by_role("link")).to_have_attribute("href", "docs")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Help").click()
    expect(dialog).to_be_visible()


def test_the_model_is_exported_as_onnx(page, tmp_path):
    onnx = pytest.importorskip("onnx")
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="ONNX").click()
    assert download.value.suggested_filename.endswith(".onnx")
    download.value.save_as(tmp_path / "model.onnx")
    labels = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert "brick" in json.dumps(labels)


def test_an_export_that_fails_says_why(model, open_page):
    page = open_page(model.page, expected=("409",))
    page.route("**/model/page", lambda route: route.fulfill(status=409, json={"error": "This cannot be exported."}))
    page.get_by_role("button", name="Download").click()
    page.get_by_role("button", name="A page that works offline").click()
    expect(page.get_by_role("alert").filter(has_text="This cannot be exported.")).to_be_visible()
