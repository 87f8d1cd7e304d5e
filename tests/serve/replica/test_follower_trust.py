"""A follower trusts nobody: not its writer, not what stands between, not the options it is started with."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from painted import run
from serve.followers import answering, dripping, following, http, lesson_of, refused, teach, writing
from serve.history import until
from serve.http_client import image
from serve.processes import listening
from votestream.model_store.paths import ModelStoreError
from votestream.serve.app import create_app
from votestream.serve.engine import Engine
from votestream.serve.engine.messages import ModelVersion, NotReady, Upload
from votestream.serve.engine.settings import EngineSettings
from votestream.serve.replica import upstream as upstream_module
from votestream.serve.replica.upstream import Unreachable, Unusable, Upstream
from votestream.serve.web.options import Limits, Options

TOKEN = "a-token-of-some-letters"


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies" / "copy.safetensors"


# ---- a writer that is hostile, or broken ----------------------------------------------------------

ETAG = f'"{"0" * 16}-7-{"0" * 32}"'


def tagged(data):
    """An answer with that file, and an ETag that fits it."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    return http(200, data, etag=ModelVersion("0" * 16, 7, digest).tag)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (http(200, b"data"), "sends no model that can be followed"),
        (http(200, b"data", etag='"abc"'), "sends no model that can be followed"),
        (http(409, b"", etag=ETAG), "contradicts itself"),
        (http(200, b"", etag=ETAG, content_length=1 << 40), "at most 4,294,967,296 bytes, got 1099511627776"),
        (http(302, location="http://elsewhere.example/"), r"redirects to http://elsewhere.example/"),
        (http(404, b'{"error": "Several models\\u001b are served"}'), r"status 404: Several models\? are served"),
        (http(401), "needs a token"),
        (tagged(pickle.dumps(print)), "The file of http://.* is damaged or not a VoteStream model"),
        (tagged(b""), "damaged or not a VoteStream model"),
    ],
)
def test_an_answer_that_cannot_be_followed_is_named_and_nothing_is_written(copy, answer, why):
    with answering(answer) as (address, _), pytest.raises(ModelStoreError, match=why):
        refused(copy, address)
    assert list(copy.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (http(200, b"data", etag=ETAG), "does not match its ETag"),
        (http(200, b"data", etag=ETAG, content_length=99), "broke off after 4 of 99 bytes"),
        (http(503), "status 503"),
        (b"", "cannot be reached"),
        (b"HTTP/1.1 200 \r\nx: " + b"x" * 70_000, "cannot be reached"),
    ],
)
def test_a_broken_answer_passes_and_is_asked_for_again(copy, answer, why):
    with answering(answer) as (address, requests), following(copy, address) as follower:
        assert follower.state == "loading"
        until(lambda: any(why in problem for problem in follower._problems.values()))
        until(lambda: sum("/v1/model/file" in request for request in requests) > 2)
    assert list(copy.parent.iterdir()) == []


def test_a_token_goes_to_the_named_address_only(copy):
    with answering(http(200)) as (other, got):
        with answering(http(307, location=other)) as (address, requests), pytest.raises(ModelStoreError):
            refused(copy, address, token=TOKEN)
        assert f"Authorization: Bearer {TOKEN}\r\n" in requests[0]
        assert got == []


def test_a_writer_that_asks_for_a_token_gets_it(tmp_path, copy):
    with writing(tmp_path / "w.safetensors", token=TOKEN) as (engine, address):
        teach(engine, "cat")
        for wrong, why in ((None, "needs a token"), ("another-token-of-letters", "does not accept this token")):
            with pytest.raises(ModelStoreError, match=why):
                refused(copy, address, token=wrong)
        with following(copy, address, token=TOKEN) as follower:
            teach(engine, "dog")
            until(lambda: lesson_of(follower) == 2)


@contextmanager
def a_byte_now_and_then(start):
    """The address of a server that answers with `start`, and then a byte every 50 ms for ever."""
    over = threading.Event()

    def serve():
        with suppress(OSError), listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(start)
            while not over.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join(5)


def received(address):
    with Upstream(address).file(None) as sent:
        return sum(map(len, sent.chunks))


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (
            http(200, b"", etag=ETAG, content_length=1 << 20),
            "sends its model file too slowly: less than 16,384 bytes/s",
        ),
        (b"HTTP/1.1 200 Said\r\nX-Endless: ", "cannot be reached: "),
        (http(500, b"", content_length=1 << 10), "answers with status 500"),
    ],
    ids=["file", "head", "refusal"],
)
def test_a_writer_that_drips_is_left_however_many_bytes_it_sends(monkeypatch, start, why):
    monkeypatch.setattr(upstream_module, "SECONDS", 0.2)
    began = time.monotonic()
    with a_byte_now_and_then(start) as address, pytest.raises(Unreachable, match=why):
        received(address)
    assert time.monotonic() - began < 2


def test_an_event_that_drips_is_no_sign_of_life(monkeypatch):
    monkeypatch.setattr(upstream_module, "MAX_SILENCE_SECONDS", 0.2)
    start = b"HTTP/1.1 200 Said\r\nContent-Type: text/event-stream\r\n\r\n: here\ndata: "
    with a_byte_now_and_then(start) as address, Upstream(address).events() as read_events:
        assert next(read_events).lesson is None
        with pytest.raises(Unreachable):
            next(read_events)


def test_a_model_file_may_pause_and_go_on(monkeypatch):
    """As slow as is allowed is not too slow, and what came fast at first is no excuse later."""
    monkeypatch.setattr(upstream_module, "SECONDS", 0.3)
    monkeypatch.setattr(upstream_module, "MIN_BYTES_PER_SECOND", 20)  # the bytes come at about this rate
    start = http(200, bytes(1000), etag=ETAG, content_length=1012)
    with a_byte_now_and_then(start) as address:
        assert received(address) == 1012
    monkeypatch.setattr(upstream_module, "MIN_BYTES_PER_SECOND", 1 << 10)
    with a_byte_now_and_then(start) as address, pytest.raises(Unreachable, match="too slowly"):
        received(address)


def test_a_follower_says_that_it_is_stale_while_its_writer_drips_and_goes_on_afterwards(tmp_path, copy, monkeypatch):
    """The writer's events come through all the while: they alone do not make a copy fresh."""
    monkeypatch.setattr(upstream_module, "SECONDS", 0.2)
    with writing(tmp_path / "w.safetensors") as (engine, writer), dripping(writer) as (address, slow):
        teach(engine, "cat")
        with following(copy, address, max_stale=0.5) as follower:
            until(lambda: follower.state == "ready" and follower.describe()["following"]["seconds_behind"] == 0)
            slow.set()

            def stale():
                teach(engine, "cat")  # which is told of
                time.sleep(0.05)
                return follower.stale and follower._counts["failed updates"] > 0

            until(stale)
            assert follower._silent_seconds < 0.5
            assert follower.state == "stale"
            assert "too slowly" in follower.problem
            assert lesson_of(follower) == 1
            slow.clear()
            until(lambda: lesson_of(follower) == lesson_of(engine) and not follower.stale)


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"data: " + b"x" * 70_000, Unusable, "events that are too long"),
        (b": hello\n", Unreachable, "ended the connection"),
    ],
)
def test_events_without_end_are_left(body, kind, why):
    answer = http(200, body, content_type="text/event-stream")
    with answering(answer) as (address, _), Upstream(address).events() as read_events, pytest.raises(kind, match=why):
        list(read_events)


def test_a_page_in_place_of_events_is_refused():
    with answering(http(200, b"<html>", content_type="text/html")) as (address, _):
        stream = Upstream(address).events()
        with pytest.raises(Unusable, match="sends no events"):
            stream.__enter__()


def test_a_backbone_that_is_a_file_or_a_download_is_only_made_where_it_was_allowed(tmp_path, copy, monkeypatch):
    engine = Engine.open(tmp_path / "w.safetensors", EngineSettings(backbone="pixels", device="cpu"))
    engine.learn([Upload(image("red"))], "red").result()
    monkeypatch.setitem(engine._view.backbone, "name", "onnx:/etc/other.onnx")
    data = engine.model_file()[1]
    engine.close()
    with answering(tagged(data)) as (address, _):
        with pytest.raises(ModelStoreError, match=r"uses the backbone onnx:/etc/other.onnx.*name it with --backbone"):
            refused(copy, address)
        allowed = EngineSettings(device="cpu", backbone="onnx:/etc/other.onnx")
        with following(copy, address, settings=allowed) as follower:
            until(lambda: follower.state == "ready")
            assert "onnx" in follower.problem
            with pytest.raises(NotReady):
                follower.predict([Upload(image("red"))]).result()


def test_a_certificate_that_is_not_valid_here_is_refused(tmp_path, copy, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not installed")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    made += f" -addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    subprocess.run(made.split(), check=True, capture_output=True)
    engine = Engine.open(tmp_path / "w.safetensors", EngineSettings(backbone="pixels", device="cpu"))
    try:
        teach(engine, "cat")
        with listening(create_app({"shop": engine}, Options()), Limits(), (certificate, key)) as port:
            address = f"https://localhost:{port}"
            with pytest.raises(
                ModelStoreError, match=r"The certificate of .* is not valid here: self.signed certificate"
            ):
                refused(copy, address)
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            with following(copy, address) as follower:
                assert lesson_of(follower) == 1
    finally:
        engine.close()


# ---- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["{0}", "--follow", "http://writer:8080"], "--follow copies one model"),
        (["{0}/m.safetensors", "--follow", "writer:8080"], "must be such as http://writer:8080, got 'writer:8080'"),
        (["{0}/m.safetensors", "--follow", "http://user:pass@writer"], "must be such as"),
        (["{0}/m.safetensors", "--follow", "http://writer:99999"], "Port out of range"),
        (["{0}/m.safetensors", "--follow", "http://writer", "--sample"], "leave --sample out"),
        (["{0}/m.safetensors", "--max-stale", "60"], "--max-stale need --follow URL"),
        (["{0}/m.safetensors", "--follow", "http://w", "--follow-token-file", "{0}/none"], "none: No such file"),
        (["{0}/m.safetensors", "--follow", "http://w", "--follow-token-file", "{0}/two words"], "must be one word"),
    ],
)
def test_options_that_make_no_sense_for_a_follower_are_refused_with_a_sentence(tmp_path, arguments, why):
    (tmp_path / "two words").write_text("two words")
    ended = run("serve", *(argument.format(tmp_path) for argument in arguments))
    assert ended.exit_code == 2, ended.output
    assert why in " ".join(ended.output.split())
    assert not (tmp_path / "m.safetensors").exists()


def test_an_address_may_name_one_of_several_models():
    for url in ("http://writer:8080/v1/models/shop", "http://writer:8080/v1/models/shop/"):
        assert (Upstream(url)._routes, Upstream(url).page) == ("/v1/models/shop", "http://writer:8080")
    assert (Upstream("https://w/sub")._routes, Upstream("https://w/sub").page) == ("/sub/v1", "https://w/sub")
