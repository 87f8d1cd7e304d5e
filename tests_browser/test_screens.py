"""How it looks: everything has its place on one screen. With `--screenshots` the pictures of the docs are made here."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from pictures import upload
from served import Model
from votestream.streams.sample import sample_images

OUTSIDE = """() => [...document.querySelectorAll("main, header, footer, #stage, #answer, #new-class, #lessons, #kept")]
  .filter((node) => node.checkVisibility())
  .map((node) => [node.id || node.tagName, node.getBoundingClientRect()])
  .filter(([, place]) => place.bottom > innerHeight || place.right > innerWidth).map(([name]) => name)"""


@pytest.fixture
def sample():
    """Photos of the package's sample, as files to drop: `sample("dog", 20, start=0)`."""
    images, labels = sample_images("train")

    def files(label: str, n: int, start: int = 0) -> list[dict[str, str]]:
        found = []
        for number in np.flatnonzero(labels == label)[start : start + n]:
            file = io.BytesIO()
            Image.fromarray(images[number]).resize((256, 256), Image.Resampling.LANCZOS).save(file, "PNG")
            found.append(upload(f"{label}-{number}.png", file.getvalue(), "image/png"))
        return found

    return files


def test_everything_has_its_place_on_one_screen(empty, served, sample, screenshot):
    page = empty
    assert page.evaluate(OUTSIDE) == []
    screenshot(page, "empty")
    for label in ("airplane", "dog", "frog", "horse", "ship"):
        page.teach(label, sample(label, 16))
    page.drop("#stage", [*sample("frog", 3, 40), *sample("dog", 2, 44), *sample("ship", 2, 40), *sample("cat", 1, 41)])
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    expect(page.locator("#work")).to_be_hidden()
    assert page.evaluate(OUTSIDE) == []
    screenshot(page, "page")
    page.locator("#why > summary").click()
    expect(page.get_by_role("img", name="The image with the places that speak for")).to_be_visible()
    expect(page.locator("#why-nearest-list img")).to_have_count(4)
    page.emulate_media(color_scheme="dark")
    screenshot(page, "why")
    page.emulate_media(color_scheme="light")
    page.locator("#why > summary").click()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    screenshot(page, "phone")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("button", name="right lately").click()
    screenshot(page, "record")
    assert len(Model(served).counts()) == 5
