"""Who gets through: Host, Origin and token, and the headers on every answer."""

from __future__ import annotations

import base64

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from serve.http_client import HERE, Client
from votestream.serve.web.options import Options
from votestream.serve.web.security import AccessControl, check_origin

TOKEN = "a token of 24 letters..."


def guarded(**options):
    async def fine(request):
        return PlainTextResponse("fine")

    routes = [
        Route(path, fine, methods=["GET", "POST", "DELETE"])
        for path in ("/", "/v1/learn", "/v1/events", "/predict", "/v1/models/a/label-studio/webhook")
    ]
    return Client(AccessControl(Starlette(routes=routes), Options(**options)))


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080"])
def test_loopback_names_are_let_in(host):
    assert guarded().get("/v1/learn", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "192.168.1.5",
        "",
        "[::1",
        "a:b",
    ],
)
def test_a_foreign_host_is_refused_against_dns_rebinding(host):
    answer = guarded().get("/v1/learn", headers={"host": host})
    assert answer.status_code == 403
    assert "--allow-host" in answer.json()["error"]


def test_a_host_that_was_allowed_is_let_in():
    client = guarded(allow_hosts=("Shop.example",))
    assert client.get("/v1/learn", headers={"host": "shop.example"}).status_code == 200
    assert client.get("/v1/learn", headers={"host": "other.example"}).status_code == 403


def test_on_all_addresses_any_address_is_a_host_but_no_foreign_name():
    client = guarded(host="0.0.0.0", token=TOKEN)
    key = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/v1/learn", headers={"host": "192.168.1.5:8080", **key}).status_code == 200
    assert client.get("/v1/learn", headers={"host": "evil.example", **key}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8080", "http://127.0.0.1", ""]
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/learn"), ("DELETE", "/v1/learn"), ("GET", "/v1/events")])
def test_another_sites_page_cannot_send_requests(method, path, origin):
    assert guarded().request(method, path, headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("origin", [HERE, "https://127.0.0.1:8080", None])
def test_our_own_page_and_programs_can_send_requests(origin):
    headers = {} if origin is None else {"origin": origin}
    assert guarded().post("/v1/learn", headers=headers).status_code == 200


def test_a_page_of_plain_http_cannot_send_requests_to_the_https_service():
    client = Client(guarded(https=True).app, base_url="https://127.0.0.1:8080")
    assert client.post("/v1/learn", headers={"origin": HERE}).status_code == 403


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_what_the_browser_says_of_the_sender_is_believed_where_there_is_no_origin(site, status):
    assert guarded().post("/v1/learn", headers={"sec-fetch-site": site}).status_code == status


def test_a_link_on_another_site_may_open_the_page():
    assert guarded().get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_cors_is_closed_unless_an_origin_is_allowed():
    shop = {"origin": "https://shop.example"}
    closed, opened = guarded(), guarded(allow_origins=("https://shop.example",))
    assert "access-control-allow-origin" not in closed.get("/v1/learn", headers=shop).headers
    assert closed.options("/v1/learn", headers=shop).status_code == 403
    assert opened.post("/v1/learn", headers=shop).headers["access-control-allow-origin"] == "https://shop.example"
    before = opened.options("/v1/learn", headers={**shop, "access-control-request-method": "POST"})
    assert before.status_code == 204
    assert "authorization" in before.headers["access-control-allow-headers"]
    assert opened.post("/v1/learn", headers={"origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "sent", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN, "Bearer \xff"]
)
def test_without_the_token_nothing_is_sent(sent):
    headers = {} if sent is None else {"authorization": sent.encode("latin-1")}
    answer = guarded(token=TOKEN).post("/v1/learn", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_with_the_token_one_gets_through():
    assert guarded(token=TOKEN).post("/v1/learn", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


def test_the_page_itself_needs_no_token_as_it_asks_for_it():
    assert guarded(token=TOKEN).get("/").status_code == 200


def test_label_studio_may_send_the_token_as_a_password_and_nobody_else():
    basic = {"authorization": "Basic " + base64.b64encode(f"any:{TOKEN}".encode()).decode()}
    wrong = {"authorization": "Basic " + base64.b64encode(b"any:wrong").decode()}
    client = guarded(token=TOKEN)
    assert client.post("/predict", headers=basic).status_code == 200
    assert client.post("/v1/models/a/label-studio/webhook", headers=basic).status_code == 200
    assert client.post("/predict", headers=wrong).status_code == 401
    assert client.post("/predict", headers={"authorization": "Basic !"}).status_code == 401
    assert client.post("/v1/learn", headers=basic).status_code == 401


@pytest.mark.parametrize("path", ["/", "/v1/learn", "/nowhere"])
def test_every_answer_has_the_security_headers(path):
    for client in (guarded(), guarded(token=TOKEN)):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["host", "authorization", "origin", "content-type"])
def test_a_header_that_is_sent_twice_is_refused(name):
    answer = guarded().post("/v1/learn", headers=[(name, "127.0.0.1:8080"), (name, "127.0.0.1:8080")])
    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/v1/learn?label=caf%e9", "/v1/learn/%ff"])
def test_an_address_that_is_no_text_is_refused(path):
    assert guarded().post(path).status_code == 400


@pytest.mark.parametrize("origin", ["shop.example", "https://shop.example/page", "ftp://shop.example", "*", ""])
def test_an_origin_to_allow_must_be_one(origin):
    with pytest.raises(ValueError, match="an origin must be such as"):
        check_origin(origin)
