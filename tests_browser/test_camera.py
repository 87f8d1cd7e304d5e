"""The camera: a class is held, frames are answered while it runs."""

from __future__ import annotations

from pictures import uploads
from playwright.sync_api import expect


def test_three_classes_are_taught_by_holding_and_recognised_when_they_come_again(page, served):
    page.start_camera()
    page.wait_until_seen("leaf")
    page.fill("#new-name", "leaf")
    page.hover("#new-button")
    page.mouse.down()
    page.wait_for_timeout(1500)
    page.mouse.up()
    for kind in ("brick", "water"):
        page.wait_until_seen(kind)
        page.fill("#new-name", kind)
        page.press("#new-name", "Enter")  # one frame
        teach = page.row(kind).get_by_role("button", name=f"Hold to teach: {kind}")
        teach.hover()
        page.mouse.down()
        expect(page.row(kind).locator(".added")).to_contain_text("+")
        page.wait_for_timeout(1000)
        page.mouse.up()
    counts = served.counts()
    assert set(counts) == {"brick", "leaf", "water"}
    assert min(counts.values()) >= 3
    page.mouse.move(5, 5)
    page.wait_for_timeout(600)
    assert served.counts() == counts, "nothing is taught once the button is let go"
    for kind in ("leaf", "brick"):
        page.wait_until_seen(kind)
        expect(page.locator("#answer-label")).to_have_text(kind, timeout=4000)


def test_a_number_key_teaches_for_as_long_as_it_is_held(page, served):
    page.teach("leaf", uploads("leaf", 1))
    page.start_camera()
    page.locator("body").click(position={"x": 400, "y": 5})
    page.keyboard.down("1")
    page.wait_for_timeout(1200)
    page.keyboard.up("1")
    page.wait_for_timeout(600)
    held = served.counts()["leaf"]
    assert 3 <= held <= 8
    page.wait_for_timeout(600)
    assert served.counts()["leaf"] == held


def test_frames_are_small_and_one_request_is_under_way_at_a_time(page):
    page.teach("leaf", uploads("leaf", 2))
    under_way, most, sizes = 0, 0, []

    def asked(request):
        nonlocal under_way, most
        if "/predict" in request.url:
            under_way += 1
            most = max(most, under_way)
            sizes.append(len(request.post_data_buffer or b""))

    def over(request):
        nonlocal under_way
        under_way -= "/predict" in request.url

    page.on("request", asked)
    page.on("requestfinished", over)
    page.on("requestfailed", over)
    page.start_camera()
    page.wait_for_timeout(2000)
    assert len(sizes) >= 4
    assert most == 1
    assert 0 < max(sizes) < 100_000


def test_stopping_the_camera_stops_the_requests_and_the_light(page):
    page.teach("leaf", uploads("leaf", 2))
    page.start_camera()
    expect(page.locator("#answer-label")).to_have_text("leaf")
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
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('denied', 'NotAllowedError'))"
    )
    page.click("#camera-button")
    expect(page.get_by_role("alert")).to_contain_text("Allow it for this page and try again.")


def test_over_plain_http_from_elsewhere_photos_are_taken_and_the_page_says_why(open_page, served):
    # What a browser shows of a page that is neither of https nor of localhost: no media devices, no secure context.
    insecure = "Object.defineProperty(window, 'isSecureContext', {value: false});"
    insecure += "Object.defineProperty(Navigator.prototype, 'mediaDevices', {value: undefined});"
    page = open_page(served.address, script=insecure)
    expect(page.get_by_role("button", name="Use the camera")).to_be_hidden()
    expect(page.locator("#camera-words")).to_contain_text("only over https")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Take a photo").click()
    assert chooser.value.element.get_attribute("capture") == "environment"
