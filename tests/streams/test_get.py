"""Fetching: complete and checked or not at all, and an interruption costs only what had not come."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

import votestream as vs
from votestream.cli.main import app
from votestream.common.progress import note
from votestream.streams import get, patient_http
from votestream.streams.catalogue import SOURCES

from .samples import write_cifar10


class Server:
    """One file at 127.0.0.1, and the ways in which servers fail."""

    def __init__(self, content: bytes):
        self.content, self.asked = content, []
        self.breaks_after: int | None = None  # bytes of an answer, then the line goes dead
        self.knows_ranges, self.status = True, 200
        self.endless, self.sent, self.redirects_to = False, 0, ""
        self.drips, self.drop = "", 1  # what comes a drop at a time, and bytes in a drop
        self.raw = b""  # sent instead of an answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                wanted = self.headers.get("Range")
                outer.asked.append(wanted)
                if outer.status != 200:
                    self.send_error(outer.status)
                    return
                start = int(wanted[6:-1]) if wanted and outer.knows_ranges else 0
                if start >= len(outer.content):
                    self.send_error(416)
                    return
                if outer.raw or outer.drips in ("headers", "nothing"):
                    self.drip(outer.raw if outer.raw else b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000)
                    return
                body = outer.content[start:]
                self.send_response(302 if (moved := self.moved()) else 206 if start else 200)
                if moved:
                    self.send_header("Location", outer.redirects_to)
                elif not outer.endless:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if outer.drips:
                    self.drip(body)
                elif outer.endless or moved:
                    self.pour(body)
                else:
                    self.wfile.write(body[: outer.breaks_after])

            def moved(self):
                return outer.redirects_to and not outer.redirects_to.endswith(self.path)

            def drip(self, body):
                pause = 0 if outer.raw else 1 if outer.drips == "nothing" else 0.01
                size = len(body) if outer.raw else outer.drop
                with suppress(OSError):  # whoever asked has gone
                    for start in range(0, min(len(body), 60 * size), size):
                        time.sleep(pause)
                        self.wfile.write(body[start : start + size])

            def pour(self, body):
                with suppress(OSError):
                    while outer.sent < 100_000_000:
                        self.wfile.write(body)
                        outer.sent += len(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/cifar-10-python.tar.gz"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def archive(tmp_path) -> bytes:
    folder = write_cifar10(tmp_path / "made", per_file=10)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return file.getvalue()


@pytest.fixture
def server(archive, monkeypatch):
    server = Server(archive)
    source = SOURCES["cifar10"]
    official = replace(source.archives[0], url=server.url, md5=hashlib.md5(archive).hexdigest(), bytes=len(archive))
    monkeypatch.setitem(SOURCES, "cifar10", replace(source, archives=(official,)))
    yield server
    server.server.shutdown()
    server.server.server_close()


def here() -> list[str]:
    return sorted(os.listdir("."))


def test_get_fetches_checks_unpacks_and_leaves_only_the_data(server):
    assert [path.name for path in vs.get_data("cifar10", ".")] == ["cifar-10-batches-py"]
    assert here() == ["cifar-10-batches-py"]
    assert len(vs.load_data("cifar10", ".").y) == 50
    assert vs.get_data("cifar10", ".") == []
    assert server.asked == [None]


def test_two_who_ask_at_once_fetch_once(server):
    made = []
    both = [threading.Thread(target=lambda: made.append(vs.get_data("cifar10", "."))) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(map(len, made)) == [0, 1]
    assert server.asked == [None]
    assert here() == ["cifar-10-batches-py"]


def test_a_broken_line_is_gone_on_with(server):
    server.breaks_after = len(server.content) // 2 + 1  # so the second answer brings all that is left
    vs.get_data("cifar10", ".")
    assert server.asked == [None, f"bytes={server.breaks_after}-"]
    assert here() == ["cifar-10-batches-py"]


def test_a_half_downloaded_file_is_kept_named_and_gone_on_with_by_the_next_call(server):
    server.breaks_after = 100
    with pytest.raises(vs.DataError, match=r"ended after .*\.part keeps what has come; the same command goes on"):
        vs.get_data("cifar10", ".")
    assert here() == ["cifar-10-python.tar.gz.part"]
    assert "300 bytes of" in CliRunner().invoke(app, ["data", "list", "--data-dir", "."]).output
    server.breaks_after = None
    vs.get_data("cifar10", ".")
    assert server.asked == [None, "bytes=100-", "bytes=200-", "bytes=300-"]
    assert here() == ["cifar-10-batches-py"]


def test_a_server_that_cannot_go_on_is_asked_for_everything(server):
    with open("cifar-10-python.tar.gz.part", "wb") as file:
        file.write(server.content[:50])
    server.knows_ranges = False
    vs.get_data("cifar10", ".")
    assert server.asked == ["bytes=50-"]
    assert here() == ["cifar-10-batches-py"]


@pytest.mark.parametrize("extra", [0, 10])
def test_a_part_as_long_as_the_file_or_longer_is_judged_by_its_checksum(server, extra):
    with open("cifar-10-python.tar.gz.part", "wb") as file:
        file.write(server.content + b"x" * extra)
    vs.get_data("cifar10", ".")
    assert here() == ["cifar-10-batches-py"]
    assert server.asked == [f"bytes={len(server.content) + extra}-"] + [None] * bool(extra)


def test_a_part_of_another_file_is_thrown_away(server):
    with open("cifar-10-python.tar.gz.part", "wb") as file:
        file.write(b"something else entirely")
    vs.get_data("cifar10", ".")
    assert server.asked == ["bytes=23-", None]
    assert here() == ["cifar-10-batches-py"]


def test_a_wrong_checksum_is_refused_and_nothing_stays(server):
    server.content = b"<html>Please log in to the guest network</html>"
    with pytest.raises(vs.DataError, match=r"not the published file: its md5 is .* It was deleted"):
        vs.get_data("cifar10", ".")
    assert here() == []


def test_an_error_of_the_server_is_told_at_once(server):
    server.status = 404
    with pytest.raises(vs.DataError, match="the server answers 404"):
        vs.get_data("cifar10", ".")
    assert server.asked == [None]
    assert here() == []


def test_no_connection_says_so_and_leaves_nothing(server, monkeypatch):
    gone = replace(SOURCES["cifar10"].archives[0], url="http://127.0.0.1:9/cifar-10-python.tar.gz")
    monkeypatch.setitem(SOURCES, "cifar10", replace(SOURCES["cifar10"], archives=(gone,)))
    result = CliRunner().invoke(app, ["data", "get", "cifar10", "--data-dir", "."])
    assert result.exit_code == 2
    assert "cannot be fetched: Connection refused" in result.output
    assert "By hand: put the folder cifar-10-batches-py of http://127.0.0.1:9/" in result.output
    assert here() == []


def test_a_server_that_never_stops_sending_is_cut_off_and_nothing_stays(server):
    server.endless = True
    with pytest.raises(vs.DataError, match=r"not the published file: it is longer than [\d,]+ bytes"):
        vs.get_data("cifar10", ".")
    assert here() == []
    assert server.sent < len(server.content) + 10_000_000  # what fits into the buffers of a connection


def test_a_server_that_goes_on_beyond_the_end_is_cut_off_too(server):
    with open("cifar-10-python.tar.gz.part", "wb") as file:
        file.write(server.content[:-10])
    server.endless = True
    with pytest.raises(vs.DataError, match="longer than"):
        vs.get_data("cifar10", ".")
    assert server.asked == [f"bytes={len(server.content) - 10}-", None]
    assert here() == []


@pytest.mark.parametrize("drips", ["headers", "body"])
def test_a_server_that_drips_is_let_go_and_what_came_is_kept(server, monkeypatch, drips):
    monkeypatch.setattr(patient_http, "PATIENCE", 0.1)
    server.drips = drips
    start = time.monotonic()
    with pytest.raises(vs.DataError, match=r"cannot be fetched: (the server is too slow|timed out)"):
        vs.get_data("cifar10", ".")
    assert time.monotonic() - start < 5
    assert here() == (["cifar-10-python.tar.gz.part"] if drips == "body" else [])


def test_a_server_that_falls_silent_is_let_go(server, monkeypatch):
    monkeypatch.setattr(patient_http, "PATIENCE", 0.1)
    server.drips = "nothing"
    with pytest.raises(vs.DataError, match="cannot be fetched: timed out"):
        vs.get_data("cifar10", ".")


def test_a_slow_line_that_brings_enough_is_waited_for(server, monkeypatch):
    monkeypatch.setattr(patient_http, "PATIENCE", 0.4)
    monkeypatch.setattr(patient_http, "LEAST", 10)
    server.drips, server.drop = "body", len(server.content) // 50
    vs.get_data("cifar10", ".")
    assert here() == ["cifar-10-batches-py"]


def test_the_endless_body_of_a_redirection_is_not_read(server):
    server.redirects_to = server.url + "/there"
    vs.get_data("cifar10", ".")
    assert server.sent < 10_000_000
    assert here() == ["cifar-10-batches-py"]


@pytest.mark.parametrize("header", ["Content-Length: many", "Location: //["])
def test_headers_that_make_no_sense_are_an_error_of_ours(server, header):
    server.raw = f"HTTP/1.1 {'302 Found' if 'Location' in header else '200 OK'}\r\n{header}\r\n\r\n".encode()
    with pytest.raises(vs.DataError, match="cannot be fetched"):
        vs.get_data("cifar10", ".")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 404 \x1b]0;owned\x07\x1b[2J\r\n\r\n",
        b"\x1b[2J owned\r\n\r\n",
        b"HTTP/1.1 302 \x1b[2J\r\nLocation: file:///\x1b[2J\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \x1b[2J\r\n\r\n",
    ],
)
def test_control_characters_of_a_server_do_not_reach_the_terminal(server, raw):
    server.raw = raw
    with pytest.raises(vs.DataError) as caught:
        vs.get_data("cifar10", ".", progress=True)
    assert str(caught.value).isprintable()


def test_a_note_shows_a_servers_brackets_as_they_are(capsys):
    note("The connection broke ([/red] [link=x]); going on.", show=True)
    assert "([/red] [link=x])" in capsys.readouterr().err


def test_an_archive_put_there_by_hand_is_used(server, archive):
    with open("cifar-10-python.tar.gz", "wb") as file:
        file.write(archive)
    vs.get_data("cifar10", ".")
    assert server.asked == []
    assert here() == ["cifar-10-batches-py"]


def test_a_wrong_archive_put_there_by_hand_is_refused_and_left_alone(server):
    with open("cifar-10-python.tar.gz", "wb") as file:
        file.write(b"mine")
    with pytest.raises(vs.DataError, match=r"not the published archive.*Delete it"):
        vs.get_data("cifar10", ".")
    assert here() == ["cifar-10-python.tar.gz"]


def test_interrupted_unpacking_leaves_nothing_half_written(server, monkeypatch):
    def interrupted(*_):
        assert any(name.startswith(".cifar-10-batches-py-") for name in here())
        raise KeyboardInterrupt

    monkeypatch.setattr(get.os, "replace", interrupted)
    with open("cifar-10-python.tar.gz", "wb") as file:
        file.write(server.content)
    with pytest.raises(KeyboardInterrupt):
        vs.get_data("cifar10", ".")
    assert here() == ["cifar-10-python.tar.gz"]


def test_unknown_names_get_a_suggestion():
    result = CliRunner().invoke(app, ["data", "get", "cifar-10"])
    assert result.exit_code == 2
    assert "Did you mean 'cifar10'" in " ".join(result.output.replace("│", " ").split())


def test_list_shows_classes_size_terms_and_citation(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    write_cifar10(tmp_path)
    text = CliRunner().invoke(app, ["data", "list", "--data-dir", str(tmp_path)]).output
    for part in ("cifar100", "169.0 MB", "200", "164,866 of 128 x 128", "CC BY 4.0", "Krizhevsky", "Lomonaco", "yes, "):
        assert part in text
