"""A real browser and real services. Without Chromium everything here is skipped.

`page` and `model` are of a model that knows six images each of brick and leaf; `empty` is of one that knows nothing,
with a service of its own. `--screenshots` writes the pictures of the docs to docs/images.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

import votestream as vs
from pictures import picture, write_video
from served import BACKBONE, Model, Served
from the_page import ThePage

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
COPIES = 80  # models that one service holds for the tests, one for each


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


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Model]]:
    """Models that know two classes, each for one test."""
    folder = tmp_path_factory.mktemp("models")
    first = vs.ImageClassifier(BACKBONE, vs.GaussianVoting(track=True, block=1))
    for number in range(6):
        for kind in ("brick", "leaf"):
            first.partial_fit([picture(kind, number)], [kind])
    first.save(folder / "untouched.safetensors")
    for number in range(COPIES):
        shutil.copy(folder / "untouched.safetensors", folder / f"shop-{number}.safetensors")
    served = Served(folder).ready()
    yield iter([Model(served, f"shop-{number}") for number in range(COPIES)])
    served.close()


@pytest.fixture
def model(models: Iterator[Model]) -> Model:
    return next(models)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A service of a model that has learned nothing yet."""
    served = Served(tmp_path / "shop.safetensors", "--backbone", BACKBONE).ready()
    yield served
    served.close()


@pytest.fixture
def open_page(browser) -> Iterator[Callable[..., ThePage]]:
    """Opens a page with settings of a browser context. In the end nothing must have gone wrong in it."""
    contexts, errors, foreign = [], [], []

    def open(
        address: str,
        expected: tuple[str, ...] = (),
        script: str = "",
        ready: str = "body:not(.starting)",
        **settings: object,
    ) -> ThePage:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
        contexts.append(context)
        context.grant_permissions(["camera"])
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.add_init_script(script)
        own = "/".join(address.split("/")[:3])

        def heard(message) -> None:
            if message.type in ("error", "warning") and not any(part in message.text for part in expected):
                errors.append(message.text)

        page.on("filechooser", lambda _: None)  # from now on, and not once a test has begun to wait for one
        page.on("console", heard)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: foreign.append(request.url) if own not in request.url else None)
        page.goto(address)
        page.wait_for_selector(ready)
        return ThePage(page)

    yield open
    for context in contexts:
        context.close()
    assert not errors
    assert not foreign


@pytest.fixture
def page(model: Model, open_page: Callable[..., ThePage]) -> ThePage:
    return open_page(model.page)


@pytest.fixture
def empty(served: Served, open_page: Callable[..., ThePage]) -> ThePage:
    return open_page(served.address)


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Writes a picture for the docs where `--screenshots` asks for them."""
    folder = Path(str(request.config.rootpath)) / "docs" / "images"

    def take(page: ThePage, name: str) -> None:
        if request.config.getoption("--screenshots"):
            folder.mkdir(exist_ok=True)
            page.wait_for_timeout(500)  # until nothing moves
            with Image.open(io.BytesIO(page.page.screenshot())) as image:
                image.convert("RGB").quantize(256).save(folder / f"serve-{name}.png", optimize=True)

    return take
