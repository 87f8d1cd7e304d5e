"""Photos behind http://, with aiohttp: no server sends `votestream learn` to another host unless that is asked for."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import votestream as vs
from votestream.cli.main import app
from votestream.images.files import ImageError
from votestream.images.urls import RedirectingUrl

pytest.importorskip("aiohttp")
NEW = partial(vs.ImageClassifier, "reduced_resnet18")  # imported here: what a test registers goes with it


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder; what `elsewhere` names is redirected there."""

    def __init__(self, *args, elsewhere, asked, **more):
        self.elsewhere, self.asked = elsewhere, asked
        super().__init__(*args, **more)

    def send_head(self):
        self.asked.append(self.path)
        for part, place in self.elsewhere.items():
            if part in self.path:
                self.send_response(302)
                self.send_header("Location", f"{place}{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
        return super().send_head()

    def log_message(self, *args):
        pass


@contextmanager
def serving(folder, elsewhere):
    """The address of a web server, and the paths that it was asked for."""
    asked = []
    handler = partial(Handler, directory=str(folder), elsewhere=elsewhere, asked=asked)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for label, colour in (("elm", (200, 30, 30)), ("oak", (30, 200, 30))):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(3):
            pixels = np.array(colour) + rng.integers(-30, 30, (32, 32, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / label / f"{number}.png")
    return tmp_path


def learn(*arguments):
    return CliRunner().invoke(app, ["learn", *map(str, arguments)])


def test_a_redirect_to_another_host_is_refused_unless_it_is_asked_for(photos):
    model = photos / "m.safetensors"
    with serving(photos, {}) as (other, asked), serving(photos, {"photos": other}) as (address, _):
        refused = learn(f"{address}/photos", "--model", model, "--backbone", "reduced_resnet18")
        assert refused.exit_code == 2, refused.output
        assert f"leads to another host, {other}: " in " ".join(refused.stderr.split())
        assert "--follow-redirects" in refused.stderr
        assert asked == []
        assert not model.exists()
        allowed = learn(f"{address}/photos", "--model", model, "--backbone", "reduced_resnet18", "--follow-redirects")
        assert allowed.exit_code == 0, allowed.output
        assert vs.load(model).class_counts_.tolist() == [3, 3]
        assert asked


def test_one_photo_that_leads_to_another_host_is_skipped_and_named(photos):
    model = photos / "m.safetensors"
    with serving(photos, {}) as (other, asked), serving(photos, {"elm/1.png": other}) as (address, _):
        told = learn(f"{address}/photos", "--model", model, "--backbone", "reduced_resnet18")
        assert told.exit_code == 1, told.output
        assert "elm/1.png cannot be read: it leads to another host" in told.stderr
        assert vs.load(model).class_counts_.tolist() == [2, 3]
        assert asked == []


def test_a_redirect_within_the_host_is_followed(photos):
    """As web servers do from a folder's name to the same with a slash, and from one place to another."""
    (photos / "old").symlink_to(photos / "photos")
    with serving(photos, {}) as (address, asked):
        told = learn(f"{address}/old", "--model", photos / "m.safetensors", "--backbone", "reduced_resnet18")
        assert told.exit_code == 0, told.output
        assert {"/old", "/old/"} <= set(asked)


def test_python_has_to_ask_for_redirects_too(photos):
    model = NEW(vs.NearestClassMean())
    with serving(photos, {}) as (other, asked), serving(photos, {"photos": other}) as (address, _):
        image = f"{address}/photos/elm/1.png"
        with pytest.raises(ImageError, match="leads to another host"):
            model.partial_fit([image], ["elm"])
        assert asked == []
        model.partial_fit([RedirectingUrl(image)], ["elm"])
        assert model.classes_.tolist() == ["elm"]
