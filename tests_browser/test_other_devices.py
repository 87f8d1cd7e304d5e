"""Other devices: a token, a code for phones, and why there is no camera over plain http."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pictures import uploads
from served import BACKBONE, Served

TOKEN = "a-token-of-sixteen-letters"


@pytest.fixture
def shared(tmp_path):
    """A service that other devices reach too."""
    options = ("--backbone", BACKBONE, "--host", "0.0.0.0", "--token", TOKEN)
    shared = Served(tmp_path / "shop.safetensors", *options).ready()
    yield shared
    shared.close()


def test_a_token_is_taken_from_the_address_and_hidden_and_without_it_the_page_asks(shared, open_page):
    page = open_page(shared.address)
    assert "token" not in page.url
    page.teach("leaf", uploads("leaf", 1))
    expect(page.row("leaf").locator(".about")).to_have_text("1 image: add more")
    page.reload()
    page.expect_count("leaf", 1)
    other = open_page(shared.address.split("#")[0], expected=("401",), ready="dialog[open]")
    for token in ("a-wrong-token-of-letters", TOKEN):
        dialog = other.get_by_role("dialog", name="This server asks for a token")
        dialog.locator("input").fill(token)
        other.keyboard.press("Enter")
    other.expect_count("leaf", 1)


def test_a_phone_finds_the_page_by_a_code_and_takes_photos_where_browsers_forbid_the_camera(shared, open_page):
    found = re.search(r"for others: (http://\S+)", shared.log.read_text())
    if found is None:
        pytest.skip("this computer has no address that others could reach")
    # Chromium remarks that it leaves this header out over plain http.
    page = open_page(found.group(1), expected=("Cross-Origin-Opener-Policy",))
    page.get_by_role("button", name="Phone").click()
    code = page.get_by_role("img", name=f"QR code of {found.group(1).split('#')[0]}")
    expect(code).to_be_visible()
    assert code.evaluate("node => node.complete && node.naturalWidth > 50")
    assert TOKEN not in page.locator("#question").inner_text()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Use the camera")).to_be_hidden()
    expect(page.locator("#camera-words")).to_contain_text("only over https")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Take a photo").click()
    assert chooser.value.element.get_attribute("capture") == "environment"
