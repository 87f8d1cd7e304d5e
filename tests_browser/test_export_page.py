"""An exported page in a real browser, from the disk and offline: it predicts what the model does."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from votestream.cli.main import app
from votestream.export.browser_runtime import fetched_runtime

READY = "document.getElementById('status').hidden"


@pytest.fixture(scope="module")
def runtime():
    """The npm package, in the cache of this machine."""
    try:
        return fetched_runtime()
    except ValueError as problem:
        pytest.skip(f"the npm registry cannot be reached: {problem}")


@pytest.fixture(scope="module", params=["gaussian_voting", "candidates_voting"])
def model(request):
    images, labels = vs.sample_images("train")
    learner = vs.create(request.param, track=True, device="cpu")
    return vs.ImageClassifier("reduced_resnet18", learner).partial_fit(images[::4], labels[::4])


@pytest.fixture(scope="module")
def file(model, runtime, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    model.save(folder / "m.safetensors")
    done = CliRunner().invoke(app, ["export", str(folder / "m.safetensors"), str(folder / "page.html"), "--page"])
    assert done.exit_code == 0, done.output
    return folder / "page.html"


@pytest.fixture
def page(browser, file):
    """The page, open; in the end nothing must have been asked of a network or gone wrong."""
    context = browser.new_context(offline=True, permissions=["camera"])
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
    page.goto(file.as_uri())
    page.wait_for_function(READY, timeout=60_000)
    yield page
    context.close()
    assert not wrong


def encoded(pixels, kind, **how):
    made = io.BytesIO()
    Image.fromarray(pixels).save(made, kind, **how)
    return made.getvalue()


def dropped(page, files):
    """Answers to files that are dropped on the page: the headline, and the probabilities by label."""
    page.evaluate(
        """async (files) => {
            const data = new DataTransfer();
            for (const [name, text] of Object.entries(files)) {
                const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
                data.items.add(new File([bytes], name));
            }
            window.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
        }""",
        {name: base64.b64encode(content).decode() for name, content in files.items()},
    )
    page.wait_for_function(f"document.querySelectorAll('#answers article').length === {len(files)}", timeout=60_000)
    return [
        (
            card.query_selector("h2").inner_text(),
            {
                line.query_selector("span").inner_text(): float(line.get_attribute("data-probability"))
                for line in card.query_selector_all("li")
            },
        )
        for card in reversed(page.query_selector_all("#answers article"))  # the newest stands first
    ]


def test_dropped_photos_are_classified_as_the_model_does(page, model):
    image = vs.sample_images("test")[0][-1]
    large = np.asarray(Image.fromarray(image).resize((96, 128)))
    clear = np.concatenate((large, np.full((128, 96, 1), 255, np.uint8)), 2)
    clear[:40, :, 3] = 0
    photos = {"small.png": image, "large.png": large, "clear.png": clear}
    files = {name: encoded(pixels, "PNG") for name, pixels in photos.items()}
    files["photo.jpg"] = encoded(large, "JPEG", quality=90)
    read = [*photos.values(), np.asarray(Image.open(io.BytesIO(files["photo.jpg"])))]
    for (headline, found), pixels in zip(dropped(page, files), read, strict=True):
        (label,), (shares,) = model.predict([pixels]), model.predict_proba([pixels])
        unknown = model.unknown_score([pixels])[0] > 0.95
        assert headline == (f"unknown (nearest: {label})" if unknown else label)
        expected = dict(zip(model.classes_.tolist(), shares.tolist(), strict=True))
        assert len(found) == 5
        for name, share in found.items():
            assert share == pytest.approx(expected[name], abs=1e-3)


def test_a_file_that_is_no_photo_is_named(page):
    ((headline, found),) = dropped(page, {"letter.txt": b"hello"})
    assert headline == "letter.txt could not be read"
    assert not found


def test_the_camera_is_answered_live_until_it_is_stopped(page, model):
    page.click("#camera")
    page.wait_for_selector("#live li", timeout=30_000)
    names = [span.inner_text() for span in page.query_selector_all("#live li span:first-child")]
    assert set(names) <= set(model.classes_.tolist())
    page.click("#camera")
    page.wait_for_selector("#live", state="hidden")
