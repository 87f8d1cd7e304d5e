"""Keyboard, screen reader, phone, dark, large text, many classes, and labels of people who mean harm."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import expect

from pictures import uploads

HOSTILE = "<img src=x onerror=\"document.title='broken'\">"


def test_labels_are_text_and_never_markup(page, model):
    for label in (HOSTILE, "</li><script>document.title='broken'</script>", "a/b?c#d %2F", "שלום", "x" * 150):
        page.teach(label, uploads("leaf", 1))
    page.drop(page.row(HOSTILE), uploads("brick", 2, start=30))
    page.expect_count(HOSTILE, 3)
    page.drop("#stage", uploads("leaf", 2, start=30))
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    page.locator("#why > summary").click()
    page.get_by_role("button", name="right lately").click()
    expect(page.locator("#record")).to_contain_text(f"{HOSTILE} was taken for brick")
    page.keyboard.press("Escape")
    page.menu(HOSTILE, "forget")
    expect(page.get_by_role("dialog")).to_contain_text(HOSTILE)
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.row(HOSTILE)).to_have_count(0)
    page.menu("a/b?c#d %2F", "rename")
    field = page.get_by_role("textbox", name="New name of a/b?c#d %2F")
    field.fill("<b>bold</b>")
    field.press("Enter")
    page.expect_count("<b>bold</b>", 1)
    assert "broken" not in page.title()
    assert page.locator("img[src='x'], li script, li b").count() == 0
    assert HOSTILE not in model.counts()


def test_everything_can_be_done_with_the_keyboard(page, model):
    tab_to(page, "Use the camera")
    page.keyboard.press("Enter")
    page.wait_until("document.getElementById('video').videoWidth > 0")
    tab_to(page, "Hold to teach: leaf")
    page.keyboard.down("Space")
    page.expect_at_least("leaf", 8)
    page.keyboard.up("Space")
    tab_to(page, "Name of the new class")
    page.keyboard.type("water")
    page.keyboard.press("Enter")
    page.expect_count("water", 1)
    tab_to(page, "More for leaf")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("tree")
    page.keyboard.press("Enter")
    expect(page.row("tree")).to_be_visible()
    tab_to(page, "More for brick")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Forget brick?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("u")
    expect(page.locator("#lessons-list li.undone")).to_have_count(1)
    assert model.counts()["brick"] == 6


def tab_to(page, name: str) -> None:
    for _ in range(60):
        focused = page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
        )
        if focused == name:
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {name}")


def test_every_control_has_a_name_and_the_page_its_landmarks(page):
    page.drop("#stage", uploads("leaf", 2, start=20))
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)
    for role in ("button", "textbox", "combobox", "img", "progressbar"):
        for control in page.get_by_role(role).all():
            assert '"' in control.aria_snapshot(), f"{role} without a name: {control.evaluate('n => n.outerHTML')}"


def test_a_screen_reader_is_told_at_most_once_a_second(page):
    page.evaluate(
        """() => { window.told = [];
        new MutationObserver(() => window.told.push([Date.now(), document.getElementById('announcer').textContent]))
          .observe(document.getElementById('announcer'), {childList: true, characterData: true, subtree: true}); }"""
    )
    page.teach("brick", uploads("brick", 13))
    page.start_camera()
    page.wait_for_timeout(2500)
    told = page.evaluate("window.told")
    assert any("Learned as brick" in words for _, words in told)
    assert all(later - earlier >= 950 for (earlier, _), (later, _) in pairwise(told))


CONTRAST = """() => {
  const parsed = (text) => {
    const unit = text.includes("srgb") ? 255 : 1;
    return (text.match(/[\\d.]+/g) ?? []).map((n, at) => n * (at < 3 ? unit : 1));
  };
  const light = ([r, g, b]) => {
    const part = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parsed(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const faded = node.closest(":disabled, .undone, .taught, video, .over, noscript");
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || faded) continue;
    const style = getComputedStyle(node);
    const ink = light(parsed(node.namespaceURI.includes("svg") ? style.fill : style.color));
    const ground = light(behind(node));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (contrast < 4.5) poor.push(`${node.outerHTML.slice(0, 80)}: ${contrast.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(model, open_page, scheme):
    page = open_page(model.page, color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []
    page.drop(page.row("brick"), uploads("leaf", 1, start=30))
    page.drop("#stage", uploads("leaf", 2, start=20))
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    page.locator("#why > summary").click()
    assert page.evaluate(CONTRAST) == []
    page.get_by_role("button", name="right lately").click()
    assert page.evaluate(CONTRAST) == []


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


def test_a_phone_has_the_camera_on_top_and_buttons_for_thumbs(model, open_page):
    page = open_page(model.page, **PHONE)
    page.start_camera()
    teach = page.row("leaf").get_by_role("button", name="Hold to teach: leaf")
    box, video = teach.bounding_box(), page.locator("#video").bounding_box()
    assert box["height"] >= 44
    assert box["width"] >= 44
    assert video["y"] + video["height"] <= box["y"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    teach.tap()
    page.expect_count("leaf", 7)


@pytest.mark.parametrize("settings", [{}, PHONE], ids=["desk", "phone"])
def test_text_of_twice_the_size_needs_no_sideways_scrolling(model, open_page, settings):
    page = open_page(model.page, **settings)
    page.drop("#stage", uploads("leaf", 2, start=20))
    page.context.new_cdp_session(page.page).send("Page.setFontSizes", {"fontSizes": {"standard": 32, "fixed": 26}})
    assert page.locator("#hint").evaluate("node => getComputedStyle(node).fontSize") == "26px"
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("Learn 2 images: leaf", "More for leaf"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_with_reduced_motion_nothing_slides(model, open_page):
    page = open_page(model.page, reduced_motion="reduce")
    assert page.locator(".fill").first.evaluate("node => getComputedStyle(node).transitionDuration") == "0s"


def test_three_hundred_classes_are_found_by_name_and_the_likeliest_come_first(page, model):
    rows = np.random.default_rng(0).normal(size=(300, 160)).tolist()
    body = {"rows": rows, "labels": [f"part {number:03d}" for number in range(300)]}
    model.post("learn-features", json.dumps(body).encode(), "application/json")
    rows = page.locator("li.class:not(.unknown)")
    expect(page.locator("#counts")).to_contain_text("302 classes")
    expect(rows).to_have_count(200)
    page.get_by_role("searchbox", name="Find a class").fill("part 24")
    expect(rows).to_have_count(10)
    page.get_by_role("searchbox", name="Find a class").fill("")
    page.drop("#stage", uploads("leaf", 1, start=30))
    expect(page.locator("#answer-label")).not_to_be_empty()
    best = page.locator("#answer").inner_text()
    assert rows.first.locator(".name").inner_text() in best
    page.get_by_role("button", name="Close").click()
    page.start_camera()
    page.row("leaf").locator(".teach").click()
    page.expect_count("leaf", 7)
    page.mouse.move(300, 20)
    page.wait_until_seen("leaf")
    expect(rows.first.locator(".name")).to_have_text("leaf", timeout=4000)
