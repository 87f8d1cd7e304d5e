"""A real browser, and a real service for each test. Without Chromium everything here is skipped.

The next service starts while a test runs. `--screenshots` writes the pictures of the docs to docs/images.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pictures import write_video
from served import Served
from the_page import ThePage

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", action="store_true", help="write docs/images/serve-*.png")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None:
        reason = "there is no Chromium here: apt-get install chromium, or name it in the variable CHROMIUM"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    video = tmp_path_factory.mktemp("camera") / "camera.y4m"
    write_video(video)
    camera = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    arguments = [*camera, f"--use-file-for-fake-video-capture={video}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # root has no other way
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


class Stock:
    """Services that have started already."""

    def __init__(self, make: Callable[[], Served]) -> None:
        self.make = make
        self.spare = make()

    def take(self) -> Served:
        taken = self.spare.ready()
        self.spare = self.make()
        return taken


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    stock = Stock(lambda: Served(tmp_path_factory.mktemp("served")))
    yield stock
    stock.spare.close()


@pytest.fixture
def served(stock: Stock) -> Iterator[Served]:
    """A service whose model has learned nothing yet."""
    served = stock.take()
    yield served
    served.close()


@pytest.fixture
def open_page(browser) -> Iterator[Callable[..., ThePage]]:
    """Opens the page with settings of a browser context. In the end nothing must have gone wrong in it."""
    contexts, errors, foreign = [], [], []

    def open(address: str, expected: tuple[str, ...] = (), script: str = "", ready: str = "body:not(.starting)", **settings) -> ThePage:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
        contexts.append(context)
        context.grant_permissions(["camera"])
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.add_init_script(script)

        def heard(message) -> None:
            if message.type in ("error", "warning") and not any(part in message.text for part in expected):
                errors.append(message.text)

        def asked(request) -> None:
            if not request.url.startswith((address.split("#")[0], "blob:", "data:")):
                foreign.append(request.url)

        page.on("console", heard)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", asked)
        page.goto(address)
        page.wait_for_selector(ready)
        return ThePage(page)

    yield open
    for context in contexts:
        context.close()
    assert not errors
    assert not foreign


@pytest.fixture
def page(open_page: Callable[..., ThePage], served: Served) -> ThePage:
    return open_page(served.address)


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Writes a picture for the docs where `--screenshots` asks for them."""
    folder = Path(str(request.config.rootpath)) / "docs" / "images"

    def take(page: ThePage, name: str) -> None:
        if request.config.getoption("--screenshots"):
            folder.mkdir(exist_ok=True)
            page.screenshot(path=folder / f"serve-{name}.png")

    return take
