"""A real service: how it starts and ends, and clients that are slow or malicious."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from threadpoolctl import threadpool_info

import votestream as vs
from painted import paint, run
from serve.http_client import image, serving
from serve.processes import environment, listening, service
from votestream.cli import serve as cli
from votestream.serve.engine import Engine
from votestream.serve.web import server
from votestream.serve.web.options import Limits

TOKEN = "a-token-of-some-letters"


def raw(port, *sent, pause=0.0):
    """What comes back for bytes that are sent as they are, and how many seconds the connection stood."""
    began, got = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        try:
            for piece in sent:
                connection.sendall(piece)
                time.sleep(pause)
            while chunk := connection.recv(65536):
                got += chunk
        except ConnectionError:  # it was dropped
            pass
        return got, time.monotonic() - began


LIMITS = Limits(header_seconds=0.4, body_seconds=0.4, slowest_rate=1000)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), limits=LIMITS) as client:
        yield client


@pytest.fixture(scope="module")
def port(client):
    with listening(client.app, LIMITS) as port:
        yield port


def test_sigterm_ends_it_in_an_orderly_way_and_the_model_file_has_every_lesson(tmp_path):
    model, key = tmp_path / "shop.safetensors", {"authorization": f"Bearer {TOKEN}"}
    with service(model, VOTESTREAM_TOKEN=TOKEN) as running:
        assert running.http.get("/v1/model").status_code == 401
        for label in ("red", "green"):
            running.http.post(
                "/v1/learn", params={"label": label}, content=image(label), headers=key
            ).raise_for_status()
        with running.http.stream("GET", "/v1/events", headers=key) as reader:  # who reads events does not delay it
            next(reader.iter_lines())
            code, said = running.end()
    assert code == 0
    assert "with the token" in said
    assert "Traceback" not in said
    assert vs.load(model).class_counts_.tolist() == [1, 1]


def test_ctrl_c_ends_it_with_the_code_of_all_commands(tmp_path, monkeypatch):
    monkeypatch.setattr(
        cli, "_print_addresses", lambda *args: signal.raise_signal(signal.SIGINT)
    )  # as soon as it listens
    ended = run("serve", tmp_path / "m.safetensors", "--port", 0, "--backbone", "pixels")
    assert ended.exit_code == 130, ended.output
    assert "Traceback" not in ended.output


def test_who_tries_to_change_a_served_model_learns_where_it_is_served(tmp_path, monkeypatch):
    model, outputs = tmp_path / "m.safetensors", []

    def others(*_):
        outputs.extend(run("learn", tmp_path / "photos", "--model", model) for _ in range(2))
        outputs.append(run("serve", model, "--port", 0))
        signal.raise_signal(signal.SIGINT)

    paint(tmp_path / "photos", "red", 2)
    monkeypatch.setattr(cli, "_print_addresses", others)
    assert run("serve", model, "--port", 0, "--backbone", "pixels").exit_code == 130
    for each in outputs:
        assert each.exit_code == 2
        assert re.search(r"m.safetensors is served at http://127.0.0.1:\d+/?, and only that service", each.stderr)
    (tmp_path / ".m.safetensors.served").write_text('{"served_at": "http://killed"}')  # left by one that was killed
    assert run("learn", tmp_path / "photos", "--model", model, "--backbone", "pixels").exit_code == 0
    assert not (tmp_path / ".m.safetensors.served").exists()


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"GET / HTTP/1.1\r\nHost: 127.0.0.1", *[b"a"] * 8],
        [b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", *[b"G"] * 8],  # a whole request, and the next one slowly
    ],
)
def test_a_client_that_sends_its_headers_slowly_is_dropped(port, pieces):
    _, seconds = raw(port, *pieces, pause=0.1)
    assert 0.2 < seconds < 2


def test_a_client_that_sends_its_body_slowly_gets_an_error(port):
    head = b"POST /v1/learn?label=a HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 99\r\n\r\n"
    got, _ = raw(port, head, *[b"a"] * 3, pause=0.1)
    assert got.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /v1/undo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /v1/undo HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_what_is_no_http_request_is_refused(port, sent):
    got, _ = raw(port, sent + b"\r\n\r\n")
    assert re.match(rb"HTTP/1.1 4\d\d ", got), got


def test_a_chunk_that_is_none_in_the_middle_of_a_body_is_refused(port):
    head = b"POST /v1/undo HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert not raw(port, head, b"zz\r\n\r\n")[0].startswith(b"HTTP/1.1 2")


def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(port):
    head = (
        f"POST /v1/learn?label=a HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {1 << 40}\r\n\r\n"
    )
    assert raw(port, head.encode())[0].startswith(b"HTTP/1.1 413")


def test_a_client_that_hangs_up_in_the_middle_of_a_body_harms_nobody(port, client):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /v1/learn?label=a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nabc")
    assert httpx.get(f"http://127.0.0.1:{port}/v1/model").json()["lesson"] == 0


def test_answers_on_a_kept_connection_do_not_wait_for_delayed_acknowledgements(port):
    """Those wait for 40 ms, where the parts of an answer are sent one by one with Nagle's algorithm on."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as kept:
        taken = []
        for _ in range(15):
            began = time.perf_counter()
            kept.get("/healthz")
            taken.append(time.perf_counter() - began)
    assert min(taken) < 0.03


HOST = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UPLOAD = b"POST /v1/learn?label=red" + HOST


@contextmanager
def bodies_under_way(port, *heads):
    """Connections that have sent such heads of requests, and no body yet."""
    with ExitStack() as held:
        opened = [held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in heads]
        for connection, head in zip(opened, heads, strict=True):
            connection.sendall(head + b"\r\n")
        time.sleep(0.05)
        yield opened


@contextmanager
def crowded(folder, *heads, token=None, **most):
    """The port of a service with these limits, and connections under way to it."""
    limits = Limits(**most)
    with (
        serving(folder, limits=limits, token=token) as client,
        listening(client.app, limits) as port,
        bodies_under_way(port, *heads) as opened,
    ):
        yield port, opened


SLOW = UPLOAD + b"Content-Length: 1000\r\n"


def test_health_checks_answer_while_slow_bodies_hold_all_places(tmp_path):
    with crowded(tmp_path, SLOW, SLOW, requests=2) as (port, _):
        answers = {path: httpx.get(f"http://127.0.0.1:{port}{path}") for path in ("/healthz", "/readyz", "/v1/model")}
        assert {path: answer.status_code for path, answer in answers.items()} == {
            "/healthz": 200,
            "/readyz": 200,
            "/v1/model": 429,
        }


def test_the_containers_health_check_passes_while_the_service_is_busy(tmp_path):
    """As the image has it, also where the environment names a proxy."""
    image_file = (Path(__file__).parents[3] / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    check = json.loads(re.search(r"HEALTHCHECK[^\[]*\sCMD (\[.*\])", image_file)[1])
    assert check[0] == "python"
    proxy = environment(http_proxy="http://127.0.0.1:9")
    with crowded(tmp_path, SLOW, SLOW, requests=2) as (port, _):
        for at, passes in ((port, True), (1, False)):
            code = check[2].replace("8080", str(at))
            ended = subprocess.run([sys.executable, "-c", code], env=proxy, capture_output=True)
            assert (ended.returncode == 0) is passes, ended.stderr


def test_slow_bodies_make_way_for_other_requests_and_the_slowest_goes_first(tmp_path):
    with crowded(tmp_path, SLOW, SLOW, requests=2, grace_seconds=0.2) as (port, (slower, faster)):
        slower.sendall(b"x")
        faster.sendall(b"x" * 300)
        time.sleep(0.2)
        assert httpx.post(f"http://127.0.0.1:{port}/v1/learn?label=red", content=image("red")).status_code == 200
        assert slower.recv(65536).startswith(b"HTTP/1.1 408")
        faster.sendall(b"x" * 700)
        assert faster.recv(65536).startswith(b"HTTP/1.1 422")  # it came whole, and is no image


def test_bytes_that_are_announced_and_not_sent_make_way_for_those_that_are(tmp_path):
    with crowded(tmp_path, SLOW, held_bytes=1100, grace_seconds=0.2) as (port, (slow,)):
        address = f"http://127.0.0.1:{port}/v1/learn?label=red"
        assert httpx.post(address, content=image("red")).status_code == 429
        time.sleep(0.2)
        assert httpx.post(address, content=image("red")).status_code == 200
        assert slow.recv(65536).startswith(b"HTTP/1.1 408")


def test_a_body_without_a_token_is_refused_at_once_and_takes_nobodys_place(tmp_path):
    with crowded(tmp_path, SLOW, SLOW, SLOW, token=TOKEN, requests=1, header_seconds=0.3) as (port, refused):
        for connection in refused:
            assert connection.recv(65536).startswith(b"HTTP/1.1 401")
        key = {"authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"http://127.0.0.1:{port}/v1/model", headers=key).status_code == 200
        began = time.monotonic()
        with suppress(ConnectionError):  # the connection ends soon, whatever is sent
            while time.monotonic() - began < 3:
                refused[0].sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - began < 1.5


def test_connections_that_send_nothing_make_way_for_those_that_do(tmp_path):
    idle = [b"GET /healthz" + HOST + b"X-Not-Yet: "] * 3
    with crowded(tmp_path, *idle, connections=3) as (port, opened):
        for _ in range(2):
            assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        assert opened[0].recv(1) == b""  # the oldest was closed


def test_a_port_that_is_taken_is_named_before_any_model_is_opened(port, tmp_path):
    ended = run("serve", tmp_path / "m.safetensors", "--port", port)
    assert ended.exit_code == 2
    assert f"Port {port} is taken" in ended.output
    assert not list(tmp_path.iterdir())


def test_https_is_spoken_with_a_certificate(client, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not installed")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    made += f" -addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    subprocess.run(made.split(), check=True, capture_output=True)
    server.check_certificate(certificate, key)
    with listening(client.app, LIMITS, (certificate, key)) as port:
        context = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"https://localhost:{port}/healthz", verify=context).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{0}/damaged.safetensors"], "damaged.safetensors"),
        (["{0}/empty"], "holds no model file"),
        (["{0}/none/m.safetensors"], "There is no folder"),
        (["{0}/m.safetensors", "--host", "0.0.0.0"], "Give a token, such as --token"),
        (["{0}/m.safetensors", "--host", "192.0.2.1", "--token", TOKEN], "not an address of this computer"),
        (["{0}/m.safetensors", "--token", "short"], "at least 16"),
        (["{0}/m.safetensors", "--token", "with spaces in between"], "at least 16"),
        (["{0}/m.safetensors", "--allow-origin", "shop.example"], "an origin must be such as"),
        (["{0}/m.safetensors", "--certificate", "{0}/damaged.safetensors"], "both --certificate and --key"),
        (["{0}/m.safetensors", "--certificate", "{0}/none", "--key", "{0}/none"], "not a certificate and its key"),
        (["{0}/m.safetensors", "--label-studio-url", "studio"], "the address of Label Studio must be"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_sentence(tmp_path, arguments, sentence):
    (tmp_path / "damaged.safetensors").write_bytes(b"some bytes")
    (tmp_path / "empty").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    ended = run("serve", "--port", 0, *(argument.format(tmp_path) for argument in arguments))
    assert ended.exit_code == 2, ended.output
    assert sentence in ended.output
    assert "Traceback" not in ended.output
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_token_that_is_offered_is_one(tmp_path):
    ended = run("serve", tmp_path / "m.safetensors", "--host", "0.0.0.0")
    offered = re.search(r"--token (\S+)", ended.output)[1]
    assert cli._check_token(offered, "0.0.0.0") == offered


def test_without_the_extra_the_command_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "NEEDED_PACKAGES", ("fastapi", "a_package_that_nobody_has"))
    ended = run("serve", tmp_path / "m.safetensors")
    assert ended.exit_code == 2
    assert "pip install 'votestream[serve]'" in ended.output


def test_importing_votestream_imports_nothing_of_the_extra():
    code = (
        "import sys, votestream, votestream.cli.main as m; print([n for n in m.serve_app and sys.modules if n in %r])"
    )
    code %= {"fastapi", "uvicorn", "segno", "starlette"}
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_folder_of_models_is_served_by_their_names(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").touch()
    (tmp_path / "notes.txt").touch()
    assert list(cli.models_in(tmp_path)) == ["a", "b"]
    assert cli.models_in(tmp_path / "new.safetensors") == {"new": tmp_path / "new.safetensors"}


def test_the_sample_is_learned_by_a_new_model(tmp_path):
    from votestream.serve.engine import Engine
    from votestream.serve.engine.settings import EngineSettings

    engine = Engine.open(tmp_path / "m.safetensors", EngineSettings(backbone="pixels", device="cpu"))
    cli.train_on_sample(engine)
    about = engine.describe()
    assert len(about["classes"]) == 10
    assert len(about["tasks"]) == 5
    cli.train_on_sample(engine)
    assert engine.describe()["lesson"] == about["lesson"]
    engine.close()
    json.dumps(about)


def test_answers_are_computed_on_one_thread_each(tmp_path, monkeypatch):
    threads = []

    def run_shortly(self, sockets):
        threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

    monkeypatch.setattr(server.Server, "run", run_shortly)
    outputs = run("serve", tmp_path / "m.safetensors", "--port", "0")
    assert outputs.exit_code == 0, outputs.output
    assert set(threads) == {1}


def test_a_service_that_ends_while_its_network_is_loading_waits_for_it(tmp_path):
    loading = {thread for thread in threading.enumerate() if thread.name == "load"}  # of other tests
    Engine.open(tmp_path / "m.safetensors").close()
    assert {thread for thread in threading.enumerate() if thread.name == "load"} <= loading
