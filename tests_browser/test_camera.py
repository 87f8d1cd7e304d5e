"""The camera: a class is held, frames are answered while it runs."""

from __future__ import annotations

from playwright.sync_api import expect

from served import Model


def test_three_classes_are_taught_by_holding_and_recognised_when_they_come_again(empty, served):
    page, model = empty, Model(served)
    page.start_camera()
    page.wait_until_seen("leaf")
    page.fill("#new-name", "leaf")
    page.hover("#new-button")
    page.mouse.down()
    page.expect_at_least("leaf", 4)
    page.mouse.up()
    for kind in ("brick", "water"):
        page.wait_until_seen(kind)
        page.fill("#new-name", kind)
        page.press("#new-name", "Enter")  # one frame
        teach = page.row(kind).get_by_role("button", name=f"Hold to teach: {kind}")
        teach.hover()
        page.mouse.down()
        expect(page.row(kind).locator(".added")).to_contain_text("+")
        page.expect_at_least(kind, 4)
        page.mouse.up()
    page.mouse.move(5, 5)
    page.wait_for_timeout(500)
    counts = model.counts()
    page.wait_for_timeout(700)
    assert model.counts() == counts, "nothing is taught once the button is let go"
    for kind in ("leaf", "brick"):
        page.wait_until_seen(kind)
        expect(page.locator("#answer-label")).to_have_text(kind, timeout=4000)


def test_a_number_key_teaches_for_as_long_as_it_is_held(page, model):
    page.start_camera()
    page.keyboard.down("2")
    page.expect_at_least("leaf", 9)
    page.keyboard.up("2")
    page.wait_for_timeout(500)
    held = model.counts()
    assert held["brick"] == 6
    page.wait_for_timeout(700)
    assert model.counts() == held


# What the page sends, seen from inside: Playwright does not tell the size of a blob.
WATCH = """const real = window.fetch;
window.sent = { now: 0, most: 0, sizes: [] };
window.fetch = async (address, options) => {
  if (!String(address).includes("predict")) return real(address, options);
  window.sent.sizes.push(options.body.size);
  window.sent.most = Math.max(window.sent.most, ++window.sent.now);
  try { return await real(address, options); } finally { window.sent.now -= 1; }
};"""


def test_frames_are_small_and_one_request_is_under_way_at_a_time(model, open_page):
    page = open_page(model.page, script=WATCH)
    page.start_camera()
    page.wait_until("window.sent.sizes.length >= 8")
    sent = page.evaluate("window.sent")
    assert sent["most"] == 1
    assert 1_000 < max(sent["sizes"]) < 100_000


def test_stopping_the_camera_stops_the_requests_and_the_light(page):
    page.start_camera()
    expect(page.locator("#answer-label")).not_to_be_empty()
    page.evaluate("window.track = document.getElementById('video').srcObject.getTracks()[0]")
    page.get_by_role("button", name="Stop camera").click()
    assert page.evaluate("window.track.readyState") == "ended"
    expect(page.locator("#answer")).to_be_hidden()
    page.wait_for_timeout(300)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(700)
    assert not [url for url in asked if "/predict" in url]


def test_without_permission_the_page_says_what_to_do(page):
    page.evaluate(
        "() => { navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotAllowedError'); } }"
    )
    page.click("#camera-button")
    expect(page.get_by_role("alert")).to_contain_text("Allow it for this page and try again.")
